// A request's bytes → the JSON object in them: content codings undone within the size limit, then parsed.
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate, zstdDecompress } from 'node:zlib'
import type { IncomingCall } from './boundary.ts'
import { type Failure, failure } from './failure.ts'
import { describe, isObject, type JsonObject, parseJson } from './json.ts'

export type ReadBody =
  | { readonly ok: true; readonly body: JsonObject }
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

/** `failure: null` means that the client is gone. */
export async function readBody(call: IncomingCall, contentEncoding: string | null, maxBytes: number): Promise<ReadBody> {
  const read = await call.body()
  if (!read.ok) return { ok: false, failure: read.error === 'gone' ? null : tooLarge(maxBytes) }
  if (read.bytes.byteLength > maxBytes) return { ok: false, failure: tooLarge(maxBytes) }
  const decoded = await decode(read.bytes, contentEncoding, maxBytes)
  if (!decoded.ok) return decoded
  const parsed = parseJson(decoded.bytes)
  if (!parsed.ok) return { ok: false, failure: failure('malformed-json', `the request body is not JSON: ${parsed.detail}`) }
  if (!isObject(parsed.value)) {
    return { ok: false, failure: failure('invalid-request', `the request body must be a JSON object, not ${describe(parsed.value)}`) }
  }
  return { ok: true, body: parsed.value }
}

type Decoded = { readonly ok: true; readonly bytes: Uint8Array } | { readonly ok: false; readonly failure: Failure }

async function decode(bytes: Uint8Array, contentEncoding: string | null, maxBytes: number): Promise<Decoded> {
  // Applied in the order written, so undone from the end.
  const codings = (contentEncoding ?? '')
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity')
    .reverse()
  if (codings.length > MAX_CODINGS)
    return { ok: false, failure: failure('unsupported-encoding', `more than ${MAX_CODINGS} content codings`) }
  let decoded = bytes
  for (const coding of codings) {
    const decoder = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined
    if (decoder === undefined) {
      return {
        ok: false,
        failure: failure('unsupported-encoding', `content-encoding ${JSON.stringify(coding.slice(0, 32))} is not supported`),
      }
    }
    try {
      decoded = await decoder(decoded, { maxOutputLength: maxBytes })
    } catch (error) {
      const isTooLarge = error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE'
      return { ok: false, failure: isTooLarge ? tooLarge(maxBytes) : failure('invalid-request', `the request body is not valid ${coding}`) }
    }
  }
  return { ok: true, bytes: decoded }
}

function tooLarge(maxBytes: number): Failure {
  return failure('too-large', `the request body exceeds ${maxBytes} bytes`)
}
