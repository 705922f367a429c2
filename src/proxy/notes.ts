// What of a request was dropped, moved or approximated, as its record will say: bounded, for what holds of the first ones holds for the rest.
import type { Diagnostic } from '../contract/call.ts'
import type { JsonObject } from './json.ts'

const MAX_NOTES = 64
const MAX_NOTE_CHARS = 200

export function note(code: string, detail: string, diagnostics: Diagnostic[]): void {
  if (diagnostics.length < MAX_NOTES) diagnostics.push({ code, detail: detail.slice(0, MAX_NOTE_CHARS) })
}

/** Fields of the gateway's own, which are for nobody else. */
const INTERNAL = '_proxy_'

/** Notes the fields that are not carried over; null stands for absent. */
export function noteDropped(value: JsonObject, known: ReadonlySet<string>, place: string, diagnostics: Diagnostic[]): void {
  for (const [name, field] of Object.entries(value)) {
    if (field === null || known.has(name) || name.startsWith(INTERNAL)) continue
    note('field-dropped', `${place === '' ? '' : `${place}.`}${name.slice(0, 64)}`, diagnostics)
  }
}
