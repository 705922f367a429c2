// JSON text as Python's json.dumps(..., ensure_ascii=False) writes it: what a chat template's `tojson` prints, and engines' parsers give.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g

/**
 * Re-spaces JSON text as Python would after loading and dumping it: order of keys, whole numbers of any size and
 * floats are kept as Python keeps them. Null when the text is not JSON. A key written twice stays twice.
 */
export function pythonJson(text: string): string | null {
  if (!isJson(text)) return null
  return (text.match(TOKEN) ?? []).map(pythonToken).join('')
}

/** The same for a value that came from JSON or YAML. */
export function pythonJsonOf(value: unknown): string {
  return pythonJson(JSON.stringify(value) ?? 'null') ?? 'null'
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function pythonToken(token: string): string {
  if (token === ',') return ', '
  if (token === ':') return ': '
  if (token.startsWith('"')) return JSON.stringify(JSON.parse(token))
  return /^-?\d/.test(token) ? pythonNumber(token) : token
}

/** A JSON number, or what Python takes for one. */
export function pythonNumber(literal: string): string {
  if (/^-?\d+$/.test(literal)) return literal === '-0' ? '0' : literal
  return pythonFloat(Number(literal))
}

/** Python's repr of a float: shortest digits, an exponent below 1e-4 and from 1e16 on. */
function pythonFloat(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity'
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0'
  const [mantissa = '', exponentText = '0'] = value.toExponential().split('e')
  const exponent = Number(exponentText)
  if (exponent >= -4 && exponent < 16) return Number.isInteger(value) ? `${value}.0` : String(value)
  return `${mantissa}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
}
