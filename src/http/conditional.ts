// One representation with a strong tag: whether the client has it already, and which part of it is wanted.
import type { IncomingHttpHeaders } from 'node:http'

/** True when `If-None-Match` names the tag: a 304 says so. */
export function hasAlready(headers: IncomingHttpHeaders, tag: string): boolean {
  const given = headers['if-none-match']
  if (given === undefined) return false
  // The comparison is the weak one (RFC 9110, 13.1.2).
  return given.trim() === '*' || given.split(',').some((one) => one.trim().replace(/^W\//, '') === tag)
}

/** `whole`: no range, or none that is honoured; ends are of the last byte, as in the header. */
export type Wanted =
  | { readonly type: 'whole' }
  | { readonly type: 'part'; readonly start: number; readonly end: number }
  | { readonly type: 'unsatisfiable' }

/** Several ranges at once are answered with the whole, which RFC 9110 allows; `If-Range` by date is never taken for fresh. */
export function wantedPart(headers: IncomingHttpHeaders, tag: string, length: number): Wanted {
  const { range } = headers
  const given = headers['if-range']
  const [, first = '', last = ''] = /^bytes=\s*(\d*)-(\d*)\s*$/i.exec(range ?? '') ?? []
  if ((first === '' && last === '') || (given !== undefined && given !== tag)) return { type: 'whole' }
  const start = first === '' ? Math.max(0, length - Number(last)) : Number(first)
  const end = first === '' || last === '' ? length - 1 : Math.min(Number(last), length - 1)
  if (first !== '' && last !== '' && Number(last) < start) return { type: 'whole' }
  return start >= length || end < start ? { type: 'unsatisfiable' } : { type: 'part', start, end }
}
