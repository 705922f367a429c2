// The gateway's thread: the model boundary as a node runs it, its port, its real connections to engines, and what can be read off it.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type MessagePort, workerData } from 'node:worker_threads'
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import type { CallRecord } from '../../../src/contract/call.ts'
import { replicaId, type SessionId, sessionId } from '../../../src/contract/ids.ts'
import { threadId } from '../../../src/kernel/address.ts'
import { cryptoRandom, openEventLoop } from '../../../src/kernel/event-loop.ts'
import { openKernel } from '../../../src/kernel/machine.ts'
import type { ReplicaView, SamplingPins, SealedCalls, SessionDoor } from '../../../src/proxy/boundary.ts'
import { type Transport, undiciTransport } from '../../../src/proxy/engines/transport.ts'
import { openModelPort } from '../../../src/proxy/model-port.ts'
import { openBoundary } from '../../../src/proxy/open-boundary.ts'
import { type ArenaStats, openArena } from '../../../src/tokens/arena.ts'
import { lastMark } from '../marker.ts'
import type { EngineUrls } from './engines.ts'
import { ARENA, BOUNDARY, type FuzzedEngine, MAX_BODY_BYTES, MODEL } from './settings.ts'

export type DoorSpec = {
  readonly session: string
  readonly tier: 'train' | 'eval'
  readonly pins: SamplingPins
  /** A flaky ledger refuses one record in eight, always the same ones. */
  readonly ledger: 'sound' | 'flaky'
}

export type SealedSession = {
  readonly sealed: SealedCalls
  /** The last that the ledger was told of each call, in the order of their ends. */
  readonly records: readonly CallRecord[]
  /** Calls whose record the ledger would not take. */
  readonly refused: readonly string[]
}

export type GatewayFacts = {
  readonly arena: ArenaStats
  readonly replicas: readonly ReplicaView[]
  readonly kernel: { readonly actors: number; readonly pendingAsks: number; readonly pendingTimers: number }
  /** Heap after a collection, with what it holds outside; in bytes. */
  readonly memoryBytes: number
  /** The longest and the 99th percentile of the loop's delays since the last reading. */
  readonly blockedMs: { readonly longest: number; readonly p99: number }
  /** Faults of the boundary itself, each with its stack. */
  readonly faults: readonly string[]
}

export type GatewayThread = {
  ready(): Promise<{ readonly port: number }>
  openDoor(spec: DoorSpec): { readonly key: string; readonly basePath: string }
  seal(session: string): Promise<SealedSession>
  close(session: string): void
  facts(): Promise<GatewayFacts>
  /** Closes everything; resources that are still held are named. The thread must then end by itself. */
  end(): Promise<readonly string[]>
}

export type GatewayBirth = { readonly engines: EngineUrls; readonly engine: FuzzedEngine; readonly port: MessagePort }

// This module is started by `openNode` alone.
const { engines, engine, port } = workerData as GatewayBirth
setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const ledgers = new Map<SessionId, DoorSpec['ledger']>()
const records = new Map<SessionId, Map<string, CallRecord>>()
const refused = new Map<SessionId, Set<string>>()
const faults: string[] = []
const doors = new Map<string, SessionDoor>()
const delays = monitorEventLoopDelay({ resolution: 5 })
delays.enable()

const kernel = openKernel({ thread: threadId('gateway-0'), incarnation: 1, scheduler: openEventLoop(), random: cryptoRandom(), peers: 0 })
const arena = openArena(ARENA)
const boundary = openBoundary({
  kernel,
  arena,
  model: MODEL,
  settings: BOUNDARY,
  transport: faultyTransport,
  replicas: [{ id: replicaId('r0'), url: engines.sound, engine }],
  async recordCall(record) {
    const isFlaky = ledgers.get(record.session) === 'flaky' && Number.parseInt(record.digest.slice(0, 2), 16) % 8 === 0
    if (isFlaky) refused.get(record.session)?.add(record.id)
    else records.get(record.session)?.set(record.id, record)
    return !isFlaky
  },
  log: (event, detail) => faults.push(`${event}: ${JSON.stringify(detail)}`),
})
const opening = openModelPort({ host: '127.0.0.1', port: 0, boundary, maxBodyBytes: MAX_BODY_BYTES })

/** Sends a generation to the engine that does what its mark wishes, as often as it wishes; everything else goes to the sound one. */
function faultyTransport(...[url, maxResponseBytes]: Parameters<Transport>): ReturnType<Transport> {
  const sound = undiciTransport(url, maxResponseBytes)
  const faulty = new Map(Object.entries(engines.faulty).map(([name, faultyUrl]) => [name, undiciTransport(faultyUrl, maxResponseBytes)]))
  const struck = new Map<number, number>()
  return {
    send(request, signal) {
      const mark = request.path === '/v1/chat/completions' ? lastMark(request.body ?? '') : null
      if (mark === null || mark.fault === null) return sound.send(request, signal)
      const before = struck.get(mark.index) ?? 0
      struck.set(mark.index, before + 1)
      const struckBy = before < mark.fault.times ? faulty.get(mark.fault.name) : undefined
      return (struckBy ?? sound).send(request, signal)
    },
    async close() {
      await Promise.all([sound, ...faulty.values()].map((connection) => connection.close()))
    },
  }
}

function doorOf(session: string): SessionDoor {
  const door = doors.get(session)
  if (door === undefined) throw new Error(`no door of ${session}`)
  return door
}

function kernelFacts(): GatewayFacts['kernel'] {
  const { actors, pendingAsks, pendingTimers } = kernel.stats()
  return { actors, pendingAsks, pendingTimers }
}

const thread: GatewayThread = {
  async ready() {
    while ((await boundary.replicas())[0]?.state !== 'up') await new Promise((resolve) => setTimeout(resolve, 10))
    return { port: (await opening).port }
  },
  openDoor({ session, tier, pins, ledger }) {
    const id = sessionId(session)
    ledgers.set(id, ledger)
    records.set(id, new Map())
    refused.set(id, new Set())
    const opened = boundary.openDoor({ session: id, attempt: 1, tier, pins, notify: () => {} })
    if (!opened.ok) throw new Error(opened.error)
    doors.set(session, opened.door)
    return { key: opened.door.key, basePath: opened.door.basePath }
  },
  async seal(session) {
    const sealed = await doorOf(session).seal()
    const id = sessionId(session)
    return { sealed, records: [...(records.get(id)?.values() ?? [])], refused: [...(refused.get(id) ?? [])] }
  },
  close(session) {
    doorOf(session).close()
    doors.delete(session)
    for (const kept of [ledgers, records, refused]) kept.delete(sessionId(session))
  },
  async facts() {
    collectGarbage()
    const { heapUsed, external } = process.memoryUsage()
    const blockedMs = { longest: delays.max / 1e6, p99: delays.percentile(99) / 1e6 }
    delays.reset()
    return {
      arena: arena.stats(),
      kernel: kernelFacts(),
      replicas: await boundary.replicas(),
      memoryBytes: heapUsed + external,
      blockedMs,
      faults: [...faults],
    }
  },
  async end() {
    delays.disable()
    await (await opening).close()
    await boundary.close()
    await kernel.close()
    arena.close()
    // What closes does so in a later turn of the loop.
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    const held = process.getActiveResourcesInfo().filter((name) => name !== 'MessagePort' && name !== 'Immediate')
    setImmediate(() => port.close())
    return held
  },
}

comlink.expose(thread, nodeEndpoint(port))
