// MessagePack a piece at a time: what a plain decoder of its specification reads, without extension types.
import { endianness } from 'node:os'
import { Packr } from 'msgpackr'

const packr = new Packr({ useRecords: false })

/** Any JSON value. */
export function packValue(value: unknown): Uint8Array {
  return packr.pack(value)
}

/** So many keys and values follow. */
export function packMap(size: number): Uint8Array {
  return size < 16 ? Uint8Array.of(0x80 | size) : head(0xdf, size)
}

/** So many values follow. */
export function packArray(length: number): Uint8Array {
  return length < 16 ? Uint8Array.of(0x90 | length) : head(0xdd, length)
}

/** The members of an object, with room for some more behind them. */
export function* packMembers(object: Readonly<Record<string, unknown>>, more: number): Generator<Uint8Array> {
  const members = Object.entries(object)
  yield packMap(members.length + more)
  for (const [key, value] of members) {
    yield packValue(key)
    yield packValue(value)
  }
}

export type ElementType = 'i4' | 'u1' | 'f4'

const BYTES: { readonly [type in ElementType]: number } = { i4: 4, u1: 1, f4: 4 }
const ORDER = endianness() === 'LE' ? '<' : '>'

/** `{dtype, shape, data}`: `data` holds the elements as they lie in memory, `dtype` says so in NumPy's words. */
export function* packTyped(type: ElementType, bytes: Uint8Array): Generator<Uint8Array> {
  yield* packMembers({ dtype: `${type === 'u1' ? '|' : ORDER}${type}`, shape: [bytes.byteLength / BYTES[type]] }, 1)
  yield packValue('data')
  yield head(0xc6, bytes.byteLength)
  yield bytes
}

function head(type: number, count: number): Uint8Array {
  const bytes = Buffer.alloc(5)
  bytes[0] = type
  bytes.writeUInt32BE(count, 1)
  return bytes
}
