// What a request asks for, by an explicit route table, and which credentials it brought.
import { anthropic } from './dialects/anthropic/dialect.ts'
import type { Dialect, UrlWishes } from './dialects/dialect.ts'
import { google } from './dialects/google/dialect.ts'
import { openaiChat } from './dialects/openai-chat/dialect.ts'
import { openaiResponses } from './dialects/openai-responses/dialect.ts'

export type Route =
  | { readonly type: 'generate'; readonly dialect: Dialect; readonly url: UrlWishes }
  /** Answered with a number of tokens, and never recorded. */
  | { readonly type: 'count'; readonly dialect: Dialect; readonly url: UrlWishes }
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
const NO_WISHES: UrlWishes = { model: null, form: null }

const POSTS: { readonly [path: string]: { readonly type: 'generate' | 'count'; readonly dialect: Dialect } } = {
  '/v1/messages': { type: 'generate', dialect: anthropic },
  // The AI SDK takes ANTHROPIC_BASE_URL, which Anthropic's clients end without a version, for one that ends in `/v1`.
  '/messages': { type: 'generate', dialect: anthropic },
  '/v1/messages/count_tokens': { type: 'count', dialect: anthropic },
  '/v1/chat/completions': { type: 'generate', dialect: openaiChat },
  '/v1/tokenize': { type: 'count', dialect: openaiChat },
  '/v1/responses': { type: 'generate', dialect: openaiResponses },
  '/v1/responses/input_tokens': { type: 'count', dialect: openaiResponses },
}

/** `/v1beta/models/…`, the same without a version, and Vertex's longer paths. */
const GOOGLE_MODELS = /^(?:\/v1|\/v1alpha|\/v1beta1?)?(?:\/projects\/[^/]+\/locations\/[^/]+)?(?:\/publishers\/google)?\/models\/(.+)$/

/** The AI SDK takes a name with a slash in it for a path of its own: `/v1beta/Qwen/Qwen3-8B:generateContent`. */
const GOOGLE_PATH_NAME = /^\/v1(?:alpha|beta1?)?\/((?!v1)[^/]+\/.+)$/

export function detect(method: string, url: string, headers: Headers): Detected {
  const { path, query } = split(url)
  const prefixed = SESSION_PREFIX.exec(path)
  const [, session = null, rest] = prefixed ?? []
  return {
    route: routeOf(method, rest === undefined ? path : rest === '' ? '/' : rest, query, headers),
    session: session === null ? null : decode(session),
  }
}

function routeOf(method: string, path: string, query: URLSearchParams, headers: Headers): Route {
  const unknown: Route = { type: 'unknown', dialect: dialectOf(path, headers) }
  if (headerOf(headers, 'upgrade') !== null) return { type: 'upgrade', dialect: unknown.dialect }
  const isRead = method === 'GET' || method === 'HEAD'
  if (method === 'POST') {
    const post = Object.hasOwn(POSTS, path) ? POSTS[path] : undefined
    return post === undefined ? (googleAction(path, query) ?? unknown) : { ...post, url: NO_WISHES }
  }
  if (!isRead) return unknown
  if (path === '/') return { type: 'greeting' }
  if (path === '/health') return { type: 'health' }
  if (path === '/v1/models') return { type: 'models', dialect: listDialect(headers) }
  if (path === '/v1beta/models' || path === '/models') return { type: 'models', dialect: google }
  // Model names hold slashes, encoded or not.
  if (path.startsWith('/v1/models/'))
    return { type: 'model', dialect: listDialect(headers), model: decode(path.slice('/v1/models/'.length)) }
  const model = GOOGLE_MODELS.exec(path)?.[1]
  return model === undefined ? unknown : { type: 'model', dialect: google, model: decode(model) }
}

/**
 * The path that was probably meant by one that nobody serves, or null: a base URL ends in `/v1` for OpenAI's clients and in nothing for the
 * others, and who writes it by hand takes the one for the other.
 */
export function meantPath(url: string): string | null {
  const [, prefix = '', rest = ''] = /^(\/s\/[^/]+)?(\/.*)$/.exec(split(url).path) ?? []
  const bare = rest.replace(/^(?:\/v1)+(?=\/)/, '')
  const meant = [`/v1${bare}`, bare].find((path) => Object.hasOwn(POSTS, path) || googleAction(path, new URLSearchParams()) !== null)
  return meant === undefined ? null : `${prefix}${meant}`
}

/** The action is what follows the last colon; the model, with its own slashes and colons, is everything before. */
function googleAction(path: string, query: URLSearchParams): Route | null {
  const named = (GOOGLE_MODELS.exec(path) ?? GOOGLE_PATH_NAME.exec(path))?.[1]
  const colon = named === undefined ? -1 : named.lastIndexOf(':')
  if (named === undefined || colon < 1) return null
  const model = decode(named.slice(0, colon))
  switch (named.slice(colon + 1)) {
    case 'generateContent':
      return { type: 'generate', dialect: google, url: { model, form: 'plain' } }
    case 'streamGenerateContent':
      return { type: 'generate', dialect: google, url: { model, form: isEvents(query) ? 'events' : 'array' } }
    case 'countTokens':
      return { type: 'count', dialect: google, url: { model, form: null } }
    default:
      return null
  }
}

/** Google's system parameters have two spellings. */
function isEvents(query: URLSearchParams): boolean {
  return query.get('alt') === 'sse' || query.get('$alt') === 'sse'
}

/** One path lists the models of three vendors; the client says by a header whose it expects. */
function listDialect(headers: Headers): Dialect {
  if (headerOf(headers, 'anthropic-version') !== null) return anthropic
  return headerOf(headers, 'x-goog-api-key') === null ? openaiChat : google
}

/** Whose envelope a client understands that asked for a path nobody serves. */
function dialectOf(path: string, headers: Headers): Dialect {
  if (path.startsWith('/v1/messages') || headerOf(headers, 'anthropic-version') !== null) return anthropic
  if (path.startsWith('/v1beta') || GOOGLE_MODELS.test(path) || headerOf(headers, 'x-goog-api-key') !== null) return google
  return path.startsWith('/v1/responses') ? openaiResponses : openaiChat
}

/** Every credential in the request: some CLIs send two, and only one of them carries the session's key. */
export function credentials(url: string, headers: Headers): readonly string[] {
  const bearer = /^Bearer\s+(\S+)\s*$/i.exec(headerOf(headers, 'authorization') ?? '')?.[1]
  const keys = [bearer, headerOf(headers, 'x-api-key'), headerOf(headers, 'x-goog-api-key'), split(url).query.get('key')]
  return keys.filter((key) => key !== undefined && key !== null)
}

export function headerOf(headers: Headers, name: string): string | null {
  const value = headers[name]
  if (value === undefined) return null
  return typeof value === 'string' ? value : (value[0] ?? null)
}

function split(url: string): { readonly path: string; readonly query: URLSearchParams } {
  const [path = '', query = ''] = url.split('#', 1)[0]?.split(/\?(.*)/s) ?? []
  return { path, query: new URLSearchParams(query) }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
