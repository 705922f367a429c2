// Heads that are unusual or wrong: what HTTP allows and few clients send, and what it does not allow.
import type { Dice } from '../dice.ts'

type Header = readonly [name: string, value: string]

export type OddHead = {
  readonly note: string
  readonly method?: string
  readonly version?: string
  /** Headers that are added, or that replace those of the same name; an empty value takes the header away. */
  readonly headers: readonly Header[]
  /** How the body's end is told. */
  readonly framing?: 'chunked' | 'chunked-small' | 'chunked-broken' | 'both' | 'too-short' | 'negative'
  /** Statuses of which one must come; null where the request must be served as if nothing were odd. */
  readonly statuses: readonly number[] | null
  /** The server may just close: what came is not a request. */
  readonly mayClose: boolean
}

type Odd = Omit<OddHead, 'mayClose' | 'statuses'> & Partial<Pick<OddHead, 'mayClose' | 'statuses'>>

const SERVED: readonly Odd[] = [
  { note: 'odd content type', headers: [['content-type', 'text/plain; charset=utf-16']] },
  { note: 'no content type', headers: [['content-type', '']] },
  {
    note: 'odd accept',
    headers: [
      ['accept', 'image/png'],
      ['accept-encoding', 'br;q=1, *;q=0'],
    ],
  },
  {
    note: 'anthropic header anywhere',
    headers: [
      ['anthropic-version', '2023-06-01'],
      ['anthropic-beta', 'a,b,c'],
    ],
  },
  { note: 'expects to continue', headers: [['expect', '100-continue']] },
  { note: 'expects something else', headers: [['expect', 'a-miracle']] },
  { note: 'no host', headers: [['host', '']] },
  { note: 'connection closes', headers: [['connection', 'close']] },
  { note: 'HTTP/1.0', version: '1.0', headers: [] },
  { note: 'chunked', headers: [], framing: 'chunked' },
  { note: 'chunked in small pieces', headers: [], framing: 'chunked-small' },
  { note: 'latin-1 in a header', headers: [['x-title', 'caf\u00e9 \u00ff']] },
  { note: 'many headers', headers: Array.from({ length: 150 }, (_, index): Header => [`x-odd-${index}`, 'a']) },
  {
    note: 'stainless headers',
    headers: [
      ['x-stainless-retry-count', '7'],
      ['x-stainless-timeout', '600'],
      ['idempotency-key', 'a'],
    ],
  },
  {
    note: 'names of objects as headers',
    headers: [
      ['__proto__', 'a'],
      ['constructor', 'b'],
      ['hasownproperty', 'c'],
    ],
  },
]

const REFUSED: readonly Odd[] = [
  {
    note: 'upgrade',
    method: 'GET',
    headers: [
      ['connection', 'Upgrade'],
      ['upgrade', 'websocket'],
      ['sec-websocket-version', '13'],
    ],
    statuses: [426],
  },
  {
    note: 'upgrade with a body',
    headers: [
      ['connection', 'Upgrade'],
      ['upgrade', 'h2c'],
    ],
    statuses: [426],
  },
  { note: 'huge header', headers: [['x-huge', 'a'.repeat(70_000)]], statuses: [431] },
  { note: 'control character in a header', headers: [['x-bad', 'a\u0000b']], statuses: [400], mayClose: true },
  { note: 'length and chunks', headers: [], framing: 'both', statuses: [400], mayClose: true },
  { note: 'negative length', headers: [], framing: 'negative', statuses: [400], mayClose: true },
  { note: 'length too short', headers: [], framing: 'too-short', statuses: [400], mayClose: true },
  { note: 'broken chunks', headers: [], framing: 'chunked-broken', statuses: [400], mayClose: true },
  { note: 'unknown transfer coding', headers: [['transfer-encoding', 'gzip']], statuses: [400], mayClose: true },
  { note: 'HTTP/9.9', version: '9.9', headers: [], statuses: [400, 505], mayClose: true },
  { note: 'tunnel', method: 'CONNECT', headers: [], statuses: [404, 405], mayClose: true },
]

export function oddHead(dice: Dice): OddHead {
  const odd = dice.pick(dice.chance(0.6) ? SERVED : REFUSED)
  return { statuses: null, mayClose: false, ...odd }
}
