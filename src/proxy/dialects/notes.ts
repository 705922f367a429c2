// What a reader notes about a request that it took although it could not carry all of it over.
import type { Diagnostic } from '../../contract/call.ts'

/** One call notes at most this many things: what is said of the first ones holds for the rest. */
const MAX_NOTES = 64
const MAX_DETAIL = 200

export function note(diagnostics: Diagnostic[], code: string, detail: string): void {
  if (diagnostics.length < MAX_NOTES) diagnostics.push({ code, detail: detail.slice(0, MAX_DETAIL) })
}
