// What Polar's Slime bridge makes of a TaskResult: the rules of its published mapping, in a few lines. A test's reader, not a trainer.
import type { SessionResultBody, TaskResultBody, TraceBody } from './schemas.ts'

export type Sample = {
  readonly sessionId: string
  /** Shared by all traces of a session. */
  readonly index: number
  readonly tokens: readonly number[]
  readonly responseLength: number
  readonly lossMask: readonly number[]
  readonly rolloutLogProbs: readonly number[]
  readonly reward: number
  readonly status: 'COMPLETED' | 'TRUNCATED' | 'ABORTED' | 'FAILED'
  /** Stands for a session of which nothing can be trained. */
  readonly removeSample: boolean
}

export type BridgeOptions = {
  /** Tokens of prompt and response that the trainer has room for. */
  readonly maxTokens: number
}

/** A session whose trainable tokens have no aligned logprobs: the bridge's own error, which makes a placeholder of that session alone. */
export class LogprobError extends Error {}

export function readTask(task: TaskResultBody, options: BridgeOptions): readonly Sample[] {
  return task.results.flatMap((session, index) => {
    try {
      return readSession(session, index, options)
    } catch (error) {
      if (error instanceof LogprobError) return [placeholder(session, index)]
      throw error
    }
  })
}

/** Throws LogprobError. */
export function readSession(session: SessionResultBody, index: number, options: BridgeOptions): readonly Sample[] {
  const verdict = judge(session)
  const samples = session.trajectory.traces.flatMap((trace) => readTrace(trace, session, index, verdict, options))
  return samples.length === 0 ? [placeholder(session, index)] : samples
}

type Verdict = { readonly status: Sample['status'] | null; readonly isTrained: boolean; readonly reward: number | null }

/**
 * An agent that ran out of its own budget is cut off and still teaches, with reward 0; a session that ran out of its budget, or went
 * wrong, teaches nothing.
 */
function judge({ status, error, trajectory }: SessionResultBody): Verdict {
  const { timeout_source: source } = trajectory.metadata.agent_result
  if (status === 'TIMEOUT' && source === 'agent') return { status: 'TRUNCATED', isTrained: true, reward: 0 }
  if (status === 'TIMEOUT') return { status: 'ABORTED', isTrained: false, reward: 0 }
  if (status === 'ERROR' || (error ?? trajectory.error ?? null) !== null) return { status: 'FAILED', isTrained: false, reward: 0 }
  return { status: null, isTrained: true, reward: null }
}

function readTrace(
  trace: TraceBody,
  { session_id: sessionId }: SessionResultBody,
  index: number,
  verdict: Verdict,
  { maxTokens }: BridgeOptions,
): readonly Sample[] {
  if (trace.prompt_ids.length === 0 || trace.response_ids.length === 0) return []
  const room = maxTokens - trace.prompt_ids.length
  if (room <= 0) return []
  const isGraded = trace.reward !== null
  // The bridge wants a number. A row that nobody graded has none, and then it must not train either.
  const lossMask = trace.loss_mask.slice(0, room).map((bit) => (verdict.isTrained && (isGraded || verdict.reward !== null) ? bit : 0))
  if (!lossMask.includes(1)) return []
  const logprobs = trace.response_logprobs
  if (logprobs === null || logprobs.length !== trace.response_ids.length)
    throw new LogprobError(`session ${sessionId}: logprobs are not aligned`)
  const isCut = trace.response_ids.length > room || trace.finish_reason === 'length'
  return [
    {
      sessionId,
      index,
      tokens: [...trace.prompt_ids, ...trace.response_ids.slice(0, room)],
      responseLength: lossMask.length,
      lossMask,
      rolloutLogProbs: logprobs.slice(0, room),
      reward: verdict.reward ?? trace.reward ?? 0,
      status: verdict.status ?? (isCut ? 'TRUNCATED' : 'COMPLETED'),
      removeSample: false,
    },
  ]
}

function placeholder({ session_id: sessionId }: SessionResultBody, index: number): Sample {
  return {
    ...{ sessionId, index, tokens: [0, 0], responseLength: 1, lossMask: [0], rolloutLogProbs: [0], reward: 0 },
    ...{ status: 'ABORTED', removeSample: true },
  }
}
