// The opaque text that travels with an answer's reasoning and names the call it came from: padded base64, as Google's clients demand.
import { Buffer } from 'node:buffer'

const PREFIX = 'polar:'
const CALL_ID = /^[0-9a-f]{32}$/

export function signatureOf(call: string): string {
  return Buffer.from(PREFIX + call).toString('base64')
}

/** The call that a signature names; null for a signature of somebody else. */
export function signedCall(signature: unknown): string | null {
  if (typeof signature !== 'string') return null
  const text = Buffer.from(signature, 'base64').toString()
  const call = text.slice(PREFIX.length)
  return text.startsWith(PREFIX) && CALL_ID.test(call) ? call : null
}
