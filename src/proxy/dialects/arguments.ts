// A call's sampled argument text as the object that some dialects tell: one rule for what is no object, and for numbers.
import type { ToolCall } from '../chat.ts'
import { isObject, type JsonObject, parseObject } from '../json.ts'

/**
 * The object that the text says; null for a text that says none. Numbers keep the digits they were sampled with:
 * an id of twenty digits or a `1.0` reaches the agent as the model wrote it once the object is stringified.
 */
export function exactObject(text: string): JsonObject | null {
  if (parseObject(text) === null) return null
  const value: unknown = JSON.parse(text, exactNumber)
  return isObject(value) ? value : null
}

/** The text where it says an object, else that of an empty one: what the deltas of a stream add up to. */
export function objectText(text: string): string {
  return parseObject(text) === null ? '{}' : text
}

/** A call whose arguments were told as an object. */
export function echoedObject(call: ToolCall): ToolCall {
  const { name, arguments: text } = call.function
  return { ...call, function: { name, arguments: objectText(text) } }
}

/** Part of every Node this runs on, and not yet of TypeScript's library. */
const exact = JSON as typeof JSON & { readonly rawJSON: (source: string) => unknown }

function exactNumber(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  return typeof value === 'number' && context?.source !== undefined ? exact.rawJSON(context.source) : value
}
