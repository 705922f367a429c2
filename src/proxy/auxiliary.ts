// What is answered without a generation: how long a prompt is, which models there are, how the gateway is. None of it is recorded.
import { readBody } from './body.ts'
import type { IncomingCall } from './boundary.ts'
import { headerOf, type Route } from './detect.ts'
import type { HttpReply, ModelEntry } from './dialects/dialect.ts'
import type { Door } from './door.ts'
import { isOverlong } from './overlong.ts'
import type { Pool } from './pool/pool.ts'
import { prepare } from './profiles/preparation.ts'
import type { ProfileOf } from './profiles/profile.ts'
import type { Hold } from './request-memory.ts'
import { estimateTokens } from './token-estimate.ts'

export type Auxiliary = {
  /** Null when the client left before its body had come. */
  count(call: IncomingCall, route: Extract<Route, { type: 'count' }>, door: Door, hold: Hold): Promise<HttpReply | null>
  models(route: Extract<Route, { type: 'models' | 'model' }>): HttpReply
  greeting(): HttpReply
  health(): Promise<HttpReply>
}

export type AuxiliaryOptions = { readonly pool: Pool; readonly profileOf: ProfileOf; readonly maxBodyBytes: number }

/** Says that a token count is not the engine's own. */
const ESTIMATE_HEADER = 'x-polar-token-count'
const SERVICE = { status: 'ok', service: 'polar-gateway' } as const

export function openAuxiliary({ pool, profileOf, maxBodyBytes }: AuxiliaryOptions): Auxiliary {
  const entry = (id: string): ModelEntry => ({
    id,
    createdSeconds: 0,
    maxModelLen: pool.maxModelLen() ?? profileOf(pool.modelName()).maxModelLen,
  })

  return {
    async count(call, { dialect, url }, door, hold) {
      const read = await readBody(call, headerOf(call.headers, 'content-encoding'), { maxBytes: maxBodyBytes, hold })
      if (!read.ok) return read.failure === null ? null : dialect.failure(read.failure)
      const { session, pins } = door.options
      // Nothing is sampled, so what a training session may not ask for is no concern here.
      const counted = dialect.readCount(read.body, { tier: 'eval', pins, url })
      if (!counted.ok) return dialect.failure(counted.failure)
      const countable = door.restoreCountable(counted.countable)
      const model = entry(pool.modelName())
      const tokens = isOverlong(countable, model.maxModelLen)
        ? null
        : await pool.countTokens(session, (served) => {
            if (countable.kind === 'text') return countable
            return { ...countable, request: prepare(countable.request, profileOf(served), 'eval').request }
          })
      const body = dialect.tokenCount(tokens ?? estimateTokens(countable), model)
      return json(body, tokens === null ? { [ESTIMATE_HEADER]: 'estimate' } : {})
    },
    // Every name is served by the one policy, so every name that is asked for exists.
    models: (route) =>
      json(route.type === 'models' ? route.dialect.modelList([entry(pool.modelName())]) : route.dialect.modelItem(entry(route.model))),
    greeting: () => json(JSON.stringify(SERVICE)),
    async health() {
      const engines = (await pool.views()).filter(({ state }) => state !== 'removing')
      const up = engines.filter(({ state }) => state === 'up').length
      return json(JSON.stringify({ ...SERVICE, replicas: { total: engines.length, up } }))
    },
  }
}

function json(body: string, headers: Readonly<Record<string, string>> = {}): HttpReply {
  return { status: 200, headers: { 'content-type': 'application/json', ...headers }, body }
}
