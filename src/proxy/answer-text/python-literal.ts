// A Python literal as JSON text: models that saw dictionaries printed by Python write them that way.
import { pythonNumber } from '../../python-json.ts'

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\u0007',
  '\\': '\\',
  "'": "'",
  '"': '"',
  '\n': '',
}

type Read = { readonly json: string; readonly end: number; readonly isKey: boolean }

/** Null when the text is no literal that JSON has a form for. Lists, tuples, dictionaries, strings, numbers, True, False, None. */
export function pythonLiteral(text: string): string | null {
  const read = readValue(text, skip(text, 0))
  return read !== null && skip(text, read.end) === text.length ? read.json : null
}

/** Nesting that no model means would only exhaust the stack. */
const MAX_DEPTH = 64

function readValue(text: string, at: number, depth = 0): Read | null {
  if (depth > MAX_DEPTH) return null
  switch (text[at]) {
    case '{':
      return readDictionary(text, at + 1, depth)
    case '[':
      return readList(text, at + 1, ']', depth)
    case '(':
      return readList(text, at + 1, ')', depth)
    case "'":
    case '"':
      return readString(text, at)
    default:
      return readWord(text, at)
  }
}

function readDictionary(text: string, start: number, depth: number): Read | null {
  const members = new Map<string, string>()
  let at = skip(text, start)
  while (text[at] !== '}') {
    const key = readValue(text, at, depth + 1)
    if (key === null || !key.isKey) return null
    const colon = skip(text, key.end)
    if (text[colon] !== ':') return null
    const value = readValue(text, skip(text, colon + 1), depth + 1)
    if (value === null) return null
    // JSON has text for keys only; Python's printer makes them so.
    members.set(key.json.startsWith('"') ? key.json : `"${key.json}"`, value.json)
    const next = separated(text, value.end, '}')
    if (next === null) return null
    at = next
  }
  return { json: `{${[...members].map(([key, value]) => `${key}: ${value}`).join(', ')}}`, end: at + 1, isKey: false }
}

function readList(text: string, start: number, close: ']' | ')', depth: number): Read | null {
  const items: string[] = []
  let at = skip(text, start)
  let hasComma = false
  while (text[at] !== close) {
    const item = readValue(text, at, depth + 1)
    if (item === null) return null
    items.push(item.json)
    hasComma ||= text[skip(text, item.end)] === ','
    const next = separated(text, item.end, close)
    if (next === null) return null
    at = next
  }
  const [only] = items
  // Parentheses around one value without a comma are only parentheses.
  if (close === ')' && items.length === 1 && !hasComma) return { json: only ?? 'null', end: at + 1, isKey: false }
  return { json: `[${items.join(', ')}]`, end: at + 1, isKey: false }
}

/** Past a comma, or at the closing bracket. */
function separated(text: string, from: number, close: string): number | null {
  const at = skip(text, from)
  if (text[at] === ',') return skip(text, at + 1)
  return text[at] === close ? at : null
}

function readString(text: string, start: number): Read | null {
  const quote = text[start] ?? ''
  const isLong = text.startsWith(quote.repeat(3), start)
  const close = isLong ? quote.repeat(3) : quote
  let value = ''
  let at = start + close.length
  while (!text.startsWith(close, at)) {
    const character = text[at]
    if (character === undefined || (character === '\n' && !isLong)) return null
    if (character !== '\\') {
      value += character
      at += 1
      continue
    }
    const sequence = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|([\s\S]))/y
    sequence.lastIndex = at
    const found = sequence.exec(text)
    if (found === null) return null
    const [whole, hex, short, long, octal, single = ''] = found
    const code = hex ?? short ?? long
    if (code !== undefined || octal !== undefined) {
      const point = code === undefined ? Number.parseInt(octal ?? '', 8) : Number.parseInt(code, 16)
      if (point > 0x10ffff) return null
      value += String.fromCodePoint(point)
    } else {
      // An escape that Python does not know stays as it stands.
      value += ESCAPES[single] ?? whole
    }
    at = sequence.lastIndex
  }
  return { json: JSON.stringify(value), end: at + close.length, isKey: true }
}

function readWord(text: string, at: number): Read | null {
  const word = /(?:True|False|None|[+-]?(?:(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?|0|[1-9]\d*))(?![\w.])/y
  word.lastIndex = at
  const [found] = word.exec(text) ?? []
  if (found === undefined) return null
  const json = NAMES[found] ?? (Number.isFinite(Number(found)) ? pythonNumber(found.replace(/^\+/, '')) : null)
  return json === null ? null : { json, end: at + found.length, isKey: true }
}

const NAMES: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' }

function skip(text: string, from: number): number {
  const space = /\s*/y
  space.lastIndex = from
  space.exec(text)
  return space.lastIndex
}
