// A call's sampled argument text as the object that some dialects tell: one rule for what is no object, and for numbers.
import type { ToolCall } from '../chat.ts'
import { isObject, type JsonObject, parseObject } from '../json.ts'

/**
 * The object that the text says; empty for a text that says none. Numbers keep the digits they were sampled with:
 * an id of twenty digits or a `1.0` reaches the agent as the model wrote it once the object is stringified.
 */
export function parsedArguments(text: string): JsonObject {
  if (parseObject(text) === null) return {}
  const value: unknown = JSON.parse(text, exactNumber)
  return isObject(value) ? value : {}
}

/** A call whose arguments were told as an object; what is none was told as an empty one. */
export function echoedObject(call: ToolCall): ToolCall {
  const { name, arguments: text } = call.function
  return parseObject(text) === null ? { ...call, function: { name, arguments: '{}' } } : call
}

/** Part of every Node this runs on, and not yet of TypeScript's library. */
const exact = JSON as typeof JSON & { readonly rawJSON: (source: string) => unknown }

function exactNumber(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  return typeof value === 'number' && context?.source !== undefined ? exact.rawJSON(context.source) : value
}
