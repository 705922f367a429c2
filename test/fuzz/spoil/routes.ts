// Requests that go to the wrong place: methods, paths, prefixes and keys as clients, scanners and mistakes produce them.
import type { DialectName } from '../../../src/contract/call.ts'
import type { Dice } from '../dice.ts'

export type Prefix = 'own' | 'none' | 'other' | 'unknown' | 'encoded' | 'twice'
export type Credential = 'own' | 'none' | 'wrong' | 'other-session' | 'own-and-wrong'

export type Routed = {
  readonly method: string
  readonly path: string
  readonly prefix: Prefix
  readonly credential: Credential
  /** Statuses of which one must come; null where the place may happen to be served. */
  readonly statuses: readonly number[] | null
  readonly note: string
}

type Given = { readonly dialect: DialectName; readonly path: string }

const METHODS = ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'HEAD', 'PROPFIND', 'QUERY']

export function misrouted(dice: Dice, { dialect, path }: Given): Routed {
  const sound = { method: 'POST', path, prefix: 'own', credential: 'own' } as const
  return dice.weighted<() => Routed>([
    // A GET on a Google path asks after a model, whatever stands behind the last colon.
    [
      4,
      () => ({ ...sound, method: dice.pick(METHODS), statuses: dialect === 'google' ? [404, 405, 200] : [404, 405], note: 'wrong method' }),
    ],
    [6, () => ({ ...sound, path: mangled(dice, path), statuses: null, note: 'mangled path' })],
    [4, () => ({ ...sound, path: dice.pick(NEAR_MISSES), statuses: [404], note: 'no such route' })],
    [3, () => ({ ...sound, credential: 'none', statuses: [401], note: 'no key' })],
    [3, () => ({ ...sound, credential: 'wrong', statuses: [401], note: 'wrong key' })],
    [3, () => ({ ...sound, prefix: 'other', statuses: [403], note: 'another session’s prefix' })],
    [2, () => ({ ...sound, prefix: 'unknown', statuses: [403], note: 'nobody’s prefix' })],
    [2, () => ({ ...sound, credential: 'other-session', statuses: [403], note: 'another session’s key' })],
    [1, () => ({ ...sound, prefix: 'twice', statuses: [404], note: 'prefix twice' })],
    [1, () => ({ ...sound, path: `/${'a'.repeat(dice.pick([4_000, 70_000]))}`, statuses: [404, 431], note: 'long path' })],
  ])()
}

const NEAR_MISSES = [
  '/v1/completions',
  '/v1/embeddings',
  '/v1/messages/batches',
  '/v1/chat',
  '/v1',
  '/chat/completions',
  '/v1/message',
  '/v1beta/models/gemini:embedContent',
  '/v1beta/models/:generateContent',
  '/v1beta/models/gemini:generatecontent',
  '/v1beta/models',
  '/v1beta/cachedContents',
  '/v1/responses/compact',
  '/v1/responses/resp_1',
  '/sessions',
  '/admin/engines',
  '/metrics',
  '/health',
  '/',
  '/constructor',
  '/__proto__',
  '/s/',
]

/** The same path, as a proxy, a typist or an attacker would write it. */
function mangled(dice: Dice, path: string): string {
  return dice.pick<() => string>([
    () => `${path}/`,
    () => path.replaceAll('/', '//'),
    () => path.replace('/v1', '/v1/'),
    () => path.replaceAll('/', '%2F').replace('%2F', '/'),
    () => path.toUpperCase(),
    () => `/.${path}`,
    () => `/a/..${path}`,
    () => `${path}%00`,
    () => `${path}%zz`,
    () => `${path}?a=%zz&key=%&alt=sse&&=`,
    () => `${path}#fragment`,
    () => `${path}?${'a=b&'.repeat(500)}`,
    () => `http://elsewhere.example${path}`,
    () => `//elsewhere.example${path}`,
    () => `${path};a=b`,
    () => path.replace(/[a-z](?=[^/]*$)/, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
    () => path.replace(':', '%3A'),
    () => path.replace(':', '::'),
    () => `${path}:generateContent`,
    () => '*',
  ])()
}
