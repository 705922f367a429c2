// A model boundary in virtual time: engines whose answers the test gives, and clients that leave when it says so.
import { Buffer } from 'node:buffer'
import type { CallRecord } from '../../src/contract/call.ts'
import { replicaId, sessionId } from '../../src/contract/ids.ts'
import type { ModelRule } from '../../src/contract/model-profile.ts'
import { threadId } from '../../src/kernel/address.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld, type World } from '../../src/kernel/world.ts'
import type { Boundary, CallFact, DoorOptions, IncomingCall, ReplicaView, ReplySink, SessionDoor } from '../../src/proxy/boundary.ts'
import type { Transport, TransportReply } from '../../src/proxy/engines/transport.ts'
import { openBoundary } from '../../src/proxy/open-boundary.ts'
import type { BoundarySettings } from '../../src/proxy/settings.ts'
import { type Arena, openArena } from '../../src/tokens/arena.ts'

/** One generation an engine was asked for. */
type Generation = {
  readonly url: string
  /** `/v1/completions` goes on from token ids. */
  readonly path: string
  readonly body: { readonly [key: string]: unknown }
  readonly isCancelled: () => boolean
  /** Answers with a completion unless told otherwise. */
  answer(completion?: Completion): void
  respond(status: number, body: unknown, headers?: Readonly<Record<string, string>>): void
  fail(error: 'refused' | 'reset'): void
}

export type Completion = {
  readonly message?: object
  readonly finish?: string | null
  readonly promptIds?: unknown
  readonly ids?: unknown
  readonly logprobs?: readonly unknown[] | null
  readonly usage?: object
  /** Of every position, beside the sampled token. */
  readonly alternatives?: readonly { readonly token: string; readonly logprob: number }[]
  readonly extra?: object
}

export function completionBody(completion: Completion = {}): object {
  const { message = { role: 'assistant', content: 'Hello.' }, finish = 'stop', extra = {}, alternatives = [] } = completion
  const ids = 'ids' in completion ? completion.ids : [21, 22, 23]
  const promptIds = 'promptIds' in completion ? completion.promptIds : [11, 12]
  const logprobs = 'logprobs' in completion ? completion.logprobs : [-0.5, -0.25, -0.125]
  return {
    id: 'chatcmpl-engine',
    object: 'chat.completion',
    model: 'policy',
    prompt_token_ids: promptIds,
    choices: [
      {
        index: 0,
        message,
        finish_reason: finish,
        token_ids: ids,
        logprobs:
          logprobs === null
            ? null
            : { content: logprobs?.map((logprob) => ({ token: 't', logprob, bytes: null, top_logprobs: alternatives })) },
      },
    ],
    usage: completion.usage ?? { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 },
    ...extra,
  }
}

/** What vLLM's completions answer; nothing of the text is read. */
function textCompletionBody(completion: Completion, promptTokens: number): object {
  const { finish = 'stop', ids = [21, 22, 23], logprobs = [-0.5, -0.25, -0.125], extra = {} } = completion
  const usage = { prompt_tokens: promptTokens, completion_tokens: Array.isArray(ids) ? ids.length : 0 }
  const choice = { index: 0, text: '', finish_reason: finish, stop_reason: null, token_ids: ids, logprobs: { token_logprobs: logprobs } }
  return { object: 'text_completion', choices: [choice], usage: completion.usage ?? usage, ...extra }
}

/** Of an engine whose logprobs do not depend on temperature. */
export const PROBED: Completion = {
  ids: [21, 22],
  logprobs: [-0.5, -0.25],
  usage: { prompt_tokens: 2, completion_tokens: 2 },
  alternatives: [{ token: 'other', logprob: -2.5 }],
}

/** At half the temperature, where logprobs follow it. */
const COLD: Completion = { ...PROBED, logprobs: [-0.1, -0.25], alternatives: [{ token: 'other', logprob: -4.1 }] }

export type FakeSink = ReplySink & {
  status(): number | null
  headers(): Readonly<Record<string, string>>
  text(): string
  json(): unknown
  /** The data of each event of a stream. */
  events(): readonly string[]
  isEnded(): boolean
  isDestroyed(): boolean
  /** The peer hangs up. */
  leave(): void
  /** From now on `write` says wait, until `drain`. */
  block(): void
  drain(): void
}

export function openFakeSink(): FakeSink {
  let status: number | null = null
  let headers: Readonly<Record<string, string>> = {}
  let text = ''
  let phase: 'open' | 'ended' | 'gone' = 'open'
  let wasDestroyed = false
  let isBlocked = false
  const listeners: (() => void)[] = []
  const drains: (() => void)[] = []
  const decode = (chunk: string | Uint8Array): string => (typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
  const settleDrains = (): void => {
    for (const drain of drains.splice(0)) drain()
  }
  const leave = (): void => {
    if (phase !== 'open') return
    phase = 'gone'
    settleDrains()
    for (const listener of listeners) listener()
  }
  return {
    head(given, named) {
      if (status !== null) throw new Error('a second head')
      status = given
      headers = named
    },
    write(chunk) {
      if (phase === 'ended') throw new Error('write after end')
      text += decode(chunk)
      return !isBlocked
    },
    drained: () => (isBlocked && phase === 'open' ? new Promise((resolve) => drains.push(resolve)) : Promise.resolve()),
    async end(chunk) {
      if (phase === 'gone') return 'no'
      if (chunk !== undefined) text += decode(chunk)
      phase = 'ended'
      return 'yes'
    },
    destroy() {
      wasDestroyed = true
      leave()
    },
    onClosed(listener) {
      listeners.push(listener)
      if (phase === 'gone') queueMicrotask(listener)
    },
    status: () => status,
    headers: () => headers,
    text: () => text,
    json: () => JSON.parse(text),
    events: () =>
      text
        .split('\n\n')
        .filter((frame) => frame !== '')
        .map((frame) => frame.replace(/^data: /, '')),
    isEnded: () => phase === 'ended',
    isDestroyed: () => wasDestroyed,
    leave,
    block() {
      isBlocked = true
    },
    drain() {
      isBlocked = false
      settleDrains()
    },
  }
}

export type ProxyOptions = {
  readonly seed?: number
  readonly replicas?: number
  readonly settings?: Partial<BoundarySettings>
  readonly maxSlabs?: number
  /** Replicas that answer no probe, by index; changed while running. */
  readonly dead?: Set<number>
  /** Replicas whose probe comes back without ids. */
  readonly untrainable?: ReadonlySet<number>
  readonly recordCall?: (record: CallRecord) => Promise<boolean>
  /** The served name; `policy` by default. */
  readonly model?: string
  readonly models?: readonly ModelRule[]
  /** What a probe finds; `raw` by default. */
  readonly logprobMode?: 'raw' | 'processed'
  /** What the engines' tokenizer counts for any prompt; null: they have none. Without it the test answers as it does for generations. */
  readonly promptTokens?: number | null
  /** Texts of token ids; others are `<id>`. Null: the engines spell none. */
  readonly spelling?: Readonly<Record<number, string>> | null
  /** What `/weight_info` says at this moment; by default there is no such route. */
  readonly weights?: () => string
}

export type ProxyFixture = {
  readonly world: World
  readonly kernel: Kernel
  readonly arena: Arena
  readonly boundary: Boundary
  readonly generations: readonly Generation[]
  readonly records: readonly CallRecord[]
  readonly facts: readonly CallFact[]
  readonly faults: readonly unknown[]
  openDoor(options?: Partial<DoorOptions>): SessionDoor
  /** Sends a chat request; everything that can run without time passing has run when it returns. */
  chat(door: SessionDoor, body?: object, headers?: Readonly<Record<string, string>>): Promise<FakeSink>
  send(call: Partial<IncomingCall> & { readonly bytes?: Uint8Array | string }): Promise<FakeSink>
  replicas(): Promise<readonly ReplicaView[]>
  /** Lets everything run that needs no time. */
  settle(): Promise<void>
  close(): Promise<void>
}

export const HELLO = { model: 'gpt-test', messages: [{ role: 'user', content: 'hi' }] }

export function openProxy(options: ProxyOptions = {}): ProxyFixture {
  const { seed = 1, replicas = 1, model = 'policy', models = [], dead = new Set(), untrainable = new Set() } = options
  const world = openWorld({ seed })
  const kernel = openKernel({ thread: threadId('gateway-0'), incarnation: 1, scheduler: world, random: world.random, peers: 0 })
  const arena = openArena({ maxSlabs: options.maxSlabs ?? 1, slabTokens: 2 ** 14, blockTokens: 2 ** 8 })
  const generations: Generation[] = []
  const records: CallRecord[] = []
  const facts: CallFact[] = []
  const faults: unknown[] = []
  const urls = Array.from({ length: replicas }, (_, index) => `http://engine-${index}`)

  const tokenized = (count: number | null): TransportReply =>
    count === null ? { ok: true, response: { status: 404, headers: {}, body: Buffer.from('') } } : ok({ count })
  const spelt = (ids: readonly number[]): TransportReply => {
    const { spelling = {} } = options
    return spelling === null ? tokenized(null) : ok({ prompt: ids.map((id) => spelling[id] ?? `<${id}>`).join('') })
  }
  const probed = (index: number, temperature: number): Completion => {
    if (untrainable.has(index)) return { ids: undefined }
    return options.logprobMode === 'processed' && temperature !== 1 ? COLD : PROBED
  }
  const ok = (body: unknown): TransportReply => ({
    ok: true,
    response: { status: 200, headers: {}, body: Buffer.from(JSON.stringify(body)) },
  })
  const transport: Transport = (url) => ({
    async send(request, signal) {
      const index = urls.indexOf(url)
      if (request.body === null) {
        if (dead.has(index)) return { ok: false, error: 'refused', detail: 'ECONNREFUSED' }
        if (request.path === '/weight_info')
          return options.weights === undefined ? tokenized(null) : ok({ weight_version: options.weights() })
        return ok({ data: [{ id: model, max_model_len: 4096 }] })
      }
      if (request.path === '/tokenize' && options.promptTokens !== undefined) return tokenized(options.promptTokens)
      const body = JSON.parse(request.body)
      if (request.path === '/detokenize') return spelt(body.tokens)
      if (body.messages?.[0].content === 'Say hi.') return ok(completionBody(probed(index, body.temperature)))
      return new Promise<TransportReply>((resolve) => {
        signal.addEventListener('abort', () => resolve({ ok: false, error: 'aborted', detail: 'aborted' }), { once: true })
        generations.push({
          url,
          path: request.path,
          body,
          isCancelled: () => signal.aborted,
          answer: (completion = {}) =>
            resolve(ok(body.messages === undefined ? textCompletionBody(completion, body.prompt.length) : completionBody(completion))),
          respond: (status, value, headers = {}) =>
            resolve({
              ok: true,
              response: { status, headers, body: Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)) },
            }),
          fail: (error) => resolve({ ok: false, error, detail: error === 'reset' ? 'ECONNRESET' : 'ECONNREFUSED' }),
        })
      })
    },
    close: async () => {},
  })

  const boundary = openBoundary({
    kernel,
    arena,
    model,
    models,
    transport,
    replicas: urls.map((url, index) => ({ id: replicaId(`r${index}`), url, engine: 'vllm' })),
    ...(options.settings === undefined ? {} : { settings: options.settings }),
    recordCall: async (record) => {
      records.push(record)
      return options.recordCall?.(record) ?? true
    },
    log: (event, detail) => faults.push({ event, ...detail }),
  })
  const settle = (): Promise<void> => world.advance(0)

  async function send(call: Partial<IncomingCall> & { readonly bytes?: Uint8Array | string }): Promise<FakeSink> {
    const sink = openFakeSink()
    const bytes = typeof call.bytes === 'string' ? Buffer.from(call.bytes) : (call.bytes ?? new Uint8Array())
    void boundary.handle({ method: 'POST', url: '/', headers: {}, body: async () => ({ ok: true, bytes }), ...call }, sink)
    await settle()
    return sink
  }

  let doors = 0
  return {
    world,
    kernel,
    arena,
    boundary,
    generations,
    records,
    facts,
    faults,
    openDoor(given = {}) {
      doors += 1
      const opened = boundary.openDoor({
        session: sessionId(`0000-${doors}`),
        attempt: 1,
        tier: 'train',
        pins: {},
        notify: (fact) => facts.push(fact),
        ...given,
      })
      if (!opened.ok) throw new Error(opened.error)
      return opened.door
    },
    chat: (door, body = HELLO, headers = {}) =>
      send({
        url: `${door.basePath}/v1/chat/completions`,
        headers: { authorization: `Bearer ${door.key}`, ...headers },
        bytes: JSON.stringify(body),
      }),
    send,
    async replicas() {
      const views = boundary.replicas()
      await settle()
      return views
    },
    settle,
    async close() {
      await boundary.close()
      await kernel.close()
    },
  }
}
