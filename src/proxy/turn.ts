// One generation as those who wait for it see it.
import type { CallId } from '../contract/ids.ts'
import type { ChatAnswer } from './chat.ts'
import type { Failure } from './failure.ts'
import type { LiveAnswer } from './live/live-answer.ts'

export type TurnOutcome = { readonly ok: true; readonly answer: ChatAnswer } | { readonly ok: false; readonly failure: Failure }

/** One generation, and whoever comes for it. */
export type Turn = {
  readonly call: CallId
  readonly createdSeconds: number
  /** Of the same question, since it was last answered. */
  readonly earlierFailures: number
  /** What is told of the answer before its end; null when nothing is. */
  readonly live: LiveAnswer | null
  /** Settles when the call has its record; never rejects. */
  readonly outcome: Promise<TurnOutcome>
}
