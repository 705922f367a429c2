// A plan as bytes on the wire: request line, headers, and a body whose end is told in one of several ways.
import { Buffer } from 'node:buffer'
import type { Plan } from '../plan.ts'

/** What a session's requests are addressed by. */
export type Access = {
  readonly port: number
  readonly session: string
  readonly key: string
  /** A session that is open all the time and must never be reached by this one. */
  readonly other: { readonly session: string; readonly key: string }
}

export type RequestBytes = { readonly bytes: Buffer; readonly headBytes: number }

const WRONG_KEY = 'f'.repeat(64)

export function writeRequest(plan: Plan, access: Access): RequestBytes {
  const { head, body } = plan
  const keyInQuery = plan.dialect === 'google' && plan.credential === 'own' && plan.index % 3 === 0
  const query = keyInQuery ? `${plan.query}${plan.query === '' ? '?' : '&'}key=${access.key}` : plan.query
  const headers = new Map<string, string>([
    ['host', `127.0.0.1:${access.port}`],
    ...(keyInQuery ? [] : credentialHeaders(plan, access)),
    ...(plan.dialect === 'anthropic' ? ([['anthropic-version', '2023-06-01']] as const) : []),
    ...(body === null ? [] : ([['content-type', 'application/json']] as const)),
    ...(plan.coding === null ? [] : ([['content-encoding', plan.coding]] as const)),
  ])
  for (const [name, value] of head?.headers ?? []) headers.set(name, value)
  const framed = frame(body, head?.framing)
  for (const [name, value] of framed.headers) headers.set(name, value)
  const lines = [...headers].filter(([, value]) => value !== '').map(([name, value]) => `${name}: ${value}\r\n`)
  const target = `${prefixed(plan, access)}${query}`
  const start = Buffer.from(`${plan.method} ${target} HTTP/${head?.version ?? '1.1'}\r\n${lines.join('')}\r\n`, 'latin1')
  return { bytes: Buffer.concat([start, framed.bytes]), headBytes: start.length }
}

function prefixed({ prefix, path }: Plan, { session, other }: Access): string {
  if (!path.startsWith('/')) return path
  switch (prefix) {
    case 'own':
      return `/s/${session}${path}`
    case 'encoded':
      return `/s/${session.replace(/[a-z]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`)}${path}`
    case 'other':
      return `/s/${other.session}${path}`
    case 'unknown':
      return `/s/nobody${path}`
    case 'twice':
      return `/s/${session}/s/${session}${path}`
    case 'none':
      return path
  }
}

function credentialHeaders({ dialect, credential, index }: Plan, { key, other }: Access): readonly (readonly [string, string])[] {
  const named = (value: string): readonly [string, string] => {
    if (dialect === 'google') return ['x-goog-api-key', value]
    if (dialect === 'anthropic' && index % 2 === 0) return ['x-api-key', value]
    return ['authorization', `${index % 5 === 0 ? 'bearer' : 'Bearer'} ${value}`]
  }
  switch (credential) {
    case 'own':
      return [named(key)]
    case 'wrong':
      return [named(WRONG_KEY)]
    case 'other-session':
      return [named(other.key)]
    case 'own-and-wrong':
      return [
        ['authorization', `Bearer ${WRONG_KEY}`],
        ['x-api-key', key],
      ]
    case 'none':
      return []
  }
}

type Framed = { readonly headers: readonly (readonly [string, string])[]; readonly bytes: Buffer }

function frame(body: Buffer | null, framing: NonNullable<Plan['head']>['framing']): Framed {
  if (body === null) return { headers: [], bytes: Buffer.alloc(0) }
  const length = (bytes: number): Framed => ({ headers: [['content-length', String(bytes)]], bytes: body })
  const chunked = [['transfer-encoding', 'chunked']] as const
  switch (framing) {
    case 'chunked':
      return { headers: chunked, bytes: chunks(body, 4_096) }
    case 'chunked-small':
      return { headers: chunked, bytes: chunks(body, Math.ceil(body.length / 100)) }
    case 'chunked-broken':
      return { headers: chunked, bytes: Buffer.concat([chunks(body, body.length).subarray(0, -5), Buffer.from('zz\r\n')]) }
    case 'both':
      return { headers: [...chunked, ['content-length', String(body.length)]], bytes: chunks(body, body.length) }
    case 'negative':
      return length(-1)
    case 'too-short':
      return length(Math.floor(body.length / 2))
    default:
      return length(body.length)
  }
}

function chunks(body: Buffer, size: number): Buffer {
  const pieces: Buffer[] = []
  for (let at = 0; at < body.length; at += size) {
    const piece = body.subarray(at, at + size)
    pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'))
  }
  return Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')])
}
