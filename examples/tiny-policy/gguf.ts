// GGUF version 3, the file format of llama.cpp's models: metadata and F32 tensors, read from bytes and written to bytes.

type NumberType = 'uint8' | 'int8' | 'uint16' | 'int16' | 'uint32' | 'int32' | 'uint64' | 'int64' | 'float32' | 'float64'

type Scalar =
  | { readonly type: NumberType; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }

export type MetadataValue =
  | Scalar
  | { readonly type: 'numbers'; readonly of: NumberType; readonly value: readonly number[] }
  | { readonly type: 'bools'; readonly value: readonly boolean[] }
  | { readonly type: 'strings'; readonly value: readonly string[] }

export type Tensor = {
  readonly name: string
  /** In GGUF's order: the first one is contiguous. A matrix of `out` rows of `in` columns is `[in, out]`. */
  readonly dimensions: readonly number[]
  readonly data: Float32Array
}

export type Gguf = { readonly metadata: ReadonlyMap<string, MetadataValue>; readonly tensors: readonly Tensor[] }

/** What was read, and where each tensor's data begins in the file. */
export type GgufFile = Omit<Gguf, 'tensors'> & { readonly tensors: readonly (Tensor & { readonly byteOffset: number })[] }

const MAGIC = 'GGUF'
const VERSION = 3
const F32 = 0
const DEFAULT_ALIGNMENT = 32
/** The format sets none; models have four. Counts in a damaged file must not become loops without an end. */
const MAX_DIMENSIONS = 8

/** GGUF's numbers of the types of values. */
const TYPES = [
  'uint8',
  'int8',
  'uint16',
  'int16',
  'uint32',
  'int32',
  'float32',
  'bool',
  'string',
  'array',
  'uint64',
  'int64',
  'float64',
] as const
type TypeName = (typeof TYPES)[number]

class Malformed extends Error {}

/** Everything in the file; the tensors' data are views of `bytes` where its place in memory allows it. */
export function readGguf(
  bytes: Uint8Array,
): { readonly ok: true; readonly file: GgufFile } | { readonly ok: false; readonly error: string } {
  try {
    return { ok: true, file: parse(bytes) }
  } catch (error) {
    if (error instanceof Malformed) return { ok: false, error: error.message }
    throw error
  }
}

/** Little-endian, tensors in the order given, each at a multiple of 32 bytes. */
export function writeGguf({ metadata, tensors }: Gguf): Uint8Array {
  const head = openWriter()
  head.raw(Buffer.from(MAGIC))
  head.number('uint32', VERSION)
  head.number('uint64', tensors.length)
  head.number('uint64', metadata.size)
  for (const [key, value] of metadata) {
    head.string(key)
    writeValue(head, value)
  }
  let offset = 0
  for (const { name, dimensions, data } of tensors) {
    if (dimensions.reduce((product, each) => product * each, 1) !== data.length) throw new Error(`tensor ${name} has not the size it says`)
    head.string(name)
    head.number('uint32', dimensions.length)
    for (const each of dimensions) head.number('uint64', each)
    head.number('uint32', F32)
    head.number('uint64', offset)
    offset = aligned(offset + data.byteLength, DEFAULT_ALIGNMENT)
  }
  const start = aligned(head.length(), DEFAULT_ALIGNMENT)
  const file = new Uint8Array(start + offset)
  file.set(head.bytes())
  let position = start
  for (const { data } of tensors) {
    file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), position)
    position = aligned(position + data.byteLength, DEFAULT_ALIGNMENT)
  }
  return file
}

function parse(bytes: Uint8Array): GgufFile {
  const reader = openReader(bytes)
  if (Buffer.from(reader.take(MAGIC.length)).toString('latin1') !== MAGIC) throw new Malformed('it does not begin with GGUF')
  const version = reader.number('uint32')
  if (version !== VERSION) throw new Malformed(`it is of GGUF version ${version}; only version ${VERSION} is read`)
  const tensorCount = reader.number('uint64')
  const keyCount = reader.number('uint64')
  const metadata = new Map<string, MetadataValue>()
  for (let index = 0; index < keyCount; index += 1) metadata.set(reader.string(), readValue(reader))
  const entries = Array.from(repeat(tensorCount), () => readTensorEntry(reader))
  const alignment = metadata.get('general.alignment')
  const start = aligned(reader.position(), alignment?.type === 'uint32' ? alignment.value : DEFAULT_ALIGNMENT)
  return {
    metadata,
    tensors: entries.map(({ name, dimensions, offset }) => {
      const length = dimensions.reduce((product, each) => product * each, 1)
      const byteOffset = start + offset
      if (byteOffset + 4 * length > bytes.byteLength) throw new Malformed(`the data of tensor ${name} ends after the file`)
      return { name, dimensions, byteOffset, data: floatsOf(bytes, byteOffset, length) }
    }),
  }
}

function readTensorEntry(reader: Reader): { readonly name: string; readonly dimensions: readonly number[]; readonly offset: number } {
  const name = reader.string()
  const count = reader.number('uint32')
  if (count > MAX_DIMENSIONS) throw new Malformed(`tensor ${name} has ${count} dimensions`)
  const dimensions = Array.from(repeat(count), () => reader.number('uint64'))
  const type = reader.number('uint32')
  if (type !== F32) throw new Malformed(`tensor ${name} is of ggml type ${type}; only F32 (${F32}) is read`)
  return { name, dimensions, offset: reader.number('uint64') }
}

function readValue(reader: Reader): MetadataValue {
  const type = readType(reader)
  if (type !== 'array') return readScalar(reader, type)
  const of = readType(reader)
  const length = reader.number('uint64')
  if (of === 'string') return { type: 'strings', value: Array.from(repeat(length), reader.string) }
  if (of === 'bool') return { type: 'bools', value: Array.from(repeat(length), () => reader.number('uint8') !== 0) }
  if (of === 'array') throw new Malformed('it has an array of arrays, which is not read')
  return { type: 'numbers', of, value: Array.from(repeat(length), () => reader.number(of)) }
}

function readScalar(reader: Reader, type: Exclude<TypeName, 'array'>): Scalar {
  if (type === 'string') return { type, value: reader.string() }
  if (type === 'bool') return { type, value: reader.number('uint8') !== 0 }
  return { type, value: reader.number(type) }
}

function readType(reader: Reader): TypeName {
  const number = reader.number('uint32')
  const type = TYPES[number]
  if (type === undefined) throw new Malformed(`it has a value of the unknown type ${number}`)
  return type
}

function writeValue(writer: Writer, value: MetadataValue): void {
  const write = { number: writer.number, string: writer.string, bool: (each: boolean) => writer.number('uint8', each ? 1 : 0) }
  const typeNumber = (type: TypeName): void => writer.number('uint32', TYPES.indexOf(type))
  const arrayOf = (type: TypeName, length: number): void => {
    typeNumber('array')
    typeNumber(type)
    writer.number('uint64', length)
  }
  switch (value.type) {
    case 'numbers':
      arrayOf(value.of, value.value.length)
      for (const each of value.value) write.number(value.of, each)
      return
    case 'bools':
      arrayOf('bool', value.value.length)
      value.value.forEach(write.bool)
      return
    case 'strings':
      arrayOf('string', value.value.length)
      value.value.forEach(write.string)
      return
    case 'string':
      typeNumber('string')
      write.string(value.value)
      return
    case 'bool':
      typeNumber('bool')
      write.bool(value.value)
      return
    default:
      typeNumber(value.type)
      write.number(value.type, value.value)
  }
}

type Reader = { position(): number; take(length: number): Uint8Array; number(type: NumberType): number; readonly string: () => string }

function openReader(bytes: Uint8Array): Reader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let position = 0
  const advance = (length: number): number => {
    if (length > bytes.byteLength - position) throw new Malformed(`it ends in the middle, after ${bytes.byteLength} bytes`)
    position += length
    return position - length
  }
  const number = (type: NumberType): number => {
    const value = NUMBERS[type].read(view, advance(NUMBERS[type].size))
    if (type.endsWith('64') && type !== 'float64' && !Number.isSafeInteger(value))
      throw new Malformed(`it has the unlikely number ${value}`)
    return value
  }
  const take = (length: number): Uint8Array => {
    const start = advance(length)
    return bytes.subarray(start, start + length)
  }
  return { position: () => position, take, number, string: () => Buffer.from(take(number('uint64'))).toString('utf8') }
}

type Writer = {
  raw(bytes: Uint8Array): void
  readonly number: (type: NumberType, value: number) => void
  readonly string: (text: string) => void
  length(): number
  bytes(): Uint8Array
}

function openWriter(): Writer {
  const parts: Uint8Array[] = []
  let length = 0
  const raw = (bytes: Uint8Array): void => {
    parts.push(bytes)
    length += bytes.byteLength
  }
  const number = (type: NumberType, value: number): void => {
    const bytes = new Uint8Array(NUMBERS[type].size)
    NUMBERS[type].write(new DataView(bytes.buffer), value)
    raw(bytes)
  }
  const string = (text: string): void => {
    const bytes = Buffer.from(text, 'utf8')
    number('uint64', bytes.byteLength)
    raw(bytes)
  }
  return { raw, number, string, length: () => length, bytes: () => Buffer.concat(parts) }
}

type NumberCodec = { readonly size: number; read(view: DataView, at: number): number; write(view: DataView, value: number): void }

const NUMBERS: { readonly [type in NumberType]: NumberCodec } = {
  uint8: { size: 1, read: (view, at) => view.getUint8(at), write: (view, value) => view.setUint8(0, value) },
  int8: { size: 1, read: (view, at) => view.getInt8(at), write: (view, value) => view.setInt8(0, value) },
  uint16: { size: 2, read: (view, at) => view.getUint16(at, true), write: (view, value) => view.setUint16(0, value, true) },
  int16: { size: 2, read: (view, at) => view.getInt16(at, true), write: (view, value) => view.setInt16(0, value, true) },
  uint32: { size: 4, read: (view, at) => view.getUint32(at, true), write: (view, value) => view.setUint32(0, value, true) },
  int32: { size: 4, read: (view, at) => view.getInt32(at, true), write: (view, value) => view.setInt32(0, value, true) },
  uint64: {
    size: 8,
    read: (view, at) => Number(view.getBigUint64(at, true)),
    write: (view, value) => view.setBigUint64(0, BigInt(value), true),
  },
  int64: {
    size: 8,
    read: (view, at) => Number(view.getBigInt64(at, true)),
    write: (view, value) => view.setBigInt64(0, BigInt(value), true),
  },
  float32: { size: 4, read: (view, at) => view.getFloat32(at, true), write: (view, value) => view.setFloat32(0, value, true) },
  float64: { size: 8, read: (view, at) => view.getFloat64(at, true), write: (view, value) => view.setFloat64(0, value, true) },
}

/** A Float32Array needs an offset that 4 divides; bytes that lie otherwise are copied. */
function floatsOf(bytes: Uint8Array, byteOffset: number, length: number): Float32Array {
  const start = bytes.byteOffset + byteOffset
  if (start % 4 === 0) return new Float32Array(bytes.buffer, start, length)
  return new Float32Array(bytes.slice(byteOffset, byteOffset + 4 * length).buffer)
}

function aligned(offset: number, alignment: number): number {
  return Math.ceil(offset / alignment) * alignment
}

/** Unlike an array's length, a count in a damaged file costs nothing before its items have been read. */
function* repeat(count: number): Generator<number> {
  for (let index = 0; index < count; index += 1) yield index
}
