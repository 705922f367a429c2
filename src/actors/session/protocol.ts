// One attempt of one session: phase, budgets, sandbox, calls, outcome.
import type { Settled } from '../../kernel/actor.ts'
import type { Answer, Ask } from '../../kernel/ask.ts'
import type { CallFact, SealedCalls } from '../../proxy/boundary.ts'
import type { Fallible } from '../../runtime/runtime.ts'
import type { BuildReply } from '../builder/protocol.ts'
import type { EvaluatorReply } from '../evaluator/protocol.ts'
import type { CancelReason, SessionAccess } from '../gateway/protocol.ts'
import type { Recorded } from '../ledger/protocol.ts'
import type { SandboxFact, StartedSandbox } from '../sandbox/protocol.ts'

/** What the gateway says. */
export type SessionCommand =
  | { readonly type: 'begin-capture' }
  /** Of a capture: its agent is done. False when something else has ended it. */
  | { readonly type: 'finish-capture'; readonly reward: number | null; readonly ask: Ask<boolean> }
  | { readonly type: 'read-access'; readonly ask: Ask<SessionAccess | null> }
  | { readonly type: 'begin-init' }
  | { readonly type: 'begin-run' }
  | { readonly type: 'begin-post-run' }
  /** Whether a pause holds its model calls: meanwhile its agent's time does not run. */
  | { readonly type: 'calls-held'; readonly isHeld: boolean }
  | { readonly type: 'cancel'; readonly reason: CancelReason }

/** How a step of INIT or of the launch went; `blame` decides the outcome of a failure, `isFinal` says that it would be repeated. */
export type Preparation =
  | { readonly ok: true; readonly prepareMs: number; readonly setupMs: number }
  | { readonly ok: false; readonly blame: 'init' | 'harness' | 'runtime'; readonly isFinal: boolean; readonly detail: string }

export type Deadline = 'init' | 'agent' | 'first-call' | 'idle'

/** What the session's own effects report back to it. */
type SessionSignal =
  | { readonly type: 'door-refused'; readonly error: string }
  | { readonly type: 'sandbox-started'; readonly result: Answer<Fallible<StartedSandbox>> }
  | { readonly type: 'prepared'; readonly result: Settled<Preparation> }
  | { readonly type: 'launched'; readonly result: Answer<Fallible<void>> }
  | { readonly type: 'deadline-passed'; readonly of: Deadline }
  /** The agent's tree is gone, or could not be reached within the teardown budget. */
  | { readonly type: 'agent-killed'; readonly result: Answer<Fallible<void>> }
  /** Null when the attempt never had a door to the model. */
  | { readonly type: 'sealed'; readonly result: Settled<SealedCalls | null> }
  | { readonly type: 'built'; readonly result: Answer<BuildReply> }
  | { readonly type: 'evaluated'; readonly result: Answer<EvaluatorReply> }
  | { readonly type: 'finished'; readonly result: Answer<BuildReply> }
  | { readonly type: 'recorded'; readonly result: Answer<Recorded> }
  | { readonly type: 'sandboxes-stopped'; readonly result: Answer<void> }
  | { readonly type: 'record-again' }
  | { readonly type: 'report-again' }

export type SessionMessage = SessionCommand | SessionSignal | SandboxFact | CallFact
