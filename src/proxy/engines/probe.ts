// Asking a replica what it can do: is it healthy, which models, and do ids and logprobs come back with a generation.
import { isObject, parseJson } from '../json.ts'
import type { Engine } from './engine.ts'
import type { Connection } from './transport.ts'

export type ProbeResult =
  | {
      readonly type: 'serving'
      readonly tier: 'train' | 'eval'
      readonly maxModelLen: number | null
      readonly weightVersion: string | null
      /** Why the tier is `eval`. */
      readonly detail: string | null
    }
  | { readonly type: 'unusable'; readonly detail: string }

export async function probe(engine: Engine, connection: Connection, model: string, signal: AbortSignal): Promise<ProbeResult> {
  const health = await connection.send({ method: 'GET', path: '/health', headers: {}, body: null }, signal)
  if (!health.ok) return { type: 'unusable', detail: `/health: ${health.detail}` }
  // Routers without a health route still serve: only the engine's own "not ready" counts.
  if (health.response.status !== 404 && health.response.status >= 400) {
    return { type: 'unusable', detail: `/health answered ${health.response.status}` }
  }
  const models = await connection.send({ method: 'GET', path: '/v1/models', headers: {}, body: null }, signal)
  if (!models.ok) return { type: 'unusable', detail: `/v1/models: ${models.detail}` }
  const maxModelLen = readMaxModelLen(models.response.body, model)

  const written = engine.write({
    prompt: { kind: 'messages', messages: [{ role: 'user', content: 'Say hi.' }], tools: null },
    parameters: { max_tokens: 2, temperature: 1 },
    model,
  })
  if (!written.ok) return { type: 'unusable', detail: written.detail }
  const sent = await connection.send(written.http, signal)
  if (!sent.ok) return { type: 'unusable', detail: `probe generation: ${sent.detail}` }
  const reply = engine.read(sent.response)
  switch (reply.type) {
    case 'rejected':
      return { type: 'unusable', detail: `probe generation: ${reply.status} ${reply.message}` }
    case 'garbled':
      return { type: 'unusable', detail: `probe generation: ${reply.detail}` }
    case 'aborted':
      return { type: 'unusable', detail: `probe generation: ${reply.detail}` }
    case 'answer': {
      const { error } = reply.tokens
      const detail = error === null ? null : `${error.code}: ${error.detail}`
      return { type: 'serving', tier: error === null ? 'train' : 'eval', maxModelLen, weightVersion: reply.weightVersion, detail }
    }
  }
}

function readMaxModelLen(body: Uint8Array, model: string): number | null {
  const parsed = parseJson(body)
  const list: unknown = parsed.ok && isObject(parsed.value) ? parsed.value.data : null
  if (!Array.isArray(list)) return null
  const entries: readonly unknown[] = list
  const entry = entries.find((item) => isObject(item) && item.id === model) ?? entries[0]
  const length = isObject(entry) ? entry.max_model_len : null
  return typeof length === 'number' && Number.isInteger(length) && length > 0 ? length : null
}
