// Text for `/bin/sh`: one word from any string, and placeholders replaced by variables whatever quotes stand around them.

export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/**
 * Replaces each `{{NAME}}` by an expansion of the variable given for it. The value itself never enters the command's text, so it is one
 * word, unchanged, and none of it is run, whether the placeholder stands bare, in double quotes or in single quotes.
 */
export function withPlaceholders(command: string, variables: ReadonlyMap<string, string>): string {
  let result = ''
  let quote: '' | '"' | "'" = ''
  for (let at = 0; at < command.length; at += 1) {
    const placeholder = /^\{\{([A-Z_]+)\}\}/.exec(command.slice(at, at + 64))
    const variable = placeholder === null ? undefined : variables.get(placeholder[1] ?? '')
    if (placeholder !== null && variable !== undefined) {
      result += quote === '"' ? `\${${variable}}` : quote === "'" ? `'"\${${variable}}"'` : `"\${${variable}}"`
      at += placeholder[0].length - 1
      continue
    }
    const character = command.charAt(at)
    if (quote === '' && character === '#' && (at === 0 || /\s/.test(command.charAt(at - 1)))) {
      // A comment: its apostrophes open nothing.
      const end = command.indexOf('\n', at)
      result += command.slice(at, end === -1 ? command.length : end)
      at = (end === -1 ? command.length : end) - 1
      continue
    }
    result += character
    if (character === '\\' && quote !== "'") {
      at += 1
      result += command.charAt(at)
    } else if (quote === '' && (character === '"' || character === "'")) {
      quote = character
    } else if (character === quote) {
      quote = ''
    }
  }
  return result
}
