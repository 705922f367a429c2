// What a request asks for, by an explicit route table, and which credentials it brought.
import type { Dialect } from './dialects/dialect.ts'
import { openaiChat } from './dialects/openai-chat/dialect.ts'

export type Route =
  | { readonly type: 'generate'; readonly dialect: Dialect; readonly urlModel: string | null; readonly urlStream: boolean | null }
  | { readonly type: 'models'; readonly dialect: Dialect }
  | { readonly type: 'model'; readonly dialect: Dialect; readonly model: string }
  | { readonly type: 'greeting' }
  | { readonly type: 'health' }
  | { readonly type: 'upgrade'; readonly dialect: Dialect }
  /** Answered at once in the dialect the path speaks, and never a generation. */
  | { readonly type: 'unknown'; readonly dialect: Dialect }

export type Detected = {
  readonly route: Route
  /** From the `/s/<session>` prefix. */
  readonly session: string | null
}

export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

const SESSION_PREFIX = /^\/s\/([^/]+)(\/.*|)$/

export function detect(method: string, url: string, headers: Headers): Detected {
  const path = url.split(/[?#]/, 1)[0] ?? ''
  const prefixed = SESSION_PREFIX.exec(path)
  const [, session = null, rest] = prefixed ?? []
  return {
    route: routeOf(method, rest === undefined ? path : rest === '' ? '/' : rest, headers),
    session: session === null ? null : decode(session),
  }
}

function routeOf(method: string, path: string, headers: Headers): Route {
  const dialect = openaiChat
  if (headerOf(headers, 'upgrade') !== null) return { type: 'upgrade', dialect }
  const isRead = method === 'GET' || method === 'HEAD'
  switch (path) {
    case '/':
      return isRead ? { type: 'greeting' } : { type: 'unknown', dialect }
    case '/health':
      return isRead ? { type: 'health' } : { type: 'unknown', dialect }
    case '/v1/chat/completions':
      return method === 'POST' ? { type: 'generate', dialect, urlModel: null, urlStream: null } : { type: 'unknown', dialect }
    case '/v1/models':
      return isRead ? { type: 'models', dialect } : { type: 'unknown', dialect }
    default:
      // Model names hold slashes, encoded or not.
      if (isRead && path.startsWith('/v1/models/')) return { type: 'model', dialect, model: decode(path.slice('/v1/models/'.length)) }
      return { type: 'unknown', dialect }
  }
}

/** Every credential in the request: some CLIs send two headers, and only one of them carries the session's key. */
export function credentials(headers: Headers): readonly string[] {
  const bearer = /^Bearer\s+(\S+)\s*$/i.exec(headerOf(headers, 'authorization') ?? '')?.[1]
  return [bearer, headerOf(headers, 'x-api-key'), headerOf(headers, 'x-goog-api-key')].filter((key) => key !== undefined && key !== null)
}

export function headerOf(headers: Headers, name: string): string | null {
  const value = headers[name]
  if (value === undefined) return null
  return typeof value === 'string' ? value : (value[0] ?? null)
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
