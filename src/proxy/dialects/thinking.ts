// How much a model is to think, in the terms of chat templates and engines: on or off, and an effort that every engine takes.
import type { Diagnostic } from '../../contract/call.ts'
import { isObject, type JsonObject } from '../json.ts'
import { note } from '../notes.ts'
import { isAbsent, text } from './reading.ts'

/**
 * The parameter by which a chat template is told; a caller that says nothing leaves it to the model's profile.
 * What the request says in the template's own terms wins.
 */
export function thinkingSwitch(isOn: boolean, stated?: unknown): JsonObject {
  return { chat_template_kwargs: { enable_thinking: isOn, ...(isObject(stated) ? stated : {}) } }
}

type Effort = 'low' | 'medium' | 'high'

/** Vendors know more of them than engines do. */
const EFFORTS: { readonly [effort: string]: Effort } = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

/** The nearest effort that engines know, with a note where it is another one; null when absent or known to nobody. */
export function readEffort(value: unknown, place: string, diagnostics: Diagnostic[]): Effort | null {
  if (isAbsent(value)) return null
  const given = text(value, place)
  const effort = Object.hasOwn(EFFORTS, given) ? EFFORTS[given] : undefined
  if (effort === undefined) note('field-dropped', place, diagnostics)
  else if (effort !== given) note('field-approximated', `${place}: ${given} became ${effort}`, diagnostics)
  return effort ?? null
}
