// One real gateway for one test: a scripted engine, a boundary with its kernel, a model port on a socket, and one session's door.
import { expect } from 'vitest'
import type { CallRecord } from '../../src/contract/call.ts'
import { replicaId, sessionId } from '../../src/contract/ids.ts'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import type { ScriptInput } from '../../src/engine/scripted/script.ts'
import { threadId } from '../../src/kernel/address.ts'
import { cryptoRandom, openEventLoop } from '../../src/kernel/event-loop.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld } from '../../src/kernel/world.ts'
import type { Boundary, DoorOptions, SealedCalls, SessionDoor } from '../../src/proxy/boundary.ts'
import { openModelPort } from '../../src/proxy/model-port.ts'
import { openBoundary } from '../../src/proxy/open-boundary.ts'
import type { BoundarySettings } from '../../src/proxy/settings.ts'
import { openArena } from '../../src/tokens/arena.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import type { Endpoint } from './drivers/driver.ts'
import { HELD_MS, SCRIPT } from './scenarios.ts'

export const MODEL = 'qwen3-scripted'

type SeenResponse = { readonly status: number; readonly headers: Headers }

export type Gateway = {
  readonly endpoint: Endpoint
  readonly door: SessionDoor
  readonly engine: ScriptedEngine
  /** As the ledger was told, deliveries mended. */
  readonly records: readonly CallRecord[]
  /** What the SDK's fetch brought it, oldest first. */
  readonly responses: readonly SeenResponse[]
  /** Faults of the boundary itself: there must be none. */
  readonly reports: readonly unknown[]
  /** Requests the port was handed so far. */
  arrivals(): number
  /** Connections the port saw close before their answer's end. */
  departures(): number
  openDoor(options?: Partial<DoorOptions>): SessionDoor
  /** Requests the engine had for this test: the probe's own is not among them. */
  asked(): ReturnType<ScriptedEngine['requests']>
  /** Lets the engine's time pass, so that held answers come. */
  release(): Promise<void>
  close(): Promise<void>
}

export type GatewayOptions = {
  readonly settings?: Partial<BoundarySettings>
  readonly maxBodyBytes?: number
  readonly maxModelLen?: number
  /** The matrix's own, unless told otherwise. */
  readonly script?: ScriptInput
}

export async function openGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const time = openWorld({ seed: 1 })
  const engine = await openScriptedEngine({
    script: options.script ?? SCRIPT,
    seed: 5,
    scheduler: time,
    ...(options.maxModelLen === undefined ? {} : { maxModelLen: options.maxModelLen }),
  })
  const kernel = openKernel({ thread: threadId('gateway-0'), incarnation: 1, scheduler: openEventLoop(), random: cryptoRandom(), peers: 0 })
  const records: CallRecord[] = []
  const reports: unknown[] = []
  const responses: SeenResponse[] = []
  let arrivals = 0
  let departures = 0
  let doors = 0
  const boundary = openBoundary({
    kernel,
    arena: openArena({ maxSlabs: 1, slabTokens: 2 ** 17 }),
    model: MODEL,
    replicas: [{ id: replicaId('r0'), url: engine.url, engine: 'vllm' }],
    settings: { repeatDelayMs: 5, ...options.settings },
    recordCall: async (record) => {
      records.push(record)
      return true
    },
    log: (event, detail) => reports.push({ event, ...detail }),
  })
  await until(async () => (await boundary.replicas())[0]?.state === 'up')
  const probes = engine.requests().length
  const counted: Boundary = {
    ...boundary,
    handle(call, sink) {
      arrivals += 1
      sink.onClosed(() => {
        departures += 1
      })
      return boundary.handle(call, sink)
    },
  }
  const port = await openModelPort({
    host: '127.0.0.1',
    port: 0,
    boundary: counted,
    ...(options.maxBodyBytes === undefined ? {} : { maxBodyBytes: options.maxBodyBytes }),
  })

  function openDoor(given: Partial<DoorOptions> = {}): SessionDoor {
    doors += 1
    const opened = boundary.openDoor({
      session: sessionId(`sdk-${doors}`),
      attempt: 1,
      tier: 'train',
      pins: {},
      notify: () => {},
      ...given,
    })
    if (!opened.ok) throw new Error(opened.error)
    return opened.door
  }

  const door = openDoor()
  const watchedFetch: typeof fetch = async (input, init) => {
    const response = await fetch(input, init)
    responses.push({ status: response.status, headers: response.headers })
    return response
  }
  return {
    endpoint: { origin: `http://127.0.0.1:${port.port}`, basePath: door.basePath, key: door.key, fetch: watchedFetch },
    door,
    engine,
    records,
    responses,
    reports,
    arrivals: () => arrivals,
    departures: () => departures,
    openDoor,
    asked: () => engine.requests().slice(probes),
    release: () => time.advance(HELD_MS),
    async close() {
      await port.close()
      await boundary.close()
      await kernel.close()
      await engine.close()
    },
  }
}

/** Waits for what other parts of the process bring about; the test's own limit is the deadline. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 1))
}

/** The same for something that should come while `work` is under way: its failure must be seen at once, not at the test's limit. */
export async function untilDuring(work: Promise<unknown>, holds: () => boolean): Promise<void> {
  let isOver = false
  const end = (): void => {
    isOver = true
  }
  work.then(end, end)
  await until(() => isOver || holds())
}

/** The session's calls, each answered one with exactly the tokens of its generation. Seals the door. */
export async function expectExactTokens(gateway: Gateway): Promise<SealedCalls> {
  const sealed = await gateway.door.seal()
  const read = readCalls(sealed.tokens)
  const truth = gateway.asked().filter(({ status, fault, cancelled }) => status === 200 && fault === null && !cancelled)
  const answered = sealed.calls.flatMap((call, index) => (call.status === 'ok' ? [{ call, tokens: read[index] }] : []))
  expect(answered).toHaveLength(truth.length)
  for (const [index, { call, tokens }] of answered.entries()) {
    expect(call).toMatchObject({ captureError: null, delivery: 'yes', httpStatus: 200 })
    expect([...(tokens?.promptIds ?? [])]).toEqual(truth[index]?.promptIds)
    expect([...(tokens?.sampledIds ?? [])]).toEqual(truth[index]?.sampledIds)
    expect([...(tokens?.logprobs ?? [])]).toEqual([...Float32Array.from((truth[index]?.logprobs ?? []).map(Number))])
  }
  // What the ledger was told last is what the session has.
  for (const call of sealed.calls) expect(gateway.records.findLast(({ id }) => id === call.id)).toEqual(call)
  expect(gateway.reports).toEqual([])
  gateway.door.releaseSealed()
  return sealed
}

/** Requests that were generated to their end. */
export function generations(gateway: Gateway): ReturnType<Gateway['asked']> {
  return gateway.asked().filter(({ status, sampledIds, cancelled }) => status === 200 && sampledIds.length > 0 && !cancelled)
}

/** The last prompt is the one before it with what was sampled there, and more: strictly, id by id. */
export function expectExtension(gateway: Gateway): void {
  const [before, after] = generations(gateway).slice(-2)
  if (before === undefined || after === undefined) throw new Error('there are no two generations')
  const grown = [...before.promptIds, ...before.sampledIds]
  const parted = grown.findIndex((id, index) => after.promptIds[index] !== id)
  expect(parted, `the prompts part at token ${parted} of ${grown.length} (prompt: ${before.promptIds.length})`).toBe(-1)
  expect(after.promptIds.length).toBeGreaterThan(grown.length)
}

export type EngineMessage = {
  readonly role: string
  readonly content: unknown
  readonly reasoning_content?: string
  readonly tool_calls?: readonly { readonly id: string; readonly function: { readonly name: string; readonly arguments: string } }[]
  readonly tool_call_id?: string
}

/** What the engine was told in its last generation. */
export function lastMessages(gateway: Gateway): readonly EngineMessage[] {
  return messagesOf(generations(gateway).at(-1))
}

export function messagesOf(request: ReturnType<typeof generations>[number] | undefined): readonly EngineMessage[] {
  // The engine has read the body as a chat request before it generated.
  return (request?.body as { readonly messages: readonly EngineMessage[] } | undefined)?.messages ?? []
}
