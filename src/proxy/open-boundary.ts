// The model boundary of one gateway thread: its doors, its pool, and the way of a request through them.
import type { CallRecord } from '../contract/call.ts'
import type { SessionId } from '../contract/ids.ts'
import type { ModelRule } from '../contract/model-profile.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { unreachable } from '../kernel/unreachable.ts'
import type { Arena } from '../tokens/arena.ts'
import { openAdmission } from './admission.ts'
import { openAuxiliary } from './auxiliary.ts'
import { readBody } from './body.ts'
import type { Boundary, IncomingCall, ReplicaConfig, ReplySink } from './boundary.ts'
import { openCapture } from './capture.ts'
import { credentials, type Detected, detect, headerOf, meantPath, type Route } from './detect.ts'
import type { Dialect, HttpReply } from './dialects/dialect.ts'
import { openaiChat } from './dialects/openai-chat/dialect.ts'
import { type Door, type DoorHost, openDoor } from './door.ts'
import { ENGINES } from './engines/registry.ts'
import { type Transport, undiciTransport } from './engines/transport.ts'
import { answerTurn, type Exchange, sendReply } from './exchange.ts'
import { type Failure, failure } from './failure.ts'
import { openKeyRing } from './keys.ts'
import { lineageOf } from './lineage.ts'
import { openPool } from './pool/pool.ts'
import { openReplicaSet } from './pool/replica-set.ts'
import { openProfiles } from './profiles/profile.ts'
import { openRecall } from './recall.ts'
import { type Hold, openRequestMemory, TOO_MUCH } from './request-memory.ts'
import { type BoundarySettings, DEFAULT_SETTINGS } from './settings.ts'
import type { Turn } from './turn.ts'

export type BoundaryOptions = {
  readonly kernel: Kernel
  readonly arena: Arena
  /** What it begins with; no two may call the same server. */
  readonly replicas: readonly ReplicaConfig[]
  /** The name under which the engines serve the policy; every requested name is mapped to it. Empty: the engine's only model. */
  readonly model: string
  /** What the operator says of models, beside what is known of them anyway. */
  readonly models?: readonly ModelRule[]
  readonly settings?: Partial<BoundarySettings>
  readonly transport?: Transport
  /** Resolves to false when the record was refused; its answer is then not given. A second record of a call mends its delivery. */
  readonly recordCall: (record: CallRecord) => Promise<boolean>
  readonly log?: (event: string, detail: Readonly<Record<string, unknown>>) => void
  /** Told when the first replica begins to serve and when the last one has ceased; before the first word none serves. */
  readonly onServing?: (isServing: boolean) => void
  /** Whether its calls are held from the start. */
  readonly isPaused?: boolean
  /** Told when a pause begins and when it ends; not of one that it begins in. */
  readonly onHeld?: (isHeld: boolean) => void
}

const KEY_BYTES = 32

type RouteOf<T extends Route['type']> = Extract<Route, { type: T }>

/** `failure: null` means that the client is gone. */
type Asked =
  | { readonly ok: true; readonly turn: Turn; readonly exchange: Exchange }
  | { readonly ok: false; readonly failure: Failure | null }

export function openBoundary(options: BoundaryOptions): Boundary {
  const { kernel, arena, model } = options
  const settings = { ...DEFAULT_SETTINGS, ...options.settings }
  const profileOf = openProfiles(options.models ?? [])
  const report = options.log ?? (() => {})
  const pool = openPool({
    kernel,
    model,
    profileOf,
    streamMode: settings.streamMode,
    acquireDeadlineMs: settings.acquireDeadlineMs,
    probeDeadlineMs: settings.probeDeadlineMs,
    isPaused: options.isPaused === true,
    onServing: options.onServing ?? (() => {}),
    ...(options.onHeld === undefined ? {} : { onHeld: options.onHeld }),
  })
  const replicas = openReplicaSet({
    kernel,
    pool,
    transport: options.transport ?? undiciTransport,
    maxResponseBytes: settings.maxResponseBytes,
    engineOf: ({ engine }) => ENGINES[engine],
    limits: settings.replica,
    routerReadMs: settings.routerReadMs,
    report,
  })
  for (const config of options.replicas) {
    const added = replicas.add(config)
    if (!added.ok) throw new Error(`replica ${config.id}: ${added.detail}`)
  }
  const host: DoorHost = {
    kernel,
    pool,
    model,
    profileOf,
    settings,
    engineKind: options.replicas[0]?.engine ?? 'vllm',
    admission: openAdmission({
      perSession: settings.callsPerSession,
      perThread: settings.callsPerThread,
      linePerSession: settings.linePerSession,
      linePerThread: settings.linePerThread,
    }),
    isCrowdedBy(textBytes) {
      const all = [...doors.values()].reduce((sum, door) => sum + door.textBytes(), 0)
      return all > settings.maxTextBytesPerThread && textBytes > all / doors.size
    },
    recordCall: options.recordCall,
    report,
  }
  const auxiliary = openAuxiliary({ pool, profileOf, maxBodyBytes: settings.maxBodyBytes })
  const memory = openRequestMemory(settings.requestMemory)
  const keys = openKeyRing<Door>()
  const doors = new Map<SessionId, Door>()
  let isClosed = false

  /** The door of the request's key, or why there is none. */
  function authenticate(
    call: IncomingCall,
    session: string | null,
  ): { readonly ok: true; readonly door: Door } | { readonly ok: false; readonly failure: Failure } {
    const given = credentials(call.url, call.headers)
    const door = given.map((key) => keys.find(key)).find((found) => found !== null)
    if (door === undefined || door === null) {
      const problem = given.length === 0 ? 'no API key was given' : 'the API key is not known'
      return { ok: false, failure: failure('unauthenticated', problem) }
    }
    if (session !== null && session !== door.options.session) {
      return { ok: false, failure: failure('forbidden', 'the API key does not belong to the session in the URL') }
    }
    if (!door.isOpen()) return { ok: false, failure: failure('session-ended', 'the session of this key has ended') }
    return { ok: true, door }
  }

  async function serve(call: IncomingCall, sink: ReplySink, { route, session }: Detected): Promise<void> {
    if (isClosed) return refuse(dialectOf(route), failure('gateway-closing', 'the gateway is stopping', { retryAfterMs: 1_000 }), sink)
    switch (route.type) {
      case 'greeting':
        return reply(auxiliary.greeting(), sink)
      case 'health':
        return reply(await auxiliary.health(), sink)
      case 'upgrade':
        return refuse(route.dialect, failure('upgrade-required', 'WebSockets are not served here; use HTTP'), sink)
      case 'unknown': {
        const path = call.url.split('?', 1)[0]?.slice(0, 200)
        const meant = meantPath(call.url)?.slice(0, 200)
        const hint = meant === undefined ? '' : `; did you mean POST ${meant}?`
        return refuse(route.dialect, failure('route-unknown', `${call.method} ${path} is not served here${hint}`), sink)
      }
      case 'models':
      case 'model':
      case 'count':
      case 'generate': {
        const authenticated = authenticate(call, session)
        if (!authenticated.ok) return refuse(route.dialect, authenticated.failure, sink)
        if (route.type !== 'generate' && route.type !== 'count') return reply(auxiliary.models(route), sink)
        const { door } = authenticated
        const hold = memory.open(door.options.session)
        if (hold === null) return refuse(route.dialect, TOO_MUCH, sink)
        return route.type === 'generate' ? generate(call, sink, route, door, hold) : count(call, sink, route, door, hold)
      }
      default:
        return unreachable(route)
    }
  }

  async function count(call: IncomingCall, sink: ReplySink, route: RouteOf<'count'>, door: Door, hold: Hold): Promise<void> {
    try {
      await reply(await auxiliary.count(call, route, door, hold), sink)
    } finally {
      hold.release()
    }
  }

  async function generate(call: IncomingCall, sink: ReplySink, route: RouteOf<'generate'>, door: Door, hold: Hold): Promise<void> {
    let recorded: Promise<unknown> = Promise.resolve()
    try {
      const asked = await ask(call, route, door, hold)
      if (!asked.ok) return asked.failure === null ? sink.destroy() : await refuse(route.dialect, asked.failure, sink)
      const { turn, exchange } = asked
      // Its conversation is kept until then, client or no client.
      recorded = turn.outcome
      const served = answerTurn(exchange, turn, sink).then(
        (delivery) => door.detach(turn, delivery),
        (error: unknown) => {
          report('boundary-fault', { session: door.options.session, call: turn.call, error: String(error) })
          sink.destroy()
          door.detach(turn, 'no')
        },
      )
      door.track(() => sink.destroy(), served)
      await served
    } finally {
      void recorded.then(() => hold.release())
    }
  }

  /** A function of its own, so that no body outlives its reading. */
  async function ask(call: IncomingCall, { dialect, url }: RouteOf<'generate'>, door: Door, hold: Hold): Promise<Asked> {
    const read = await readBody(call, headerOf(call.headers, 'content-encoding'), { maxBytes: settings.maxBodyBytes, hold })
    if (!read.ok) return read
    const { tier, pins } = door.options
    const request = dialect.read(read.body, { tier, pins, url })
    if (!request.ok) return request
    const normalised = { ...request.call, diagnostics: [...read.diagnostics, ...request.call.diagnostics] }
    const attached = door.attach({ dialect: dialect.name, lineage: lineageOf(call.headers), normalised, echo: request.reply.echo })
    if (!attached.ok) return attached
    const { stream: isStream, modelRequested } = request.call
    const exchange = { kernel, settings, dialect, reply: request.reply, isStream, model: modelRequested, isHeld: pool.isPaused }
    return { ok: true, turn: attached.turn, exchange }
  }

  return {
    openDoor(doorOptions): ReturnType<Boundary['openDoor']> {
      const { session, attempt } = doorOptions
      if (isClosed) return { ok: false, error: 'the boundary is closed' }
      if (doors.has(session)) return { ok: false, error: `session ${session} has a door already` }
      const capture = openCapture({ session, attempt, tokens: arena.openSession() })
      const door = openDoor(
        host,
        doorOptions,
        capture,
        openRecall(() => `call_${kernel.random.hex(12)}`),
      )
      const key = kernel.random.hex(KEY_BYTES)
      doors.set(session, door)
      keys.add(key, door)
      return {
        ok: true,
        door: {
          key,
          basePath: `/s/${session}`,
          beginRun: () => door.beginRun(),
          budget: () => door.budget(),
          seal: () => door.seal(),
          releaseSealed: () => door.releaseSealed(),
          close() {
            keys.remove(door)
            if (doors.get(session) === door) doors.delete(session)
            door.close()
          },
        },
      }
    },
    async handle(call, sink) {
      try {
        await serve(call, sink, detect(call.method, call.url, call.headers))
      } catch (error) {
        report('boundary-fault', {
          // The query may hold the session's key.
          url: call.url.split('?', 1)[0]?.slice(0, 200),
          error: error instanceof Error ? (error.stack ?? error.message) : String(error),
        })
        sink.destroy()
      }
    },
    addReplica(config) {
      const change = replicas.add(config)
      if (change.ok) report('replica-added', { replica: config.id, url: config.url })
      return change
    },
    removeReplica(id) {
      const change = replicas.remove(id)
      if (change.ok) report('replica-removed', { replica: id })
      return change
    },
    replicas: () => replicas.views(),
    callsOf: (session, wish) => doors.get(session)?.callsOf(wish) ?? null,
    async pause(timeoutMs) {
      const outcome = await pool.pause(timeoutMs)
      report(outcome === 'paused' ? 'inference-paused' : 'inference-not-paused', { outcome, ...pool.counts() })
      return outcome
    },
    resume() {
      if (pool.isPaused()) report('inference-resumed', pool.counts())
      pool.resume()
    },
    async inference() {
      const views = await replicas.views()
      return { paused: pool.isPaused(), ...pool.counts(), replicas: views }
    },
    async close() {
      isClosed = true
      await Promise.all([...doors.values()].map((door) => door.seal()))
      await replicas.close()
    },
  }
}

function refuse(dialect: Dialect, reason: Failure, sink: ReplySink): Promise<void> {
  return reply(dialect.failure(reason), sink)
}

/** Null: nobody is there to be answered. */
async function reply(answer: HttpReply | null, sink: ReplySink): Promise<void> {
  if (answer === null) sink.destroy()
  else await sendReply(answer, sink)
}

function dialectOf(route: Route): Dialect {
  return 'dialect' in route ? route.dialect : openaiChat
}
