// A request's bytes → the JSON object in them: content codings undone within the limits, then parsed.
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate, zstdDecompress } from 'node:zlib'
import type { Diagnostic } from '../contract/call.ts'
import type { IncomingCall } from './boundary.ts'
import { type Failure, failure } from './failure.ts'
import { describe, isObject, type JsonObject, parseJson } from './json.ts'
import { valuesIn } from './json-values.ts'
import { type Hold, TOO_MUCH } from './request-memory.ts'
import { wellFormed } from './well-formed.ts'

export type ReadBody =
  | { readonly ok: true; readonly body: JsonObject; readonly diagnostics: readonly Diagnostic[] }
  | { readonly ok: false; readonly failure: Failure }
  | { readonly ok: false; readonly failure: null }

type Decoder = (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Promise<Uint8Array>

const DECODERS: { readonly [coding: string]: Decoder } = {
  gzip: promisify<Uint8Array, { readonly maxOutputLength: number }, Uint8Array>(gunzip),
  'x-gzip': promisify<Uint8Array, { readonly maxOutputLength: number }, Uint8Array>(gunzip),
  deflate: promisify<Uint8Array, { readonly maxOutputLength: number }, Uint8Array>(inflate),
  br: promisify<Uint8Array, { readonly maxOutputLength: number }, Uint8Array>(brotliDecompress),
  zstd: promisify<Uint8Array, { readonly maxOutputLength: number }, Uint8Array>(zstdDecompress),
}

const MAX_CODINGS = 4
/** No conversation is coded to so small a part of its size; what is was made to cost its reader. */
const MAX_RATIO = 256
/** To which the shortest may grow all the same. */
const MIN_DECODED_BYTES = 2 ** 22
/** An agent's longest conversation holds some ten thousand. */
const MAX_VALUES = 1_000_000
/** Of memory, for a value that is as good as empty. */
const VALUE_BYTES = 64
/** Below this size all values together weigh little. */
const UNCOUNTED_BYTES = 2 ** 18

export type BodyLimits = { readonly maxBytes: number; readonly hold: Hold }

/** What is read stays counted in `hold`. `failure: null` means that the client is gone. */
export async function readBody(call: IncomingCall, contentEncoding: string | null, limits: BodyLimits): Promise<ReadBody> {
  const { maxBytes, hold } = limits
  const read = await call.body((bytes) => hold.take(bytes))
  if (!read.ok) {
    if (read.error === 'gone') return { ok: false, failure: null }
    return { ok: false, failure: read.error === 'full' ? TOO_MUCH : tooLarge(maxBytes) }
  }
  if (read.bytes.byteLength > maxBytes) return { ok: false, failure: tooLarge(maxBytes) }
  const decoded = await decode(read.bytes, contentEncoding, limits)
  if (!decoded.ok) return decoded
  const values = decoded.bytes.byteLength < UNCOUNTED_BYTES ? 0 : valuesIn(decoded.bytes)
  if (values > MAX_VALUES) return { ok: false, failure: failure('too-large', `the request body holds more than ${MAX_VALUES} values`) }
  if (!hold.take(values * VALUE_BYTES)) return { ok: false, failure: TOO_MUCH }
  const parsed = parseJson(decoded.bytes)
  if (!parsed.ok) return { ok: false, failure: failure('malformed-json', `the request body is not JSON: ${parsed.detail}`) }
  if (!isObject(parsed.value)) {
    return { ok: false, failure: failure('invalid-request', `the request body must be a JSON object, not ${describe(parsed.value)}`) }
  }
  const { value, isMended } = wellFormed(parsed.value, decoded.bytes)
  return { ok: true, body: value, diagnostics: isMended ? [MENDED] : [] }
}

const MENDED: Diagnostic = { code: 'text-mended', detail: 'half of a surrogate pair became U+FFFD' }

type Decoded = { readonly ok: true; readonly bytes: Uint8Array } | { readonly ok: false; readonly failure: Failure }

async function decode(bytes: Uint8Array, contentEncoding: string | null, limits: BodyLimits): Promise<Decoded> {
  // Applied in the order written, so undone from the end.
  const codings = (contentEncoding ?? '')
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity')
    .reverse()
  if (codings.length > MAX_CODINGS)
    return { ok: false, failure: failure('unsupported-encoding', `more than ${MAX_CODINGS} content codings`) }
  if (codings.length === 0) return { ok: true, bytes }
  const decoders: Decoder[] = []
  for (const coding of codings) {
    const decoder = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined
    if (decoder === undefined) {
      return {
        ok: false,
        failure: failure('unsupported-encoding', `content-encoding ${JSON.stringify(coding.slice(0, 32))} is not supported`),
      }
    }
    decoders.push(decoder)
  }
  return limits.hold.alone(() => decodeWith(decoders, codings, bytes, limits))
}

async function decodeWith(
  decoders: readonly Decoder[],
  codings: readonly string[],
  bytes: Uint8Array,
  { maxBytes, hold }: BodyLimits,
): Promise<Decoded> {
  const maxOutputLength = Math.min(maxBytes, Math.max(MIN_DECODED_BYTES, bytes.byteLength * MAX_RATIO))
  let decoded = bytes
  for (const [index, decoder] of decoders.entries()) {
    try {
      decoded = await decoder(decoded, { maxOutputLength })
    } catch (error) {
      const isTooLarge = error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE'
      return {
        ok: false,
        failure: isTooLarge ? tooLarge(maxOutputLength) : failure('invalid-request', `the request body is not valid ${codings[index]}`),
      }
    }
  }
  return hold.take(decoded.byteLength) ? { ok: true, bytes: decoded } : { ok: false, failure: TOO_MUCH }
}

function tooLarge(maxBytes: number): Failure {
  return failure('too-large', `the request body exceeds ${maxBytes} bytes`)
}
