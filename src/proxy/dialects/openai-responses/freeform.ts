// The one text of a freeform tool's call: told bare to the client, and to the engine as the one argument of a function.
import { isObject, parseJsonText } from '../../json.ts'

/** Whatever shape the model gave it: `{"input": text}`, another single text, or the text alone. */
export function bareText(argumentsText: string): string {
  const parsed = parseJsonText(argumentsText)
  if (!parsed.ok) return argumentsText
  if (!isObject(parsed.value)) return typeof parsed.value === 'string' ? parsed.value : argumentsText
  const { input } = parsed.value
  if (typeof input === 'string') return input
  const [only, ...others] = Object.values(parsed.value)
  return typeof only === 'string' && others.length === 0 ? only : argumentsText
}

export function freeformArguments(text: string): string {
  return JSON.stringify({ input: text })
}
