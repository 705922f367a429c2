// Bodies that are wrong as bytes: broken JSON, broken UTF-8, content codings that are unknown, damaged, or explode.
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import type { Dice } from '../dice.ts'

export type BodyBytes = {
  readonly bytes: Buffer
  /** The `content-encoding` header, if there is to be one. */
  readonly coding: string | null
  readonly note: string
  /** `same`: the server must see the very JSON that went in; `unclear`: nobody can say what it sees; else the status of its refusal. */
  readonly meaning: 'same' | 'unclear' | number
}

const JUNK: readonly string[] = [
  '',
  ' ',
  'null',
  '[]',
  '"text"',
  '12',
  'true',
  '{',
  '}',
  '{"a":1',
  "{'a':1}",
  '{"a":1,}',
  '{a:1}',
  '{"a":NaN}',
  '{"a":01}',
  '// {}',
  '<html></html>',
  'a=1&b=2',
  '{"a":"\n"}',
  '{"a":"\\x"}',
  '{}{}',
  '\u0000',
]

/** Text that is no JSON object, or bytes that are no text. */
export function malformedBytes(dice: Dice, json: string): BodyBytes {
  const whole = Buffer.from(json)
  const at = dice.whole(1, Math.max(1, whole.length - 1))
  const spliced = (bytes: readonly number[]): Buffer => Buffer.concat([whole.subarray(0, at), Buffer.from(bytes), whole.subarray(at)])
  const broken = (note: string, bytes: Buffer): BodyBytes => ({ bytes, coding: null, note, meaning: 400 })
  return dice.weighted<() => BodyBytes>([
    [8, () => broken('junk', Buffer.from(dice.pick(JUNK)))],
    [6, () => broken('cut short', whole.subarray(0, at))],
    [3, () => broken('garbage behind', Buffer.concat([whole, Buffer.from(dice.pick(['}', ']', ' x', '\u0000', json]))]))],
    [3, () => broken('a byte that is no UTF-8', spliced([0xff]))],
    [3, () => broken('an overlong form', spliced([0xc0, 0x80]))],
    [2, () => broken('half a surrogate pair in UTF-8', spliced([0xed, 0xa0, 0x80]))],
    [2, () => broken('a NUL', spliced([0]))],
    [2, () => broken('UTF-16', Buffer.from(json, 'utf16le'))],
    [2, () => broken('latin1', Buffer.from(`${json.slice(0, -1)},"é":1}`, 'latin1'))],
    [3, () => ({ bytes: changed(dice, whole), coding: null, note: 'some bytes changed', meaning: 'unclear' })],
  ])()
}

function changed(dice: Dice, whole: Buffer): Buffer {
  const copy = Buffer.from(whole)
  for (let flips = dice.whole(1, 3); flips > 0; flips -= 1) copy[dice.whole(0, copy.length - 1)] = dice.whole(0, 255)
  return copy
}

const ENCODERS: { readonly [coding: string]: (bytes: Buffer) => Buffer } = {
  gzip: (bytes) => gzipSync(bytes),
  'x-gzip': (bytes) => gzipSync(bytes),
  deflate: (bytes) => deflateSync(bytes),
  br: (bytes) => brotliCompressSync(bytes),
  zstd: (bytes) => zstdCompressSync(bytes),
}
const CODINGS = Object.keys(ENCODERS)

const encode = (coding: string, bytes: Buffer): Buffer => ENCODERS[coding]?.(bytes) ?? bytes

const UNKNOWN_CODINGS = ['compress', 'lzma', 'utf-8', '__proto__', 'constructor', ';', 'gzip;q=1', 'a'.repeat(2_000)]

/** The body in content codings as clients use them, or as they must not be. */
export function encodedBytes(dice: Dice, json: string): BodyBytes {
  const plain = Buffer.from(json)
  const coding = dice.pick(CODINGS)
  const encoded = encode(coding, plain)
  const spelt = dice.pick([coding, coding.toUpperCase(), ` ${coding} `, `identity, ${coding}`])
  const members = Buffer.concat([gzipSync(plain.subarray(0, 7)), gzipSync(plain.subarray(7))])
  const trailing = Buffer.concat([encoded, Buffer.from('trailing')])
  return dice.weighted<() => BodyBytes>([
    [12, () => ({ bytes: encoded, coding: spelt, note: coding, meaning: 'same' })],
    [3, () => twice(dice, plain)],
    [1, () => ({ bytes: plain, coding: 'identity', note: 'identity', meaning: 'same' })],
    [1, () => ({ bytes: members, coding: 'gzip', note: 'gzip in two members', meaning: 'same' })],
    [3, () => ({ bytes: encoded.subarray(0, dice.whole(0, encoded.length - 1)), coding, note: `${coding} cut short`, meaning: 'unclear' })],
    [3, () => ({ bytes: changed(dice, encoded), coding, note: `${coding} damaged`, meaning: 'unclear' })],
    [2, () => ({ bytes: plain, coding, note: `${coding} by name only`, meaning: 400 })],
    [2, () => ({ bytes: encoded, coding: null, note: `${coding} without saying so`, meaning: 400 })],
    [2, () => ({ bytes: plain, coding: dice.pick(UNKNOWN_CODINGS), note: 'unknown coding', meaning: 415 })],
    [1, () => ({ bytes: deflateRawSync(plain), coding: 'deflate', note: 'raw deflate', meaning: 400 })],
    [1, () => ({ bytes: encoded, coding: 'gzip, gzip, gzip, gzip, gzip, gzip', note: 'more codings than there are', meaning: 415 })],
    [1, () => ({ bytes: trailing, coding, note: `${coding} with more behind`, meaning: 'unclear' })],
    [2, () => ({ bytes: bomb(coding), coding, note: `${coding} bomb`, meaning: 413 })],
  ])()
}

function twice(dice: Dice, plain: Buffer): BodyBytes {
  const [inner, outer] = [dice.pick(CODINGS), dice.pick(CODINGS)]
  return { bytes: encode(outer, encode(inner, plain)), coding: `${inner}, ${outer}`, note: `${inner} in ${outer}`, meaning: 'same' }
}

const BOMB_BYTES = 64 * 2 ** 20
const bombs = new Map<string, Buffer>()

/** A few kilobytes that unpack to 64 MiB of JSON's own white space. */
function bomb(coding: string): Buffer {
  const known = bombs.get(coding)
  if (known !== undefined) return known
  const made = encode(coding, Buffer.alloc(BOMB_BYTES, ' '))
  bombs.set(coding, made)
  return made
}
