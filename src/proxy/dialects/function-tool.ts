// A client's function as the pivot's tool.
import type { Diagnostic } from '../../contract/call.ts'
import type { Tool } from '../chat.ts'
import type { JsonObject } from '../json.ts'
import { note } from '../notes.ts'
import { isAbsent, text } from './reading.ts'

/** `rest` holds what a dialect adds to name, description and schema; absent ones are left out. */
export function functionTool(name: string, description: string | null, parameters: JsonObject | null, rest: JsonObject = {}): Tool {
  return {
    type: 'function',
    function: { name, ...(description === null ? {} : { description }), ...(parameters === null ? {} : { parameters }), ...rest },
  }
}

export function readDescription(value: unknown, place: string): string | null {
  return isAbsent(value) ? null : text(value, place, true)
}

/** Engines hold a strict tool's arguments to its schema, which no sample of a training session may be. */
export function readStrict(value: unknown, place: string, tier: 'train' | 'eval', diagnostics: Diagnostic[]): { readonly strict?: true } {
  if (value !== true) return {}
  if (tier === 'eval') return { strict: true }
  note('field-dropped', place, diagnostics)
  return {}
}
