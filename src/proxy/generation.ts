// One generation from an admitted call to its end: place, send, and again while what the engine said has a remedy.
import type { EngineKind } from '../contract/call.ts'
import type { SessionId } from '../contract/ids.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { ChatRequest } from './chat.ts'
import { within } from './deadline.ts'
import { type Ending, type EndingOptions, type Generated, openEnding } from './ending.ts'
import { type AnswerPart, goOn, whyAnew } from './engines/continuation.ts'
import type { EngineRequest, Send } from './engines/engine.ts'
import { overflow } from './engines/rejection.ts'
import { named } from './engines/weight-spans.ts'
import { type GrowingAnswer, generateLive } from './live/live-generation.ts'
import { isOverlong } from './overlong.ts'
import type { KnownWeights, Lease, Pool } from './pool/pool.ts'
import { type Prepared, prepare } from './profiles/preparation.ts'
import type { ProfileOf } from './profiles/profile.ts'
import type { BoundarySettings } from './settings.ts'
import { withSoundArguments } from './sound-arguments.ts'
import { inventedId, isBoundToFail, isUnavailable, judge, type Lessons, learnBudget, outageOf, type Sent } from './verdict.ts'

export type GenerationHost = EndingOptions & {
  readonly pool: Pool
  readonly profileOf: ProfileOf
  readonly settings: BoundarySettings
}

/** What its session leaves to a call: tokens to sample, and tokens of prompt and answer together. Null: as many as the model can. */
export type CallLimits = { readonly sampledTokens: number | null; readonly contextTokens: number | null }

const UNLIMITED: CallLimits = { sampledTokens: null, contextTokens: null }

export async function generate(
  host: GenerationHost,
  session: SessionId,
  tier: 'train' | 'eval',
  request: ChatRequest,
  signal: AbortSignal,
  limits: CallLimits = UNLIMITED,
  growing: GrowingAnswer | null = null,
): Promise<Generated> {
  const { kernel, pool, settings } = host
  const ending = openEnding(host, request.parameters)
  const lessons: Lessons = {
    avoid: new Set(),
    maxTokens: null,
    overBudget: null,
    needsSoundArguments: false,
    breaks: 0,
    aborts: 0,
    part: null,
    drawsAnew: false,
    hasTold: false,
    outage: null,
  }
  let pauses = pool.pauses()
  for (;;) {
    const acquired = await pool.acquire(session, tier, lessons.avoid, signal)
    // An outage that a pause lay in is to be waited out anew: servers sleep in a pause, and wake after it.
    if (pool.pauses() !== pauses) lessons.outage = null
    pauses = pool.pauses()
    if (!acquired.ok) {
      const isOutage = acquired.failure.code === 'engine-unreachable'
      const leftMs = isOutage ? outageOf(kernel, settings, lessons).endsMs - kernel.clock.nowMs() : 0
      if (leftMs <= 0) return ending.failed(acquired.failure)
      await within(kernel.scheduler, leftMs, signal, (cut) => pool.serves(cut))
      // Whoever finds the same again in the same moment must not do so without end.
      await pause(kernel, settings.repeatDelayMs, signal)
      continue
    }
    const { lease } = acquired
    let sent: Sent | null = null
    try {
      sent = await within(kernel.scheduler, settings.engineDeadlineMs, signal, (cut) =>
        sendOnce(host, lease, { tier, request, limits, growing }, lessons, ending, (exchange, follow) =>
          lease.replica.connection.send(exchange, cut, follow),
        ),
      )
    } finally {
      lease.release(...usedAs(sent?.outcome ?? null))
    }
    lessons.hasTold = growing?.answer.hasBegun() === true
    const wasHeld = pool.isPaused() || pool.pauses() !== pauses
    const verdict = judge({ kernel, settings, ending, lessons, signal, wasHeld }, sent)
    if (verdict.type === 'ended') return verdict.generated
    await pause(kernel, verdict.afterMs, signal)
  }
}

/** The call as its session asks for it. */
type Asked = {
  readonly tier: 'train' | 'eval'
  readonly request: ChatRequest
  readonly limits: CallLimits
  readonly growing: GrowingAnswer | null
}

/** As the model of this replica needs it, and as earlier sends have taught. */
async function sendOnce(
  { kernel, profileOf }: GenerationHost,
  lease: Lease,
  { tier, request, limits, growing }: Asked,
  lessons: Lessons,
  ending: Ending,
  send: Send,
): Promise<Sent> {
  const { model } = lease
  const profile = profileOf(model)
  const ofModel = lease.maxModelLen ?? profile.maxModelLen
  const isSessions = limits.contextTokens !== null && limits.contextTokens <= (ofModel ?? Infinity)
  const context = isSessions ? limits.contextTokens : ofModel
  const most = Math.min(limits.sampledTokens ?? Infinity, (isSessions ? context : null) ?? Infinity)
  const prepared = limited(prepare(request, profile, tier), most)
  const { tools, messages, parameters: wanted } = prepared.request
  const sent = (outcome: Sent['outcome'], from = 0): Sent => ({
    lease,
    profile,
    request: prepared.request,
    outcome: stamped(outcome, lease.weights(), from, ending),
  })
  ending.sent(lease, wanted, prepared.diagnostics)
  const beyond = (): Sent['outcome'] =>
    isSessions ? { type: 'unaffordable' } : overflow(`the conversation is longer than any ${context} tokens`)
  if (isOverlong({ kind: 'messages', request: prepared.request }, context)) return sent(beyond())
  if (lessons.maxTokens === null) {
    const { overBudget } = lessons
    const counted = await countedPrompt(lease, context, prepared.request, isSessions || overBudget !== null, send)
    const room = counted === null || context === null ? null : context - counted
    if (isSessions && room !== null && room < 1) return sent(beyond())
    const left = room !== null && room >= 1 ? room : (overBudget?.fittingMaxTokens ?? null)
    // The prompt leaves nothing, or nobody counts it: there is nothing else to send.
    if (left === null && overBudget !== null) return sent(overBudget)
    const { max_tokens: asked } = wanted
    if (left !== null && (overBudget !== null || (typeof asked === 'number' && left < asked))) learnBudget(lessons, ending, left)
  }
  const parameters = lessons.maxTokens === null ? wanted : { ...wanted, max_tokens: Math.min(lessons.maxTokens, most) }
  ending.sent(lease, parameters, prepared.diagnostics)
  const sound = lessons.needsSoundArguments ? withSoundArguments(messages) : null
  const prompt = { kind: 'messages', messages: sound?.messages ?? messages, tools } as const
  const asked = { prompt, parameters, model, topLogprobs: 0, format: profile.format }
  const { engine } = lease.replica
  const part = partToGoOnFrom(engine.kind, asked, lessons, ending, context)
  if (part !== null) return sent(await goOn(engine.kind, asked, part, context, send), part.sampledIds.length)
  if (isBoundToFail(lessons)) return sent({ type: 'untellable' })
  if (growing === null || growing.answer.hasBegun() || engine.stream === null || !lease.streams()) {
    return sent(await engine.generate(asked, send))
  }
  const newId = (): string => inventedId(kernel, ending, profile)
  const outcome = await generateLive({ stream: engine.stream, growing, cutStrings: profile.cutStrings, newId }, asked, send)
  if (outcome.type === 'answer' && outcome.tokens.error !== null) lease.lostInStream()
  return sent(outcome)
}

/** Where an answer does not say which weights drew it, the server's own word does, if it was the same before and after. */
function stamped(outcome: Sent['outcome'], { before, now }: KnownWeights, from: number, ending: Ending): Sent['outcome'] {
  if ((outcome.type !== 'answer' && outcome.type !== 'aborted') || outcome.weightVersion !== null) return outcome
  if (before !== null && before === now) return named(outcome, now, from)
  if (before !== now)
    ending.note({ code: 'weights-unplaced', detail: `from ${before ?? 'none known'} to ${now ?? 'none known'} within the call` })
  return outcome
}

/** What was drawn of the answer already; null when it is to be drawn from its beginning. */
function partToGoOnFrom(
  kind: EngineKind,
  asked: EngineRequest,
  lessons: Lessons,
  ending: Ending,
  context: number | null,
): AnswerPart | null {
  if (lessons.part === null) return null
  const detail = whyAnew(kind, asked, lessons.part, context)
  if (detail === null) return lessons.part
  ending.note({ code: 'generation-begun-anew', detail })
  lessons.part = null
  lessons.drawsAnew = true
  return null
}

/**
 * The length of the prompt, for a budget that was refused or that would not fit even an empty prompt, and where a session has a context
 * of its own; null for any other, and when the context or the prompt's length is not known.
 */
async function countedPrompt(
  lease: Lease,
  context: number | null,
  request: ChatRequest,
  isAsked: boolean,
  send: Send,
): Promise<number | null> {
  const { max_tokens: asked } = request.parameters
  if (context === null || typeof asked !== 'number' || (asked < context && !isAsked)) return null
  return lease.replica.engine.countTokens({ kind: 'messages', request }, lease.model, send)
}

/** A budget that is beyond what the session leaves is cut, and one that nobody named is named. */
function limited({ request, diagnostics }: Prepared, most: number): Prepared {
  const { max_tokens: asked } = request.parameters
  if (most === Infinity || (typeof asked === 'number' && asked <= most)) return { request, diagnostics }
  const clamped = { code: 'max-tokens-clamped', detail: `${typeof asked === 'number' ? asked : 'any number'} to ${most}, the session's` }
  return { request: { ...request, parameters: { ...request.parameters, max_tokens: most } }, diagnostics: [...diagnostics, clamped] }
}

/** What the replica is told of its use; null: we failed before it said anything. */
function usedAs(outcome: Sent['outcome'] | null): Parameters<Lease['release']> {
  switch (outcome?.type) {
    case 'answer':
    case 'aborted':
      return ['ok', outcome.weightVersion]
    case 'broken': {
      const { error } = outcome.reply
      return [error === 'aborted' ? 'cancelled' : error === 'too-large' ? 'failed' : 'unreachable', null]
    }
    case 'rejected':
      return [isUnavailable(outcome) ? 'unreachable' : 'failed', null]
    default:
      return ['failed', null]
  }
}

/** Waits, but not for a call that nobody wants any more. */
function pause(kernel: Kernel, delayMs: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const timer = kernel.scheduler.after(delayMs, done)
    signal.addEventListener('abort', done, { once: true })
    function done(): void {
      timer.cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
  })
}
