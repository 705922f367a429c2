// What a GGUF file says of itself, read with bounds before llama.cpp maps it: a damaged file is named, and never crashes the process.
import { type FileHandle, open, stat } from 'node:fs/promises'

/** Of a list of texts and of a long list only the length is kept. */
export type GgufValue = number | string | boolean | readonly number[] | { readonly length: number }

export type GgufHeader = {
  readonly values: ReadonlyMap<string, GgufValue>
  readonly tensors: number
  readonly parameters: number
}

export type HeaderResult = { readonly ok: true; readonly header: GgufHeader } | { readonly ok: false; readonly error: string }

type Parsed = HeaderResult | { readonly ok: false; readonly error: 'more' }

const FIRST_READ_BYTES = 1 << 20
/** The largest vocabularies with their merges take some 20 MB. */
const LARGEST_HEADER_BYTES = 1 << 28
/** More numbers than any model has layers. */
const LONGEST_KEPT_LIST = 4096
const MOST_DIMENSIONS = 4
const ARRAY = 9
const STRING = 8
/** Bytes of a value by its type number; strings and arrays have none of their own. */
const VALUE_BYTES: readonly (number | null)[] = [1, 1, 2, 2, 4, 4, 4, 1, null, null, 8, 8, 8]

export async function readGgufHeader(path: string): Promise<HeaderResult> {
  const facts = await stat(path).catch((error: NodeJS.ErrnoException) => error)
  if (facts instanceof Error) return fail(facts.code === 'ENOENT' ? `there is no file ${path}` : `${path} cannot be read: ${facts.message}`)
  if (facts.isDirectory()) return fail(`${path} is a folder, not a GGUF file`)
  if (!facts.isFile()) return fail(`${path} is no regular file`)
  const file = await open(path).catch((error: NodeJS.ErrnoException) => error)
  if (file instanceof Error) return fail(`${path} cannot be read: ${file.message}`)
  try {
    return await readGrowing(file, path, facts.size)
  } finally {
    await file.close()
  }
}

/** How long a header is shows only at its end: it is read again, twice as long, until it is whole. */
async function readGrowing(file: FileHandle, path: string, fileBytes: number): Promise<HeaderResult> {
  for (let length = FIRST_READ_BYTES; ; length *= 2) {
    const bytes = Buffer.alloc(Math.min(length, fileBytes))
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0)
    const parsed = parseHeader(bytes.subarray(0, bytesRead), path)
    if (parsed.ok || parsed.error !== 'more') return parsed
    if (bytesRead === fileBytes) return fail(`${path} ends within its header: it is damaged or only a part of the file`)
    if (length >= LARGEST_HEADER_BYTES) return fail(`${path} has a damaged header: it is longer than any model's`)
  }
}

/** Thrown where the bytes at hand end. */
class OutOfBytesError extends Error {}
class DamagedError extends Error {}

function parseHeader(bytes: Buffer, path: string): Parsed {
  if (bytes.length < 4 || bytes.toString('latin1', 0, 4) !== 'GGUF') return fail(`${path} is no GGUF file`)
  try {
    return { ok: true, header: readHeader(new Cursor(bytes, 4)) }
  } catch (error) {
    if (error instanceof OutOfBytesError) return { ok: false, error: 'more' }
    if (error instanceof DamagedError) return fail(`${path} has a damaged header: ${error.message}`)
    throw error
  }
}

function readHeader(cursor: Cursor): GgufHeader {
  const version = cursor.uint32()
  if (version !== 2 && version !== 3) throw new DamagedError(`GGUF version ${version} is neither 2 nor 3`)
  const tensors = cursor.count('tensors')
  const entries = cursor.count('entries')
  const values = new Map<string, GgufValue>()
  for (let entry = 0; entry < entries; entry += 1) {
    const key = cursor.text()
    values.set(key, readValue(cursor, cursor.uint32()))
  }
  let parameters = 0
  for (let tensor = 0; tensor < tensors; tensor += 1) parameters += readTensorSize(cursor)
  return { values, tensors, parameters }
}

function readValue(cursor: Cursor, type: number): GgufValue {
  if (type === STRING) return cursor.text()
  if (type !== ARRAY) return cursor.number(type)
  const elementType = cursor.uint32()
  const length = cursor.count('elements')
  if (elementType === STRING) {
    for (let element = 0; element < length; element += 1) cursor.skip(cursor.count('bytes'))
    return { length }
  }
  if (length > LONGEST_KEPT_LIST) {
    cursor.skip(length * bytesOf(elementType))
    return { length }
  }
  return Array.from({ length }, () => Number(cursor.number(elementType)))
}

function readTensorSize(cursor: Cursor): number {
  cursor.skip(cursor.count('bytes'))
  const dimensions = cursor.uint32()
  if (dimensions > MOST_DIMENSIONS) throw new DamagedError(`a tensor has ${dimensions} dimensions`)
  let size = 1
  for (let dimension = 0; dimension < dimensions; dimension += 1) size *= cursor.count('numbers')
  cursor.skip(4 + 8)
  return size
}

function bytesOf(type: number): number {
  const bytes = VALUE_BYTES[type]
  if (bytes === undefined || bytes === null) throw new DamagedError(`a value has the unknown type ${type}`)
  return bytes
}

/** Reads forward and throws where the bytes end. */
class Cursor {
  readonly #bytes: Buffer
  #at: number

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes
    this.#at = at
  }

  /** Where the bytes skipped begin. */
  skip(length: number): number {
    const at = this.#at
    if (at + length > this.#bytes.length) throw new OutOfBytesError()
    this.#at = at + length
    return at
  }

  uint32(): number {
    return this.#bytes.readUInt32LE(this.skip(4))
  }

  /** A count of things that take a byte each at least: none can be as large as the largest header. */
  count(things: string): number {
    const count = this.#bytes.readBigUInt64LE(this.skip(8))
    if (count > LARGEST_HEADER_BYTES) throw new DamagedError(`it claims ${count} ${things}`)
    return Number(count)
  }

  text(): string {
    const length = this.count('bytes')
    const at = this.skip(length)
    return this.#bytes.toString('utf8', at, at + length)
  }

  number(type: number): number | boolean {
    const bytes = bytesOf(type)
    const at = this.skip(bytes)
    switch (type) {
      case 0:
        return this.#bytes.readUInt8(at)
      case 1:
        return this.#bytes.readInt8(at)
      case 2:
        return this.#bytes.readUInt16LE(at)
      case 3:
        return this.#bytes.readInt16LE(at)
      case 4:
        return this.#bytes.readUInt32LE(at)
      case 5:
        return this.#bytes.readInt32LE(at)
      case 6:
        return this.#bytes.readFloatLE(at)
      case 7:
        return this.#bytes.readUInt8(at) !== 0
      case 10:
        return Number(this.#bytes.readBigUInt64LE(at))
      case 11:
        return Number(this.#bytes.readBigInt64LE(at))
      default:
        return this.#bytes.readDoubleLE(at)
    }
  }
}

function fail(error: string): { readonly ok: false; readonly error: string } {
  return { ok: false, error }
}
