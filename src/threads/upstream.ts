// The inference servers of a gateway, asked on behalf of who asks the gateway about them; nothing of it is recorded.
import type { Scheduler } from '../kernel/clock.ts'
import type { ReplicaView } from '../proxy/boundary.ts'
import { within } from '../proxy/deadline.ts'
import { openaiChat } from '../proxy/dialects/openai-chat/dialect.ts'
import type { HttpResponse, Send } from '../proxy/engines/engine.ts'
import { ENGINES } from '../proxy/engines/registry.ts'
import { undiciTransport } from '../proxy/engines/transport.ts'
import { isObject, parseJson } from '../proxy/json.ts'

/** `not-understood`: the question is no chat request; `unanswered`: the server is at fault, or gone, or there is none. */
type Unanswered = { readonly ok: false; readonly error: 'unanswered' | 'not-understood'; readonly detail: string }

export type Upstream = {
  /** What the first of them that serves answers to this path, with status 200. */
  get(
    replicas: readonly ReplicaView[],
    path: '/health' | '/v1/models',
  ): Promise<{ readonly ok: true; readonly contentType: string; readonly body: Uint8Array } | Unanswered>
  /** Length of the prompt of a chat request, or of the text under `prompt`, by the server's own tokenizer. */
  countTokens(
    replicas: readonly ReplicaView[],
    body: unknown,
  ): Promise<{ readonly ok: true; readonly count: number; readonly maxModelLen: number | null } | Unanswered>
}

const DEADLINE_MS = 5_000
const MAX_ANSWER_BYTES = 4 * 2 ** 20

export function openUpstream(scheduler: Scheduler): Upstream {
  /** Over a connection of its own: such questions are few, and servers come and go. */
  async function ask<T>(
    replicas: readonly ReplicaView[],
    work: (replica: ReplicaView, send: Send) => Promise<T | Unanswered>,
  ): Promise<T | Unanswered> {
    const replica = replicas.find(({ role, state }) => role === 'engine' && (state === 'up' || state === 'paused')) ?? replicas[0]
    if (replica === undefined) return unanswered('the gateway has no inference server')
    const connection = undiciTransport(replica.url, MAX_ANSWER_BYTES)
    try {
      return await within(scheduler, DEADLINE_MS, new AbortController().signal, (cut) =>
        work(replica, (request) => connection.send(request, cut)),
      )
    } finally {
      await connection.close()
    }
  }

  return {
    get: (replicas, path) =>
      ask(replicas, async (_replica, send) => {
        const got = await look(path, send)
        return got.ok ? { ok: true, contentType: got.response.headers['content-type'] ?? 'application/json', body: got.response.body } : got
      }),
    countTokens: (replicas, body) =>
      ask(replicas, async (replica, send) => {
        const read = openaiChat.readCount(isObject(body) ? body : {}, { tier: 'eval', pins: {}, url: { model: null, form: null } })
        if (!read.ok) return { ok: false, error: 'not-understood', detail: read.failure.message }
        const models = await look('/v1/models', send)
        if (!models.ok) return models
        const model = firstModel(models.response.body)
        if (model === null) return unanswered('/v1/models lists no model')
        const count = await ENGINES[replica.engine].countTokens(read.countable, model, send)
        return count === null ? unanswered('the server does not count this prompt') : { ok: true, count, maxModelLen: replica.maxModelLen }
      }),
  }
}

async function look(path: string, send: Send): Promise<{ readonly ok: true; readonly response: HttpResponse } | Unanswered> {
  const reply = await send({ method: 'GET', path, headers: {}, body: null })
  if (!reply.ok) return unanswered(`${path}: ${reply.error === 'aborted' ? `no answer within ${DEADLINE_MS / 1_000} s` : reply.detail}`)
  return reply.response.status === 200 ? reply : unanswered(`${path} answered ${reply.response.status}`)
}

function firstModel(body: Uint8Array): string | null {
  const parsed = parseJson(body)
  const list: unknown = parsed.ok && isObject(parsed.value) ? parsed.value.data : null
  const first: unknown = Array.isArray(list) ? list[0] : null
  return isObject(first) && typeof first.id === 'string' ? first.id : null
}

function unanswered(detail: string): Unanswered {
  return { ok: false, error: 'unanswered', detail }
}
