// A decoder written from MessagePack's specification and nothing else: no extension types, keys that are strings.

/** Throws for anything that the specification's core does not know. */
export function decodePlain(bytes: Uint8Array): unknown {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = 0
  const take = (length: number): number => {
    const start = at
    at += length
    if (at > bytes.byteLength) throw new Error('the bytes end too early')
    return start
  }
  const raw = (length: number): Uint8Array => bytes.slice(take(length), at)
  const text = (length: number): string => new TextDecoder('utf-8', { fatal: true }).decode(raw(length))
  const items = (length: number): readonly unknown[] => Array.from({ length }, next)
  const members = (length: number): Readonly<Record<string, unknown>> => {
    const entries = Array.from({ length }, (): readonly [string, unknown] => {
      const key = next()
      if (typeof key !== 'string') throw new Error(`a key is no string: ${String(key)}`)
      return [key, next()]
    })
    const object = Object.fromEntries(entries)
    if (Object.keys(object).length !== entries.length) throw new Error('a key stands twice')
    return object
  }

  function next(): unknown {
    const type = view.getUint8(take(1))
    if (type <= 0x7f) return type
    if (type <= 0x8f) return members(type & 0x0f)
    if (type <= 0x9f) return items(type & 0x0f)
    if (type <= 0xbf) return text(type & 0x1f)
    if (type >= 0xe0) return type - 0x100
    switch (type) {
      case 0xc0:
        return null
      case 0xc2:
        return false
      case 0xc3:
        return true
      case 0xc4:
        return raw(view.getUint8(take(1)))
      case 0xc5:
        return raw(view.getUint16(take(2)))
      case 0xc6:
        return raw(view.getUint32(take(4)))
      case 0xca:
        return view.getFloat32(take(4))
      case 0xcb:
        return view.getFloat64(take(8))
      case 0xcc:
        return view.getUint8(take(1))
      case 0xcd:
        return view.getUint16(take(2))
      case 0xce:
        return view.getUint32(take(4))
      case 0xcf:
        return Number(view.getBigUint64(take(8)))
      case 0xd0:
        return view.getInt8(take(1))
      case 0xd1:
        return view.getInt16(take(2))
      case 0xd2:
        return view.getInt32(take(4))
      case 0xd3:
        return Number(view.getBigInt64(take(8)))
      case 0xd9:
        return text(view.getUint8(take(1)))
      case 0xda:
        return text(view.getUint16(take(2)))
      case 0xdb:
        return text(view.getUint32(take(4)))
      case 0xdc:
        return items(view.getUint16(take(2)))
      case 0xdd:
        return items(view.getUint32(take(4)))
      case 0xde:
        return members(view.getUint16(take(2)))
      case 0xdf:
        return members(view.getUint32(take(4)))
      default:
        throw new Error(`0x${type.toString(16)} is no type of plain MessagePack`)
    }
  }

  const value = next()
  if (at !== bytes.byteLength) throw new Error(`${bytes.byteLength - at} bytes stand behind the value`)
  return value
}

/** `{dtype, shape, data}` as numbers, little-endian ones wherever the test runs; everything else as it is. */
export function withNumbers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withNumbers)
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value
  if ('dtype' in value && 'shape' in value && 'data' in value) return numbersOf(value.dtype, value.shape, value.data)
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withNumbers(inner)]))
}

function numbersOf(dtype: unknown, shape: unknown, data: unknown): readonly number[] {
  if (!(data instanceof Uint8Array) || !Array.isArray(shape) || shape.length !== 1) throw new Error('a typed array is one row of bytes')
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  const readers: Readonly<Record<string, { readonly bytes: number; readonly read: (at: number) => number }>> = {
    '<i4': { bytes: 4, read: (at) => view.getInt32(at, true) },
    '<f4': { bytes: 4, read: (at) => view.getFloat32(at, true) },
    '|u1': { bytes: 1, read: (at) => view.getUint8(at) },
  }
  const reader = readers[String(dtype)]
  if (reader === undefined) throw new Error(`no reader for ${String(dtype)}`)
  const { bytes, read } = reader
  const [length] = shape
  if (length * bytes !== data.byteLength) throw new Error(`${data.byteLength} bytes are not ${length} of ${String(dtype)}`)
  return Array.from({ length }, (_, at) => read(at * bytes))
}
