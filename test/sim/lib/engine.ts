// Simulated inference servers in vLLM's shape: one model behind several replicas, each with its own bad days.
import { Buffer } from 'node:buffer'
import type { Random, Scheduler } from '../../../src/kernel/clock.ts'
import type { Transport, TransportReply } from '../../../src/proxy/engines/transport.ts'
import type { Emission, Model } from './model.ts'
import { sleep } from './time.ts'

export const ENGINE_FAULTS = [
  'refused',
  'reset',
  '500',
  '503',
  '429',
  'abort',
  'ids-missing',
  'short-logprobs',
  'positive-logprob',
  'garbled',
  'slow',
] as const

type Fault = (typeof ENGINE_FAULTS)[number]

export type EngineFaults = {
  /** Chance per generation of some fault, drawn from `kinds`. */
  readonly rate: number
  readonly kinds: readonly Fault[]
  /** Virtual times between which a replica, by its place in the list, refuses connections. */
  readonly outages: readonly { readonly replica: number; readonly fromMs: number; readonly toMs: number }[]
  readonly maxLatencyMs: number
}

export type EngineOptions = {
  readonly scheduler: Scheduler
  readonly random: Random
  readonly model: Model
  readonly faults: EngineFaults
}

export type Engine = {
  readonly transport: Transport
  /** Emissions whose ids, lengths and logprobs went out as they are, in a complete answer. */
  readonly sound: ReadonlySet<Emission>
  /** How many generations were begun, those of probes too. */
  asked(): number
}

/** No simulated agent asks for so little. */
const PROBE_TOKENS = 2

export const replicaUrl = (replica: number): string => `http://engine-${replica}`

export function openEngine({ scheduler, random, model, faults }: EngineOptions): Engine {
  const sound = new Set<Emission>()
  let asked = 0

  const isOut = (replica: number): boolean => {
    const nowMs = scheduler.clock.nowMs()
    return faults.outages.some((outage) => outage.replica === replica && outage.fromMs <= nowMs && nowMs < outage.toMs)
  }
  const drawFault = (): Fault | null => {
    if (random.next() >= faults.rate) return null
    return faults.kinds[Math.floor(random.next() * faults.kinds.length)] ?? null
  }

  async function generate(body: string, signal: AbortSignal): Promise<TransportReply> {
    const { messages, max_tokens } = JSON.parse(body)
    if (max_tokens <= PROBE_TOKENS) return reply(200, completion({ promptIds: [1], sampledIds: [2], logprobs: [-1], content: 'hi' }))
    const fault = drawFault()
    if (fault === 'refused') return { ok: false, error: 'refused', detail: 'ECONNREFUSED' }
    await sleep(scheduler, random.next() * faults.maxLatencyMs * (fault === 'slow' ? 20 : 1), signal)
    if (signal.aborted) return { ok: false, error: 'aborted', detail: 'aborted' }
    if (fault === 'reset') return { ok: false, error: 'reset', detail: 'ECONNRESET' }
    if (fault === '500' || fault === '503' || fault === '429') return reply(Number(fault), { error: { message: `simulated ${fault}` } })
    if (fault === 'garbled') return { ok: true, response: { status: 200, headers: {}, body: Buffer.from('{"choices": [') } }
    const emission = model.sample(messages)
    switch (fault) {
      case 'abort':
        // Without its ids nothing of it can be gone on with: the answer is drawn anew.
        return reply(200, completion({ ...emission, sampledIds: undefined, content: '' }, 'abort'))
      case 'ids-missing':
        return reply(200, completion({ ...emission, sampledIds: undefined }))
      case 'short-logprobs':
        return reply(200, completion({ ...emission, logprobs: emission.logprobs.slice(1) }))
      case 'positive-logprob':
        return reply(200, completion({ ...emission, logprobs: emission.logprobs.with(0, 0.5) }))
      default:
        sound.add(emission)
        return reply(200, completion(emission))
    }
  }

  return {
    sound,
    asked: () => asked,
    transport: (url) => ({
      async send(request, signal) {
        const replica = Number(url.split('-').at(-1))
        if (isOut(replica)) return { ok: false, error: 'refused', detail: 'ECONNREFUSED' }
        if (signal.aborted) return { ok: false, error: 'aborted', detail: 'aborted' }
        if (request.body !== null) {
          asked += 1
          return generate(request.body, signal)
        }
        return reply(200, { data: [{ id: 'policy', max_model_len: 4096 }] })
      },
      close: async () => {},
    }),
  }
}

function reply(status: number, body: object): TransportReply {
  return { ok: true, response: { status, headers: {}, body: Buffer.from(JSON.stringify(body)) } }
}

type Completion = {
  readonly promptIds: readonly number[]
  readonly sampledIds: readonly number[] | undefined
  readonly logprobs: readonly number[]
  readonly content: string
}

function completion({ promptIds, sampledIds, logprobs, content }: Completion, finish = 'stop'): object {
  return {
    id: 'chatcmpl-engine',
    object: 'chat.completion',
    model: 'policy',
    prompt_token_ids: promptIds,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content },
        finish_reason: finish,
        token_ids: sampledIds,
        logprobs: { content: logprobs.map((logprob) => ({ token: 't', logprob, bytes: null, top_logprobs: [] })) },
      },
    ],
    usage: { prompt_tokens: promptIds.length, completion_tokens: sampledIds?.length ?? 0 },
  }
}
