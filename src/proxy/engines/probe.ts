// Asking a replica what it can do: is it healthy, which models, and do ids and logprobs come back with a generation.
import { isObject, parseJson } from '../json.ts'
import type { Engine } from './engine.ts'
import type { Connection } from './transport.ts'

export type ProbeResult =
  | {
      readonly type: 'serving'
      readonly tier: 'train' | 'eval'
      /** The name to ask by: the one that was wanted, or the engine's own when none was. */
      readonly model: string
      readonly maxModelLen: number | null
      readonly weightVersion: string | null
      /** Why the tier is `eval`. */
      readonly detail: string | null
    }
  | { readonly type: 'unusable'; readonly detail: string }

/** An empty `wanted` takes the first model the engine lists. */
export async function probe(engine: Engine, connection: Connection, wanted: string, signal: AbortSignal): Promise<ProbeResult> {
  const health = await connection.send({ method: 'GET', path: '/health', headers: {}, body: null }, signal)
  if (!health.ok) return { type: 'unusable', detail: `/health: ${health.detail}` }
  // Routers without a health route still serve: only the engine's own "not ready" counts.
  if (health.response.status !== 404 && health.response.status >= 400) {
    return { type: 'unusable', detail: `/health answered ${health.response.status}` }
  }
  const models = await connection.send({ method: 'GET', path: '/v1/models', headers: {}, body: null }, signal)
  if (!models.ok) return { type: 'unusable', detail: `/v1/models: ${models.detail}` }
  const listed = readModel(models.response.body, wanted)
  const model = wanted === '' ? listed.id : wanted
  if (model === '') return { type: 'unusable', detail: '/v1/models lists no model, and the configuration names none (model_served)' }

  const reply = await engine.generate(
    {
      prompt: { kind: 'messages', messages: [{ role: 'user', content: 'Say hi.' }], tools: null },
      parameters: { max_tokens: 2, temperature: 1 },
      model,
      topLogprobs: 0,
    },
    (request) => connection.send(request, signal),
  )
  switch (reply.type) {
    case 'broken':
      return { type: 'unusable', detail: `probe generation: ${reply.reply.detail}` }
    case 'unserved':
      return { type: 'unusable', detail: reply.detail }
    case 'rejected':
      return { type: 'unusable', detail: `probe generation: ${reply.status} ${reply.message}` }
    case 'garbled':
      return { type: 'unusable', detail: `probe generation: ${reply.detail}` }
    case 'aborted':
      return { type: 'unusable', detail: `probe generation: ${reply.detail}` }
    case 'answer': {
      const { error } = reply.tokens
      const detail = error === null ? null : `${error.code}: ${error.detail}`
      return {
        type: 'serving',
        tier: error === null ? 'train' : 'eval',
        model,
        maxModelLen: listed.maxModelLen,
        weightVersion: reply.weightVersion,
        detail,
      }
    }
  }
}

function readModel(body: Uint8Array, wanted: string): { readonly id: string; readonly maxModelLen: number | null } {
  const parsed = parseJson(body)
  const list: unknown = parsed.ok && isObject(parsed.value) ? parsed.value.data : null
  const entries: readonly unknown[] = Array.isArray(list) ? list : []
  const found = entries.find((item) => isObject(item) && item.id === wanted) ?? entries[0]
  const entry = isObject(found) ? found : {}
  const length = entry.max_model_len
  return {
    id: typeof entry.id === 'string' ? entry.id : '',
    maxModelLen: typeof length === 'number' && Number.isInteger(length) && length > 0 ? length : null,
  }
}
