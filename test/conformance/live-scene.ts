// A boundary in front of a scripted engine whose time the test lets pass, and clients that hear its answers as they come.
import { Buffer } from 'node:buffer'
import type { CallRecord, EngineKind } from '../../src/contract/call.ts'
import { replicaId, sessionId } from '../../src/contract/ids.ts'
import type { ModelRule } from '../../src/contract/model-profile.ts'
import { type EngineSettings, openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import type { ScriptInput } from '../../src/engine/scripted/script.ts'
import { threadId } from '../../src/kernel/address.ts'
import { cryptoRandom, openEventLoop } from '../../src/kernel/event-loop.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld, type World } from '../../src/kernel/world.ts'
import type { Boundary, DoorOptions, SessionDoor } from '../../src/proxy/boundary.ts'
import { openBoundary } from '../../src/proxy/open-boundary.ts'
import type { BoundarySettings, StreamMode } from '../../src/proxy/settings.ts'
import { openArena } from '../../src/tokens/arena.ts'
import type { NeutralRequest } from '../lib/dialect-cases.ts'
import { type Codec, encode } from '../lib/dialect-codec.ts'
import { type FakeSink, openFakeSink } from '../lib/proxy-fixture.ts'
import { until } from '../sdk/gateway.ts'

const LIVE_MODEL = 'qwen3-scripted'

export type LiveScene = {
  readonly engine: ScriptedEngine
  readonly boundary: Boundary
  /** As the ledger was told, oldest first. */
  readonly records: readonly CallRecord[]
  readonly reports: readonly unknown[]
  openDoor(options?: Partial<DoorOptions>): SessionDoor
  /** A call of this dialect; its sink is where the client reads. */
  call(door: SessionDoor, codec: Codec, asked: NeutralRequest, isStream?: boolean): FakeSink
  /** Requests of calls: the probe's are not among them. */
  asked(): ReturnType<ScriptedEngine['requests']>
  /** The engine samples on. */
  pass(ms: number): Promise<void>
  close(): Promise<void>
}

export type LiveSceneOptions = {
  readonly script: ScriptInput
  readonly streamMode: StreamMode
  readonly kind?: EngineKind
  readonly engine?: EngineSettings
  readonly settings?: Partial<BoundarySettings>
  readonly models?: readonly ModelRule[]
  readonly recordCall?: (record: CallRecord) => Promise<boolean>
}

const SHAPES = { vllm: 'vllm', sglang: 'sglang', 'sglang-native': 'sglang', llamacpp: 'llamacpp' } as const

/** Answers come one token in a second of the engine's time; a client that comes is told a beat or an answer, and nothing else. */
export async function openLiveScene(options: LiveSceneOptions): Promise<LiveScene> {
  const { kind = 'vllm', streamMode } = options
  const time: World = openWorld({ seed: 1 })
  const engine = await openScriptedEngine({
    script: options.script,
    shape: SHAPES[kind],
    seed: 5,
    scheduler: time,
    ...options.engine,
  })
  const kernel = openKernel({ thread: threadId('gateway-0'), incarnation: 1, scheduler: openEventLoop(), random: cryptoRandom(), peers: 0 })
  const records: CallRecord[] = []
  const reports: unknown[] = []
  const boundary = openBoundary({
    kernel,
    arena: openArena({ maxSlabs: 1, slabTokens: 2 ** 17 }),
    model: LIVE_MODEL,
    models: options.models ?? [],
    replicas: [{ id: replicaId('r0'), url: engine.url, engine: kind }],
    settings: { streamMode, commitAfterMs: 60_000, repeatDelayMs: 1, ...options.settings },
    recordCall: async (record) => {
      records.push(record)
      return options.recordCall?.(record) ?? true
    },
    log: (event, detail) => reports.push({ event, ...detail }),
  })
  await until(async () => {
    await time.advance(10_000)
    return (await boundary.replicas())[0]?.state === 'up'
  })
  const probes = engine.requests().length
  let doors = 0
  return {
    engine,
    boundary,
    records,
    reports,
    openDoor(given = {}) {
      doors += 1
      const session = sessionId(`live-${doors}`)
      const opened = boundary.openDoor({ session, attempt: 1, tier: 'train', pins: {}, notify: () => {}, ...given })
      if (!opened.ok) throw new Error(opened.error)
      return opened.door
    },
    call(door, codec, asked, isStream = true) {
      const sink = openFakeSink()
      const bytes = Buffer.from(JSON.stringify(encode(codec, asked, isStream)))
      const headers = { authorization: `Bearer ${door.key}`, 'x-api-key': door.key, 'x-goog-api-key': door.key }
      const url = `${door.basePath}${pathOf(codec, isStream)}`
      void boundary.handle({ method: 'POST', url, headers, body: async () => ({ ok: true, bytes }) }, sink)
      return sink
    },
    asked: () => engine.requests().slice(probes),
    pass: (ms) => time.advance(ms),
    async close() {
      await boundary.close()
      await kernel.close()
      await engine.close()
    },
  }
}

function pathOf({ dialect }: Codec, isStream: boolean): string {
  switch (dialect.name) {
    case 'openai-chat':
      return '/v1/chat/completions'
    case 'openai-responses':
      return '/v1/responses'
    case 'anthropic':
      return '/v1/messages'
    case 'google':
      return `/v1beta/models/${LIVE_MODEL}:${isStream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`
  }
}
