// One shard of sessions: stage pools, READY reservations, run slots and cancel.
import type { ModelUse } from '../../contract/call.ts'
import type { GatewayId, ReplicaId, SessionId, TaskId } from '../../contract/ids.ts'
import type { SessionStatus } from '../../contract/outcome.ts'
import type { ReplicaChange } from '../../contract/replica.ts'
import type { TaskRequest } from '../../contract/task.ts'
import type { Answer, Ask } from '../../kernel/ask.ts'
import type { Inference, PauseOutcome, ReplicaConfig, ReplicaView } from '../../proxy/boundary.ts'

/** `agent`: run by this node in a sandbox; `capture`: started elsewhere, it calls the model by the URL and key that it was given. */
export type SessionKind = 'agent' | 'capture'

export type SessionSpec = {
  readonly kind: SessionKind
  readonly session: SessionId
  /** As readers are told; `key` is the ledger's name of it, which is another for a session by itself. */
  readonly task: TaskId
  readonly key: TaskId
  readonly attempt: number
  readonly maxAttempts: number
  readonly sampleIndex: number
  readonly priority: number
  readonly request: TaskRequest
  /** Monotonic age of the session when it was dispatched: goes into `register_to_init_queue_ms`. */
  readonly registeredMsAgo: number
}

export type GatewayLimits = {
  /** INIT + READY never exceeds this; the capacity of the READY mailbox. */
  readonly maxReadySessions: number
  readonly maxInitWorkers: number
  readonly maxRunWorkers: number
  readonly maxPostrunWorkers: number
  readonly maxGraderSandboxes: number
  /** Captures at a time; they take no place of the stages above before POSTRUN. */
  readonly maxCaptures: number
}

/** What an agent that was started elsewhere needs to call the model as this session. */
export type SessionAccess = {
  readonly key: string
  /** `/s/<session>`: put before the dialect's own path. */
  readonly basePath: string
  readonly modelPort: number
}

/** One gateway's use of its inference servers. */
export type InferenceStatus = Inference & { readonly gateway: GatewayId }

/** `timed-out`: calls were still in flight; the pause was taken back, nothing is held. `resumed`: a resume came before they had ended. */
export type PauseReply = { readonly type: PauseOutcome; readonly status: InferenceStatus }

/** `packed`: some of the calls, perhaps fewer than were asked for; `none`: no session of that name has a door here. */
export type CompletionsReply =
  | { readonly type: 'packed'; readonly packed: ArrayBuffer }
  | { readonly type: 'none' }
  | { readonly type: 'failed'; readonly detail: string }

export type CancelReason = 'cancelled by the trainer' | 'deleted' | 'stopped early: enough usable sessions' | 'node is stopping'

export type GatewayMetrics = {
  readonly initQueueDepth: number
  readonly initInflight: number
  readonly readyDepth: number
  readonly runInflight: number
  readonly postrunQueueDepth: number
  readonly postrunInflight: number
  readonly arena: {
    readonly allocatedBlocks: number
    readonly freeBlocks: number
    readonly leasedBlocks: number
    readonly pressure: boolean
  }
}

export type GatewaySessionView = {
  readonly session: SessionId
  readonly task: TaskId
  readonly attempt: number
  readonly status: SessionStatus
  readonly ageMs: number
  readonly idleMs: number
  readonly calls: number
  /** Of the last call that has ended. */
  readonly model: ModelUse | null
}

export type GatewaySnapshot = {
  readonly gateway: GatewayId
  readonly modelPort: number
  readonly limits: GatewayLimits
  readonly metrics: GatewayMetrics
  readonly sessions: readonly GatewaySessionView[]
  readonly replicas: readonly ReplicaView[]
}

export type GatewayCommand =
  /** The rollout server knows this gateway now; demand that reached it before that would be nobody's. */
  | { readonly type: 'announce-demand' }
  /** Uses one slot of the demand this gateway announced; a capture uses none. */
  | { readonly type: 'open-session'; readonly spec: SessionSpec }
  | { readonly type: 'cancel-session'; readonly session: SessionId; readonly reason: CancelReason }
  /** INIT is over and the sandbox waits: the session takes its place in READY. */
  | { readonly type: 'session-prepared'; readonly session: SessionId }
  /** The agent is gone, whatever the reason: the run slot, if the session held one, is free. */
  | { readonly type: 'session-left-run'; readonly session: SessionId }
  /** The session stopped its sandboxes and reported its result. */
  | { readonly type: 'session-closed'; readonly session: SessionId }
  | {
      readonly type: 'session-status'
      readonly session: SessionId
      readonly status: SessionStatus
      readonly calls: number
      readonly model: ModelUse | null
    }
  /** A session actor threw: its kernel ended it, and nobody else will report on the session. */
  | { readonly type: 'session-crashed'; readonly actor: number; readonly error: string }
  | { readonly type: 'arena-pressure'; readonly high: boolean }
  /** Whether any inference replica serves. While none does, prepared sessions wait in READY: their agents would only meet errors. */
  | { readonly type: 'engine-available'; readonly isAvailable: boolean }
  /** Whether a pause holds the model calls of this thread: its agents cannot help that, so their time does not run. */
  | { readonly type: 'calls-held'; readonly isHeld: boolean }
  /** One more inference server for the sessions of this gateway. */
  | { readonly type: 'add-replica'; readonly replica: ReplicaConfig; readonly ask: Ask<ReplicaChange> }
  /** Answered as soon as no call goes there; those in flight end by themselves. */
  | { readonly type: 'remove-replica'; readonly replica: ReplicaId; readonly ask: Ask<ReplicaChange> }
  /** Of a capture, once its door is open; null when the gateway does not hold it, or it is over. */
  | { readonly type: 'read-access'; readonly session: SessionId; readonly ask: Ask<SessionAccess | null> }
  /** A capture is complete: it is sealed and built, and rewarded so if `reward` says. False when the gateway holds no capture of that name. */
  | { readonly type: 'finish-capture'; readonly session: SessionId; readonly reward: number | null; readonly ask: Ask<boolean> }
  /** Calls of a session it holds, in the order of their arrival, from the one of that sequence number on. */
  | {
      readonly type: 'read-completions'
      readonly session: SessionId
      readonly from: number
      readonly limit: number
      readonly ask: Ask<CompletionsReply>
    }
  /** How many a session has made that it holds; 0 of any other. */
  | { readonly type: 'count-calls'; readonly session: SessionId; readonly ask: Ask<number> }
  | { readonly type: 'read-inference'; readonly ask: Ask<InferenceStatus> }
  /** Holds new calls at once, whatever else was said before; answered when those in flight have ended. */
  | { readonly type: 'pause-inference'; readonly timeoutMs: number; readonly ask: Ask<PauseReply> }
  /** Ends every pause. */
  | { readonly type: 'resume-inference'; readonly ask: Ask<InferenceStatus> }
  | { readonly type: 'read-gateway'; readonly ask: Ask<GatewaySnapshot> }
  /** Takes no new session, cancels none; answered when the last one is closed. */
  | { readonly type: 'drain'; readonly ask: Ask<void> }

/** Asks one gateway's actor: `stopped` while its thread is gone. Without a deadline of its own a question has a few seconds. */
export type AskGateway = <R>(gateway: GatewayId, make: (ask: Ask<R>) => GatewayCommand, deadlineMs?: number) => Promise<Answer<R>>
