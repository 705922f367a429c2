// One attempt of one session: phase, budgets, sandbox, calls, outcome.

import type { Evaluation } from '../../evaluators/evaluator.ts'
import type { Settled } from '../../kernel/actor.ts'
import type { Answer } from '../../kernel/ask.ts'
import type { CallFact, SealedCalls } from '../../proxy/boundary.ts'
import type { Fallible } from '../../runtime/runtime.ts'
import type { ArrayBufferPayload, BuildReply } from '../builder/protocol.ts'
import type { CancelReason } from '../gateway/protocol.ts'
import type { Recorded } from '../ledger/protocol.ts'
import type { AgentEnded, SandboxFact, StartedSandbox } from '../sandbox/protocol.ts'

/** What the gateway says. */
export type SessionCommand =
  | { readonly type: 'begin-init' }
  | { readonly type: 'begin-run' }
  | { readonly type: 'begin-post-run' }
  | { readonly type: 'cancel'; readonly reason: CancelReason }

/** What the session's own effects report back to it. */
export type SessionSignal =
  | { readonly type: 'sandbox-started'; readonly result: Answer<Fallible<StartedSandbox>> }
  | {
      readonly type: 'prepared'
      readonly result: Settled<{ readonly ok: true } | { readonly ok: false; readonly detail: string; readonly harness: boolean }>
    }
  | {
      readonly type: 'launched'
      readonly result: Settled<{ readonly ok: true } | { readonly ok: false; readonly detail: string; readonly harness: boolean }>
    }
  | { readonly type: 'deadline'; readonly of: 'init' | 'agent' | 'no-model-call' }
  | { readonly type: 'agent-dead'; readonly ended: AgentEnded | null }
  | { readonly type: 'sealed'; readonly result: Settled<SealedCalls> }
  | { readonly type: 'built'; readonly result: Answer<BuildReply> }
  | { readonly type: 'evaluated'; readonly result: Answer<Evaluation> }
  | { readonly type: 'finished'; readonly result: Answer<BuildReply> }
  | { readonly type: 'recorded'; readonly result: Answer<Recorded> }
  | { readonly type: 'sandbox-stopped' }

export type SessionMessage = SessionCommand | SessionSignal | SandboxFact | CallFact

export type { ArrayBufferPayload }
