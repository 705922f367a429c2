// The model boundary as the rest of a gateway thread sees it: doors for sessions, one entry for requests.
import type { CallRecord, EngineKind, ModelUse } from '../contract/call.ts'
import type { CallId, ReplicaId, SessionId } from '../contract/ids.ts'
import type { ReplicaChange } from '../contract/replica.ts'
import type { BudgetLimits, BudgetUse } from '../contract/session-budget.ts'
import type { SlabReference } from '../tokens/reference.ts'

export type SamplingPins = {
  readonly temperature?: number
  readonly top_p?: number
  readonly top_k?: number
  readonly seed?: number
}

/** Told to the session while its door is open; facts, in order. */
export type CallFact =
  | { readonly type: 'call-opened'; readonly call: CallId; readonly sequence: number }
  | {
      readonly type: 'call-closed'
      readonly call: CallId
      readonly status: CallRecord['status']
      readonly model: ModelUse
      readonly promptTokens: number
      readonly sampledTokens: number
      readonly contextExhausted: boolean
    }
  /** Once: from now on its agent is told that it is over, whatever it asks. */
  | { readonly type: 'budget-spent'; readonly sentence: string }

export type DoorOptions = {
  readonly session: SessionId
  readonly attempt: number
  readonly tier: 'train' | 'eval'
  readonly pins: SamplingPins
  /** What its calls may come to; absent: what the boundary's own settings leave. */
  readonly limits?: BudgetLimits
  readonly notify: (fact: CallFact) => void
}

/** Everything the builder needs, as plain data; `tokens` is leased until the door's `releaseSealed` is called. */
export type SealedCalls = {
  readonly calls: readonly CallRecord[]
  readonly messages: readonly string[]
  readonly tokens: SlabReference
  /** Calls that ended in an error of the engine, not of the client: the session's outcome depends on it. */
  readonly upstreamFailures: number
}

/** Which calls of a door are looked at: so many from a sequence number on, with texts of about so many characters. */
export type CallsWish = { readonly from: number; readonly limit: number; readonly maxText: number }

/** Calls that have ended, at this moment, and the texts that they name. */
export type CallsPart = {
  /** In the order of their arrival; of the calls from `from` up to but not including `until`, those in flight are missing. */
  readonly calls: readonly CallRecord[]
  readonly from: number
  readonly until: number
  /** Calls that were opened. */
  readonly total: number
  readonly messages: readonly string[]
}

/** One attempt's access to the model. Opened before the agent starts, sealed when it is gone. */
export type SessionDoor = {
  /** 32 random bytes; only its SHA-256 is kept. */
  readonly key: string
  /** `/s/<session>`: put before the dialect's own path. */
  readonly basePath: string
  /** The agent's run begins: time before it costs none of the session's seconds. Idempotent. */
  beginRun(): void
  /** What of the session's limits is used; null where there was none. */
  budget(): BudgetUse | null
  /** Refuses new calls, cancels those in flight at once, and resolves when each has its record. Idempotent. */
  seal(): Promise<SealedCalls>
  /** Gives back the lease that `seal` took. Idempotent. */
  releaseSealed(): void
  /** Frees the session's tokens and texts. Implies `releaseSealed`. Idempotent. */
  close(): void
}

/** A request as the boundary takes it: from a socket, or from a simulated agent. */
export type IncomingCall = {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** `fits` is asked before more of it is kept; what does not fit ends the reading with `full`. */
  readonly body: (
    fits: (bytes: number) => boolean,
  ) => Promise<{ readonly ok: true; readonly bytes: Uint8Array } | { readonly ok: false; readonly error: 'too-large' | 'full' | 'gone' }>
}

/** Where an answer goes. `write` says whether to wait for `drained`; `closed` fires once, when the peer is gone before the end. */
export type ReplySink = {
  head(status: number, headers: Readonly<Record<string, string>>): void
  write(chunk: string | Uint8Array): boolean
  drained(): Promise<void>
  /** Resolves to what the socket is known to have taken. */
  end(chunk?: string | Uint8Array): Promise<'yes' | 'partial' | 'no'>
  /** Cuts the connection: the only honest end of a stream that failed after its head. */
  destroy(): void
  onClosed(listener: () => void): void
}

/** An inference server as this thread is to use it. */
export type ReplicaConfig = {
  readonly id: ReplicaId
  readonly url: string
  readonly engine: EngineKind
  /** This thread's share of the node-wide cap, for all its ranks together. */
  readonly inFlight?: number
  /** Calls that may wait for it on this thread, for all its ranks together. */
  readonly line?: number
  /** Ranks behind the one URL, each a replica of its own that is addressed by header; absent: the server places calls itself. */
  readonly ranks?: number
  /** A router of SGLang's: takes no call; its workers are replicas with these limits each. Absent: an engine. */
  readonly router?: boolean
}

/** What a replica's proxy actor says of it. */
export type ReplicaStatus = {
  readonly id: ReplicaId
  readonly url: string
  /** `removing`: takes no call, and is gone when the last one has ended. */
  readonly state: 'up' | 'down' | 'paused' | 'unprobed' | 'removing'
  readonly tier: 'train' | 'eval' | 'unknown'
  readonly inFlight: number
  readonly waiting: number
  readonly weightVersion: string | null
  /** Why it is down, or of tier `eval`, or told only when it is whole what others tell while it is sampled. */
  readonly detail: string | null
}

export type ReplicaView = ReplicaStatus & {
  readonly engine: EngineKind
  /** A `router` takes no call: its workers stand beside it, as `<its id>/<host:port>`. */
  readonly role: 'engine' | 'router'
  /** Data-parallel rank, when calls are placed by it. */
  readonly rank: number | null
  readonly maxInFlight: number
  readonly logprobMode: 'raw' | 'processed' | 'unknown'
  readonly maxModelLen: number | null
}

/** `timed-out`: calls were still in flight, and nothing is held any more; `resumed`: a resume came before they had ended. */
export type PauseOutcome = 'paused' | 'timed-out' | 'resumed'

/** What a gateway thread's calls do at this moment. */
export type Inference = {
  readonly paused: boolean
  /** Calls that generate now, and those that wait for a place, for a server, or for the end of a pause. */
  readonly inFlight: number
  readonly waiting: number
  readonly replicas: readonly ReplicaView[]
}

export type Boundary = {
  openDoor(options: DoorOptions): { readonly ok: true; readonly door: SessionDoor } | { readonly ok: false; readonly error: string }
  /** Serves one request to its end; never throws. */
  handle(call: IncomingCall, sink: ReplySink): Promise<void>
  /** Serves from one more; it is probed first, as at the start. */
  addReplica(config: ReplicaConfig): ReplicaChange
  /** No new call goes there, whoever waits for it goes elsewhere at once, calls in flight end by themselves. */
  removeReplica(id: ReplicaId): ReplicaChange
  replicas(): Promise<readonly ReplicaView[]>
  /** Null when the session has no door. */
  callsOf(session: SessionId, wish: CallsWish): CallsPart | null
  /** Holds every new call at once, whichever server it would go to; resolves when none is in flight. Never rejects. */
  pause(timeoutMs: number): Promise<PauseOutcome>
  /** Ends every pause. Idempotent. */
  resume(): void
  inference(): Promise<Inference>
  /** Refuses everything, cancels everything, settles everything. Idempotent. */
  close(): Promise<void>
}
