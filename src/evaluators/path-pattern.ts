// Patterns for paths as in an ignore file: `*`, `?`, `[a-z]` within a name, `**` across folders; hidden files are files like others.

const SPECIAL = /[\\^$.|+(){}]/g

/** True when a pattern matches the path or a folder above it; one without a slash matches a name at any depth. */
export function pathMatcher(patterns: readonly string[]): (path: string) => boolean {
  const expressions = patterns.map((pattern) => new RegExp(`^${expressionOf(pattern)}(?:/.*)?$`, 's'))
  return (path) => expressions.some((expression) => expression.test(path))
}

function expressionOf(pattern: string): string {
  const trimmed = pattern.replace(/^\/+|\/+$/g, '').replace(/(?:\*\*\/)+/g, '**/')
  const anchored = pattern.replace(/\/+$/, '').includes('/') ? trimmed : `**/${trimmed}`
  return anchored
    .split(/(\*\*\/|\*\*|\*|\?|\[[^\]/]+\])/)
    .map((part) => {
      if (part === '**/') return '(?:.*/)?'
      if (part === '**') return '.*'
      if (part === '*') return '[^/]*'
      if (part === '?') return '[^/]'
      if (/^\[[^\]/]+\]$/.test(part)) return `[${part.slice(1, -1).replace(/^!/, '^').replace(/[\\[]/g, '\\$&')}]`
      return part.replace(SPECIAL, '\\$&').replaceAll('[', '\\[').replaceAll(']', '\\]')
    })
    .join('')
}
