// One generation that is told while it is sampled: asked for as a stream, and the same in its end as one that is not.
import type { Engine, EngineOutcome, EngineRequest, Send } from '../engines/engine.ts'
import type { LiveAnswer } from './live-answer.ts'
import { openTelling } from './telling.ts'

/** The answer that a call's client may hear grow. */
export type GrowingAnswer = {
  readonly answer: LiveAnswer
  /** The id by which the client is told of a call. */
  readonly toldId: (id: string) => string
}

export type LiveOptions = {
  readonly stream: NonNullable<Engine['stream']>
  readonly growing: GrowingAnswer
  readonly cutStrings: readonly string[]
  readonly newId: () => string
}

export async function generateLive(
  { stream, growing, cutStrings, newId }: LiveOptions,
  request: EngineRequest,
  send: Send,
): Promise<EngineOutcome> {
  const telling = openTelling({ cutStrings, newId, toldId: growing.toldId, tell: growing.answer.tell })
  const outcome = await stream(request, send, telling.tell)
  return outcome.type === 'answer' ? { ...outcome, answer: telling.named(outcome.answer) } : outcome
}
