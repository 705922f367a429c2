// One call from its place in the line to the end of its generation: held, allowed by its session's budget, generated.
import type { SessionId } from '../contract/ids.ts'
import type { Ticket } from './admission.ts'
import type { OpenedCall } from './capture.ts'
import { type Generated, openEnding } from './ending.ts'
import { type Failure, failure } from './failure.ts'
import { type GenerationHost, generate } from './generation.ts'
import type { LiveAnswer } from './live/live-answer.ts'
import type { Recall } from './recall.ts'
import type { Spending } from './spending.ts'

export type AdmittedHost = GenerationHost & {
  readonly report: (event: string, detail: Readonly<Record<string, unknown>>) => void
}

/** Whose call it is. */
export type Caller = {
  readonly session: SessionId
  readonly tier: 'train' | 'eval'
  readonly spending: Spending
  readonly recall: Recall
}

export type WaitingCall = {
  readonly opened: OpenedCall
  readonly live: LiveAnswer | null
  readonly ticket: Ticket
  readonly signal: AbortSignal
}

export const OVERLOADED = failure('overloaded', 'too many model calls at once; try again later', { retryAfterMs: 2_000 })
export const GATEWAY_ERROR = failure('gateway-error', 'the gateway failed to serve this call')

/** Gives its place back. Never rejects. */
export async function generateAdmitted(host: AdmittedHost, caller: Caller, call: WaitingCall): Promise<Generated> {
  const { session, tier, spending, recall } = caller
  const { opened, live, ticket, signal } = call
  const { request } = opened.normalised
  const neverBegun = (reason: Failure): Generated => openEnding(host, request.parameters).neverBegun(reason)
  try {
    const held = await admit(host, ticket, signal)
    if (held !== null) return neverBegun(held)
    const allowed = await spending.allow(opened.id, request.parameters, host.pool.maxModelLen(), signal)
    if (!allowed.ok) return neverBegun(allowed.failure)
    const growing = live === null ? null : { answer: live, toldId: recall.reserve }
    return await generate(host, session, tier, request, signal, allowed.limits, growing)
  } catch (error) {
    host.report('boundary-fault', { session, call: opened.id, error: String(error) })
    return neverBegun(GATEWAY_ERROR)
  } finally {
    ticket.leave()
  }
}

/** Null when the call may go on. */
function admit({ kernel, pool, settings }: AdmittedHost, ticket: Ticket, signal: AbortSignal): Promise<Failure | null> {
  return new Promise((resolve) => {
    const settle = (held: Failure | null): void => {
      timer.cancel()
      signal.removeEventListener('abort', cancel)
      resolve(held)
    }
    const cancel = (): void => settle(failure('cancelled', 'the call was cancelled'))
    const expire = (): void => {
      // Those before it are held, too: a pause costs nobody their place.
      if (pool.isPaused()) timer = kernel.scheduler.after(settings.holdDeadlineMs, expire)
      else settle(OVERLOADED)
    }
    let timer = kernel.scheduler.after(settings.holdDeadlineMs, expire)
    signal.addEventListener('abort', cancel, { once: true })
    void ticket.admitted.then(() => settle(signal.aborted ? failure('cancelled', 'the call was cancelled') : null))
  })
}
