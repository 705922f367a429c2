import { describe, expect, it } from 'vitest'
import { type MetadataValue, readGguf, writeGguf } from '../../examples/tiny-policy/gguf.ts'

const metadata = new Map<string, MetadataValue>([
  ['text', { type: 'string', value: 'Ġé 日本' }],
  ['no text', { type: 'string', value: '' }],
  ['yes', { type: 'bool', value: true }],
  ['no', { type: 'bool', value: false }],
  ['uint8', { type: 'uint8', value: 200 }],
  ['int8', { type: 'int8', value: -100 }],
  ['uint16', { type: 'uint16', value: 60_000 }],
  ['int16', { type: 'int16', value: -30_000 }],
  ['uint32', { type: 'uint32', value: 4_000_000_000 }],
  ['int32', { type: 'int32', value: -2_000_000_000 }],
  ['uint64', { type: 'uint64', value: 2 ** 52 }],
  ['int64', { type: 'int64', value: -(2 ** 52) }],
  ['float32', { type: 'float32', value: 0.5 }],
  ['float64', { type: 'float64', value: Math.PI }],
  ['strings', { type: 'strings', value: ['a', '', 'ü'] }],
  ['numbers', { type: 'numbers', of: 'int32', value: [1, -1] }],
  ['no numbers', { type: 'numbers', of: 'float32', value: [] }],
  ['bools', { type: 'bools', value: [true, false] }],
])

const tensors = [
  { name: 'matrix', dimensions: [3, 2], data: Float32Array.of(1, 2, 3, 4, 5, 6) },
  { name: 'vector', dimensions: [1], data: Float32Array.of(-1.5) },
  { name: 'wide', dimensions: [9], data: Float32Array.from({ length: 9 }, (_, index) => index / 7) },
]

function read(bytes: Uint8Array) {
  const result = readGguf(bytes)
  if (!result.ok) throw new Error(result.error)
  return result.file
}

describe('a GGUF file', () => {
  const bytes = writeGguf({ metadata, tensors })

  it('gives back its metadata of every type, in order', () => {
    expect([...read(bytes).metadata]).toEqual([...metadata])
  })

  it('gives back its tensors, each at a multiple of 32 bytes and where it says', () => {
    const { tensors: found } = read(bytes)
    expect(found.map(({ name, dimensions, data }) => ({ name, dimensions, data }))).toEqual(tensors)
    for (const { byteOffset, data } of found) {
      expect(byteOffset % 32).toBe(0)
      expect(new Float32Array(bytes.slice(byteOffset, byteOffset + data.byteLength).buffer)).toEqual(data)
    }
  })

  it.each([1, 2, 3, 4])('is read the same from an odd place in memory (%i bytes in)', (offset) => {
    const larger = new Uint8Array(bytes.length + offset)
    larger.set(bytes, offset)
    expect(read(larger.subarray(offset))).toEqual(read(bytes))
  })

  it('follows an alignment of its own', () => {
    const aligned = new Map<string, MetadataValue>([['general.alignment', { type: 'uint32', value: 64 }]])
    const written = writeGguf({ metadata: aligned, tensors: tensors.slice(0, 1) })
    // The writer aligns to 32 bytes: what stands there is moved on to where a reader of 64 expects it.
    const [tensor] = read(Buffer.concat([written, new Uint8Array(64)])).tensors
    expect(tensor!.byteOffset % 64).toBe(0)
  })

  it('is refused to be written with a tensor of another size than it says', () => {
    expect(() => writeGguf({ metadata, tensors: [{ name: 'odd', dimensions: [2, 2], data: new Float32Array(3) }] })).toThrow('odd')
  })
})

describe('what is no GGUF file', () => {
  const bytes = writeGguf({ metadata, tensors })
  const changed = (at: number, value: number): Uint8Array => {
    const copy = Uint8Array.from(bytes)
    new DataView(copy.buffer).setUint32(at, value, true)
    return copy
  }
  /** Where `general.x` and its type begin in a file of one key. */
  const oneKey = writeGguf({ metadata: new Map([['x', { type: 'bool', value: true }]]), tensors: tensors.slice(0, 1) })
  const withType = (type: number): Uint8Array => {
    const copy = Uint8Array.from(oneKey)
    new DataView(copy.buffer).setUint32(24 + 8 + 1, type, true)
    return copy
  }
  const tensorEntry = Buffer.from(oneKey).indexOf('matrix')
  const withTensorWord = (at: number, value: number): Uint8Array => {
    const copy = Uint8Array.from(oneKey)
    new DataView(copy.buffer).setUint32(tensorEntry + 'matrix'.length + at, value, true)
    return copy
  }

  it.each([
    ['nothing', new Uint8Array(), 'it ends in the middle, after 0 bytes'],
    ['another format', Buffer.from('PK\u0003\u0004 and so on, for long enough'), 'it does not begin with GGUF'],
    ['an older version', changed(4, 2), 'it is of GGUF version 2; only version 3 is read'],
    ['a file that was cut', bytes.subarray(0, 300), 'it ends in the middle, after 300 bytes'],
    ['a file without its last bytes', bytes.subarray(0, bytes.length - 32), 'the data of tensor wide ends after the file'],
    ['a count beyond all numbers', changed(20, 0xffff_ffff), /^it has the unlikely number/],
    ['a count beyond the file', changed(16, 0xffff_ffff), /^it (ends in the middle|has )/],
    ['a type that is none', withType(13), 'it has a value of the unknown type 13'],
    ['a tensor of halves', withTensorWord(4 + 16, 1), 'tensor matrix is of ggml type 1; only F32 (0) is read'],
    ['a tensor of too many dimensions', withTensorWord(0, 100_000), 'tensor matrix has 100000 dimensions'],
  ])('is told why: %s', (_, given, error) => {
    expect(readGguf(given)).toEqual({ ok: false, error: typeof error === 'string' ? error : expect.stringMatching(error) })
  })

  it('is an error, never an exception, wherever it was cut', () => {
    // Of the last tensor's 36 bytes on, what follows is padding.
    const end = bytes.length - 28
    expect(readGguf(bytes.subarray(0, end)).ok).toBe(true)
    for (let length = 0; length < end; length += 1) expect(readGguf(bytes.subarray(0, length)).ok).toBe(false)
  })
})
