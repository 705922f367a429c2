// Which form of a result a client wants: its Accept header against the forms there are.
import { RESULT_FORMS, type ResultForm } from '../contract/result-form.ts'

export const CONTENT_TYPES: { readonly [form in ResultForm]: string } = { json: 'application/json', msgpack: 'application/msgpack' }

/** Names under which clients ask for MessagePack beside the registered one. */
const ALIASES: Readonly<Record<string, ResultForm>> = {
  [CONTENT_TYPES.json]: 'json',
  [CONTENT_TYPES.msgpack]: 'msgpack',
  'application/x-msgpack': 'msgpack',
  'application/vnd.msgpack': 'msgpack',
}

/** The form with the highest weight, JSON where it is no lower than another; null when none is acceptable. */
export function chooseForm(accept: string | undefined): ResultForm | null {
  const ranges = (accept ?? '').split(',').flatMap(readRange)
  if (ranges.length === 0) return 'json'
  const weights = RESULT_FORMS.map((form) => ({ form, weight: weightOf(form, ranges) }))
  const best = weights.reduce((one, other) => (other.weight > one.weight ? other : one))
  return best.weight > 0 ? best.form : null
}

type Range = { readonly type: string; readonly weight: number }

function readRange(text: string): readonly Range[] {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  if (type === '') return []
  const written = parameters.find((parameter) => parameter.startsWith('q='))?.slice('q='.length)
  const weight = written === undefined ? 1 : Number(written)
  return [{ type, weight: weight >= 0 && weight <= 1 ? weight : 0 }]
}

/** The most specific range decides (RFC 9110, 12.5.1). */
function weightOf(form: ResultForm, ranges: readonly Range[]): number {
  const named = ranges.filter(({ type }) => ALIASES[type] === form)
  if (named.length > 0) return Math.max(...named.map(({ weight }) => weight))
  for (const wildcard of ['application/*', '*/*']) {
    const range = ranges.find(({ type }) => type === wildcard)
    if (range !== undefined) return range.weight
  }
  return 0
}
