// Asking a replica what it can do: is it healthy, which model, do ids and logprobs come back, and what do the logprobs mean.
import type { EngineKind } from '../../contract/call.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import { isObject, parseJson } from '../json.ts'
import { prepare } from '../profiles/preparation.ts'
import type { ProfileOf } from '../profiles/profile.ts'
import type { StreamMode } from '../settings.ts'
import type { Engine, EngineOutcome, EngineRequest, Send } from './engine.ts'
import { findLogprobMode, type LogprobMode } from './logprob-mode.ts'
import type { Connection } from './transport.ts'

export type ProbeResult =
  | {
      readonly type: 'serving'
      readonly tier: 'train' | 'eval'
      /** The name to ask by: the one that was wanted, or the engine's own when none was. */
      readonly model: string
      readonly maxModelLen: number | null
      readonly weightVersion: string | null
      readonly logprobMode: LogprobMode
      /** Its streams lose nothing that is captured; false where that was not asked. */
      readonly streams: boolean
      /** Why the tier is `eval`, or why its answers are told only when they are whole. */
      readonly detail: string | null
    }
  | { readonly type: 'unusable'; readonly detail: string }

/** Enough for a stop to be seen, too few to cost anything. */
const MAX_TOKENS = 2
const ALTERNATIVES = 5

export type Wanted = {
  /** The name of the policy; empty: the first model that the engine lists. */
  readonly model: string
  readonly profileOf: ProfileOf
  /** `synthetic` where it is not said. */
  readonly streamMode?: StreamMode
}

/** Samples at most ten tokens, asked for as a training session's calls are. */
export async function probe(
  engine: Engine,
  connection: Connection,
  { model: wanted, profileOf, streamMode = 'synthetic' }: Wanted,
  signal: AbortSignal,
): Promise<ProbeResult> {
  const look = (path: string) => connection.send({ method: 'GET', path, headers: {}, body: null }, signal)
  const health = await look('/health')
  if (!health.ok) return { type: 'unusable', detail: `/health: ${health.detail}` }
  // Routers without a health route still serve: only the engine's own "not ready" counts.
  if (health.response.status !== 404 && health.response.status >= 400) {
    return { type: 'unusable', detail: `/health answered ${health.response.status}` }
  }
  const sleep = engine.sleepPath === null ? null : await look(engine.sleepPath)
  if (sleep?.ok === true && saysAsleep(sleep.response.body)) return { type: 'unusable', detail: 'the engine sleeps' }
  const models = await look('/v1/models')
  if (!models.ok) return { type: 'unusable', detail: `/v1/models: ${models.detail}` }
  const listed = readModel(models.response.body, wanted)
  const model = wanted === '' ? listed.id : wanted
  if (model === '') {
    const { status } = models.response
    const found = status === 200 ? 'lists no model' : `answered ${status}`
    return { type: 'unusable', detail: `/v1/models ${found}, and the configuration names none (model_served)` }
  }

  const profile = profileOf(model)
  const send: Send = (request, follow) => connection.send(request, signal, follow)
  const requestOf = (content: string, temperature: number, maxTokens: number, topLogprobs: number): EngineRequest => {
    const asked = { messages: [{ role: 'user', content }], tools: null, parameters: { max_tokens: maxTokens, temperature } } as const
    // Calls are prepared so: what an engine does not take of the model's profile is found out here.
    const { messages, tools, parameters } = prepare(asked, profile, 'train').request
    const prompt = { kind: 'messages', messages, tools } as const
    return { prompt, parameters, model, topLogprobs, format: profile.format }
  }
  const first = requestOf('Say hi.', 1, MAX_TOKENS, 0)
  const reply = await engine.generate(first, send)
  if (reply.type !== 'answer') return { type: 'unusable', detail: whyNot(reply, engine.kind) }
  const { error, sampledIds } = reply.tokens
  const isOverlong = sampledIds.length > MAX_TOKENS
  const doubt = error?.code === 'ids-missing' ? `; is it a ${engine.kind} server, and one that gives back token ids?` : ''
  const isLive = streamMode !== 'synthetic'
  const loss = isLive ? await lossInStreams(engine, first, send, reply) : null
  const reason =
    error !== null
      ? `${error.code}: ${error.detail}${doubt}`
      : isOverlong
        ? `max_tokens ${MAX_TOKENS} gave ${sampledIds.length} tokens`
        : streamMode === 'live' && loss !== null
          ? `${loss}; with polar_node.stream.mode 'auto' it is trained all the same`
          : null
  const logprobMode = await findLogprobMode(async (prompt, temperature) => {
    const told = await engine.generate(requestOf(prompt, temperature, 1, ALTERNATIVES), send)
    return told.type === 'answer' && told.tokens.error === null ? told.answer.logprobs : null
  })
  return {
    type: 'serving',
    tier: reason === null ? 'train' : 'eval',
    model,
    maxModelLen: listed.maxModelLen,
    weightVersion: reply.weightVersion,
    logprobMode,
    streams: isLive && loss === null,
    detail: reason ?? loss,
  }
}

/** What a stream lacks of what a plain answer has; null when it has all. */
async function lossInStreams(
  engine: Engine,
  request: EngineRequest,
  send: Send,
  plain: Extract<EngineOutcome, { type: 'answer' }>,
): Promise<string | null> {
  const whole = 'answers are told when they are whole'
  if (engine.stream === null) return `${whole}: streams of ${engine.kind} leave out token ids`
  const streamed = await engine.stream(request, send, () => {})
  if (streamed.type !== 'answer') return `${whole}: asked for a stream: ${whyNot(streamed, engine.kind)}`
  const { error } = streamed.tokens
  if (error !== null) return `${whole}: in streams: ${error.code}: ${error.detail}`
  return plain.weightVersion !== null && streamed.weightVersion === null ? `${whole}: streams do not name the weights` : null
}

function whyNot(reply: Exclude<EngineOutcome, { type: 'answer' }>, kind: EngineKind): string {
  switch (reply.type) {
    case 'broken':
      return `probe generation: ${reply.reply.detail}`
    case 'unserved':
      return reply.detail
    case 'rejected':
      // No such route looks like no such model.
      return `probe generation: ${reply.status} ${reply.message}${reply.status === 404 ? `; is it a ${kind} server?` : ''}`
    case 'garbled':
    case 'aborted':
      return `probe generation: ${reply.detail}`
    default:
      return unreachable(reply)
  }
}

function saysAsleep(body: Uint8Array): boolean {
  const parsed = parseJson(body)
  return parsed.ok && isObject(parsed.value) && parsed.value.is_sleeping === true
}

function readModel(body: Uint8Array, wanted: string): { readonly id: string; readonly maxModelLen: number | null } {
  const parsed = parseJson(body)
  const list: unknown = parsed.ok && isObject(parsed.value) ? parsed.value.data : null
  const entries: readonly unknown[] = Array.isArray(list) ? list : []
  const found = entries.find((item) => isObject(item) && item.id === wanted) ?? entries[0]
  const entry = isObject(found) ? found : {}
  // llama.cpp states the context of one slot there.
  const length = entry.max_model_len ?? (isObject(entry.meta) ? entry.meta.n_ctx : null)
  return {
    id: typeof entry.id === 'string' ? entry.id : '',
    maxModelLen: typeof length === 'number' && Number.isInteger(length) && length > 0 ? length : null,
  }
}
