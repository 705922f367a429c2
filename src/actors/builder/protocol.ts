// Turns sealed calls into a packed trajectory, and a graded trajectory into a packed result, on piscina workers.
import type { SessionId, TaskId } from '../../contract/ids.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { StrategySpec } from '../../contract/task.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { SealedCalls } from '../../proxy/boundary.ts'
import type { ResultFacts } from '../../trajectory/facts.ts'

export type { ResultFacts }

export type BuildReply =
  | {
      readonly type: 'built'
      readonly payload: ArrayBuffer
      readonly traces: number
      readonly trainableTokens: number
      readonly capturedTokens: number
      /** The calls packed, for whoever looks at them; null: there were none. */
      readonly completions: ArrayBuffer | null
    }
  | { readonly type: 'finished'; readonly payload: ArrayBuffer; readonly summary: SessionSummary }
  | { readonly type: 'build-failed'; readonly error: string; readonly completions: ArrayBuffer | null }

export type BuilderCommand =
  /** The slab lease in `sealed` is released by the asker after the answer. */
  | {
      readonly type: 'build'
      readonly session: SessionId
      readonly task: TaskId
      readonly attempt: number
      readonly strategy: StrategySpec
      readonly sealed: SealedCalls
      readonly taskMetadata: Readonly<Record<string, unknown>>
      readonly timeoutMs: number
      readonly ask: Ask<BuildReply>
    }
  /** `payload` is what `build` answered; it moves with the message. Applies outcome, reward policy and row weights. */
  | {
      readonly type: 'finish'
      readonly payload: ArrayBuffer
      readonly facts: ResultFacts
      readonly timeoutMs: number
      readonly ask: Ask<BuildReply>
    }
