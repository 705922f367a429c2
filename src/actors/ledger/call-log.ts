// The call records of one session, as they were written: a list that shares what was there before with each that is added.
import type { CallRecord } from '../../contract/call.ts'

/** Newest first, so that appending copies nothing. */
export type CallLog = {
  readonly call: CallRecord
  readonly bytes: number
  readonly earlier: CallLog | null
}

/** What one call record is counted as beyond its lists and notes: strings and object heads. */
const CALL_BYTES = 1024
/** Beside its text. */
const NOTE_BYTES = 64

export function bytesOf({ promptMessages, diagnostics }: CallRecord): number {
  return diagnostics.reduce((sum, { detail }) => sum + NOTE_BYTES + detail.length, CALL_BYTES + 8 * promptMessages.length)
}

export function logBytes(log: CallLog | undefined): number {
  let bytes = 0
  for (let row = log ?? null; row !== null; row = row.earlier) bytes += row.bytes
  return bytes
}

/** In the order of their first record; a call that was recorded again, because its delivery was mended, stands once, as it was mended. */
export function callsOf(log: CallLog | undefined): readonly CallRecord[] {
  const written: CallRecord[] = []
  for (let row = log ?? null; row !== null; row = row.earlier) written.push(row.call)
  return [...new Map(written.reverse().map((call) => [call.id, call])).values()]
}
