// The routes of an engine's shape beside generations: models, health, tokenizer, pause, weight version.
import { z } from 'zod'
import { chatRequestSchema } from '../wire/chat-request.ts'
import type { ShapeName } from '../wire/shape.ts'
import { encodeText, type Reader } from './asked.ts'
import type { Rendered } from './language.ts'
import { LLAMACPP_ROUTES } from './llamacpp-routes.ts'
import { llamacppMetrics, sglangMetrics, vllmMetrics } from './metrics.ts'
import { renderRequest } from './prompt.ts'
import { bad, empty, ok, type Reply, type Route, type RouteInput, refused, type ServedEngine } from './route.ts'
import { unsupportedPart } from './template-input.ts'

const METRICS = { vllm: vllmMetrics, sglang: sglangMetrics, llamacpp: llamacppMetrics }

const COMMON: Readonly<Record<string, Route>> = {
  'GET /metrics': ({ engine }) => ({
    status: 200,
    text: METRICS[engine.shapeName](engine.model, engine.tally.totals(), { ...engine.batch.counts(), cacheUsage: engine.cacheUsage() }),
  }),
}

/** Whoever names a request must not end those of others. */
const ONLY_ALL = 'Requests are aborted all at once here: one ends when its connection is closed.'

function namesRequests(body: unknown): boolean {
  const named = z.looseObject({ rid: z.string().nullish(), abort_all: z.boolean().nullish(), request_ids: z.array(z.unknown()).nullish() })
  const { rid, abort_all: all, request_ids: ids } = named.safeParse(body).data ?? {}
  return all !== true && ((rid ?? '') !== '' || (ids ?? []).length > 0)
}

/** What the weights are called: vLLM's routes and SGLang's. */
export const VERSION_ROUTES = {
  'POST /update_weight_version': ({ engine, body }) => {
    const parsed = z.looseObject({ new_version: z.string().min(1) }).safeParse(body)
    if (!parsed.success) return bad(engine, 'new_version must be a string', 'new_version')
    engine.setWeightVersion(parsed.data.new_version)
    return ok({ success: true, new_version: parsed.data.new_version })
  },
  'GET /weight_info': ({ engine }) => ok({ weight_version: engine.weightVersion() }),
  'GET /get_model_info': ({ engine }) => ok({ model_path: engine.model, is_generation: true, weight_version: engine.weightVersion() }),
} satisfies Readonly<Record<string, Route>>

const PYTHON: Readonly<Record<string, Route>> = {
  ...COMMON,
  'GET /health': () => empty,
  'GET /v1/models': ({ engine, reader }) => ok({ object: 'list', data: [modelCard(engine, reader)] }),
  'POST /tokenize': tokenize,
  'POST /detokenize': detokenize,
  'POST /update_weight_version': VERSION_ROUTES['POST /update_weight_version'],
}

const VLLM: Readonly<Record<string, Route>> = {
  ...PYTHON,
  'GET /ping': () => empty,
  'GET /version': ({ engine }) => ok({ version: engine.kind }),
  'GET /weight_info': VERSION_ROUTES['GET /weight_info'],
  'GET /is_paused': ({ engine }) => ok({ is_paused: engine.batch.isPaused() }),
  'POST /pause': async ({ engine, query }) => {
    const mode = z.enum(['abort', 'wait', 'keep']).safeParse(query.get('mode') ?? 'abort')
    if (!mode.success) return { status: 400, json: { error: `mode must be abort, wait or keep, not ${query.get('mode')}` } }
    await engine.batch.pause(mode.data)
    return ok({ status: 'paused' })
  },
  'POST /resume': ({ engine }) => {
    engine.batch.resume()
    return ok({ status: 'resumed' })
  },
  'POST /abort_requests': ({ engine, body }) =>
    namesRequests(body) ? bad(engine, ONLY_ALL, 'request_ids') : ok({ status: 'aborted', aborted: engine.batch.abortAll() }),
}

const SGLANG: Readonly<Record<string, Route>> = {
  ...PYTHON,
  'GET /health_generate': () => empty,
  'POST /v1/tokenize': tokenize,
  'POST /v1/detokenize': detokenize,
  'GET /get_model_info': VERSION_ROUTES['GET /get_model_info'],
  'GET /get_server_info': ({ engine, reader }) =>
    ok({ model_path: engine.model, served_model_name: engine.model, context_length: reader.maxModelLen, version: engine.kind }),
  'POST /pause_generation': async ({ engine, body }) => {
    const parsed = z.looseObject({ mode: z.enum(['abort', 'retract', 'in_place']).default('abort') }).safeParse(body ?? {})
    if (!parsed.success) return bad(engine, 'mode must be abort, retract or in_place', 'mode')
    await engine.batch.pause(parsed.data.mode === 'abort' ? 'abort' : 'keep')
    return ok({ message: 'Generation paused successfully.', status: 'ok' })
  },
  'POST /continue_generation': ({ engine }) => {
    engine.batch.resume()
    return ok({ message: 'Generation continued successfully.', status: 'ok' })
  },
  'POST /abort_request': ({ engine, body }) => {
    if (namesRequests(body)) return bad(engine, ONLY_ALL, 'rid')
    engine.batch.abortAll()
    return empty
  },
}

const ROUTES: { readonly [shape in ShapeName]: Readonly<Record<string, Route>> } = {
  vllm: VLLM,
  sglang: SGLANG,
  llamacpp: { ...COMMON, ...LLAMACPP_ROUTES },
}

/** The answer of a route; 404 for a path this engine does not have. */
export async function answerRoute(method: string, path: string, input: RouteInput): Promise<Reply> {
  const name = `${method} ${path}`
  const route = input.engine.ownRoutes[name] ?? ROUTES[input.engine.shapeName][name]
  return route === undefined ? { status: 404, json: { detail: 'Not Found' } } : route(input)
}

/** For what only this host may do, even when the engine listens to others. `what` can be done, `faults can be set`. */
export function fromHere(what: string, route: Route): Route {
  return (input) => (input.isLoopback ? route(input) : { status: 403, json: { error: `${what} from this host only` } })
}

function modelCard(engine: ServedEngine, reader: Reader): object {
  return {
    id: engine.model,
    object: 'model',
    created: Math.floor(engine.scheduler.clock.wallMs() / 1000),
    owned_by: engine.shapeName,
    root: engine.model,
    parent: null,
    max_model_len: reader.maxModelLen,
  }
}

const conversationToTokenize = chatRequestSchema.pick({
  messages: true,
  tools: true,
  add_generation_prompt: true,
  chat_template_kwargs: true,
})

function tokenize({ engine, reader, body }: RouteInput): Reply {
  const text = textToTokenize(reader, body)
  if (!text.ok) return bad(engine, text.message, null)
  const encoded = encodeText(reader, text.text)
  if (!encoded.ok) return refused(engine, encoded.complaint)
  return ok({ count: encoded.ids.length, max_model_len: reader.maxModelLen, tokens: encoded.ids, token_strs: null })
}

function textToTokenize(reader: Reader, body: unknown): Rendered {
  const plain = z.looseObject({ prompt: z.string() }).safeParse(body)
  if (plain.success) return { ok: true, text: plain.data.prompt }
  const chat = conversationToTokenize.safeParse(body)
  if (!chat.success || unsupportedPart(chat.data.messages, reader.takesImages) !== null) {
    return { ok: false, message: 'prompt, or messages of text, is required' }
  }
  return renderRequest(reader.language, chat.data)
}

function detokenize({ engine, reader, body }: RouteInput): Reply {
  const parsed = z.looseObject({ tokens: z.array(z.int().min(0)) }).safeParse(body)
  if (!parsed.success) return bad(engine, 'tokens must be an array of ids', 'tokens')
  const text = reader.language.decode(parsed.data.tokens.filter((id) => id < reader.language.vocabularySize))
  return ok(engine.shapeName === 'vllm' ? { prompt: text } : { text })
}
