// One session at the boundary: which of its turns run, who waits for them, and what is left when it is sealed.
import type { CallRecord, Delivery, DialectName, Lineage } from '../contract/call.ts'
import { type CallId, callHex, callId } from '../contract/ids.ts'
import { type BudgetUse, UNLIMITED } from '../contract/session-budget.ts'
import type { Timer } from '../kernel/clock.ts'
import { unreachable } from '../kernel/unreachable.ts'
import type { Admission, Ticket } from './admission.ts'
import { type AdmittedHost, GATEWAY_ERROR, generateAdmitted, OVERLOADED } from './admitted.ts'
import type { CallsPart, CallsWish, DoorOptions, SealedCalls } from './boundary.ts'
import type { Capture, OpenedCall } from './capture.ts'
import type { Countable, NormalisedCall } from './chat.ts'
import { continued } from './continued.ts'
import { type DedupeEffect, type DedupeEvent, failuresOf, isAwaited, NO_TURNS, step } from './dedupe.ts'
import type { ReplyForm } from './dialects/dialect.ts'
import { type Failure, failure, inARow, isLastTry } from './failure.ts'
import { type LiveAnswer, openLiveAnswer } from './live/live-answer.ts'
import { type Question, questionOf } from './question.ts'
import type { Recall } from './recall.ts'
import { openSpending } from './spending.ts'
import type { Turn, TurnOutcome } from './turn.ts'

export type DoorHost = AdmittedHost & {
  readonly admission: Admission
  /** True when the texts of all sessions are too many, and a session with so many bytes has more than its part. */
  readonly isCrowdedBy: (textBytes: number) => boolean
  /** False when the ledger would not take it: the answer may then not be given. */
  readonly recordCall: (record: CallRecord) => Promise<boolean>
}

/** A request as its dialect read it. */
type AskedCall = {
  readonly dialect: DialectName
  readonly lineage: Lineage | null
  readonly normalised: NormalisedCall
  /** A call of the answer, as this client gives it back. */
  readonly echo: ReplyForm['echo']
}

type Attached = { readonly ok: true; readonly turn: Turn } | { readonly ok: false; readonly failure: Failure }

export type Door = {
  readonly options: DoorOptions
  isOpen(): boolean
  /** Of what is kept of its calls. */
  textBytes(): number
  callsOf(wish: CallsWish): CallsPart
  /** Starts the turn, or adopts the one a client left. Synchronous: nothing of the session moves between question and answer. */
  attach(asked: AskedCall): Attached
  /** The same conversation as a call would send it, with what this session's answers said put back. */
  restoreCountable(countable: Countable): Countable
  beginRun(): void
  budget(): BudgetUse | null
  /** The client of this turn has gone, with this much of its answer. */
  detach(turn: Turn, delivery: Delivery): void
  /** Sealing cuts the connection, then waits until it is `settled`. */
  track(cut: () => void, settled: Promise<void>): void
  seal(): Promise<SealedCalls>
  /** Gives back the lease of `seal`, now or as soon as it is taken. Idempotent. */
  releaseSealed(): void
  close(): void
}

type Running = { readonly turn: Turn; readonly abort: AbortController; linger: Timer | null }

export function openDoor(host: DoorHost, options: DoorOptions, capture: Capture, recall: Recall): Door {
  const { kernel, settings } = host
  const running = new Map<CallId, Running>()
  /** The delivery the ledger was told. */
  const told = new Map<CallId, Delivery>()
  /** Calls whose answer was kept from the client: what its socket took was the refusal. */
  const withheld = new Set<CallId>()
  const work = new Set<Promise<unknown>>()
  const cuts = new Set<() => void>()
  const spending = openSpending({
    limits: options.limits ?? UNLIMITED,
    maxCalls: settings.maxCallsPerSession,
    nowMs: () => host.pool.unpausedMs(),
    isTextFull() {
      const textBytes = capture.textBytes()
      return textBytes > settings.maxTextBytesPerSession || host.isCrowdedBy(textBytes)
    },
    onSpent: (sentence) => options.notify({ type: 'budget-spent', sentence }),
  })
  const caller = { session: options.session, tier: options.tier, spending, recall }
  let dedupe = NO_TURNS
  let calls = 0
  let phase: 'open' | 'sealing' | 'sealed' | 'closed' = 'open'
  let sealing: Promise<SealedCalls> | null = null
  let lease: SealedCalls | null = null
  let isReleased = false

  function apply(event: DedupeEvent): readonly DedupeEffect[] {
    const [next, effects] = step(dedupe, event)
    dedupe = next
    for (const effect of effects) run(effect)
    for (const [call, { linger }] of running) {
      if (dedupe.turns.has(call)) continue
      linger?.cancel()
      running.delete(call)
    }
    return effects
  }

  function run(effect: DedupeEffect): void {
    const known = running.get(effect.call)
    switch (effect.type) {
      case 'start':
        return
      case 'adopt':
        known?.linger?.cancel()
        return
      case 'linger': {
        const { call, linger } = effect
        if (known !== undefined)
          known.linger = kernel.scheduler.after(settings.lingerMs, () => apply({ type: 'linger-over', call, linger }))
        return
      }
      case 'cancel':
        known?.abort.abort()
        return
      default:
        unreachable(effect)
    }
  }

  /** Sealing waits for it. */
  function keep(promise: Promise<unknown>): void {
    const settled: Promise<void> = promise.then(
      () => void work.delete(settled),
      (error: unknown) => {
        work.delete(settled)
        host.report('boundary-fault', { session: options.session, error: String(error) })
      },
    )
    work.add(settled)
  }

  function start({ dialect, lineage, normalised, echo }: AskedCall, question: Question, ticket: Ticket): Turn {
    const call = callId(kernel.random.hex(16))
    const [effect] = apply({ type: 'arrived', call, question })
    const { messages, diagnostics } = recall.restore(normalised.request.messages, normalised.request.tools)
    const opened: OpenedCall = {
      id: call,
      sequence: calls,
      dialect,
      lineage,
      digest: question.digest,
      retryOf: effect?.type === 'start' ? effect.retryOf : null,
      normalised: {
        ...normalised,
        request: { ...normalised.request, messages },
        diagnostics: [...normalised.diagnostics, ...diagnostics],
      },
      startedAtMs: kernel.clock.wallMs(),
      startedMs: kernel.clock.nowMs(),
    }
    calls += 1
    spending.opened()
    options.notify({ type: 'call-opened', call, sequence: opened.sequence })
    const abort = new AbortController()
    const earlierFailures = failuresOf(dedupe, question.digest)
    // Where the next failure may be the last word, no part of an answer must come before it.
    const isLive = settings.streamMode !== 'synthetic' && normalised.stream && !isLastTry(earlierFailures)
    const live = isLive ? openLiveAnswer() : null
    const outcome = complete(opened, live, echo, ticket, abort.signal)
    const turn: Turn = { call, createdSeconds: Math.floor(opened.startedAtMs / 1000), earlierFailures, live, outcome }
    running.set(call, { turn, abort, linger: null })
    keep(outcome)
    return turn
  }

  /** What an agent is told that may call no more: no call, and none of what a session is trained on. */
  function unrecorded(outcome: TurnOutcome): Turn {
    const createdSeconds = Math.floor(kernel.clock.wallMs() / 1000)
    return { call: callId(kernel.random.hex(16)), createdSeconds, earlierFailures: 0, live: null, outcome: Promise.resolve(outcome) }
  }

  async function complete(
    opened: OpenedCall,
    live: LiveAnswer | null,
    echo: ReplyForm['echo'],
    ticket: Ticket,
    signal: AbortSignal,
  ): Promise<TurnOutcome> {
    const generated = await generateAdmitted(host, caller, { opened, live, ticket, signal })
    const { end } = generated
    const record = capture.record(opened, end)
    spending.ended(record.id, end, generated.ok ? null : generated.failure)
    const answer = generated.ok
      ? { ...generated.answer, message: recall.remember(callHex(record.id), generated.answer.message, echo, live?.callIds()) }
      : null
    options.notify({
      type: 'call-closed',
      call: record.id,
      status: record.status,
      model: { requested: record.modelRequested, used: record.modelServed, dialect: record.dialect },
      promptTokens: end.tokens?.promptIds.length ?? 0,
      sampledTokens: end.tokens?.sampledIds.length ?? 0,
      contextExhausted: !generated.ok && generated.failure.code === 'context-overflow',
    })
    // Written before the answer's last byte, so what it says of the delivery is a forecast; `detach` mends it when it was wrong.
    const forecast = dedupe.turns.get(record.id)?.client.type === 'connected' && record.status !== 'cancelled' ? 'yes' : 'no'
    told.set(record.id, forecast)
    const isRecorded = await host.recordCall({ ...record, delivery: forecast })
    const reason = generated.ok ? null : generated.failure
    const refusal = isRecorded ? reason : failure('not-recorded', 'the call could not be made durable; try again', { retryAfterMs: 1_000 })
    if (!isRecorded) withheld.add(record.id)
    if (answer !== null && refusal === null) {
      const length = answer.finishReason === 'length' ? null : (end.tokens?.sampledIds.length ?? null)
      apply({ type: 'answered', call: record.id, length })
      return { ok: true, answer }
    }
    const reached = refusal ?? GATEWAY_ERROR
    apply({ type: 'failed', call: record.id })
    if (reached.code === 'budget-exhausted') return spending.farewell() ?? { ok: false, failure: reached }
    return { ok: false, failure: inARow(reached, failuresOf(dedupe, opened.digest)) }
  }

  return {
    options,
    textBytes: capture.textBytes,
    callsOf: (wish) => capture.part(wish, calls),
    isOpen: () => phase === 'open',
    attach(asked) {
      if (phase !== 'open') return { ok: false, failure: failure('session-ended', 'the session of this key has ended') }
      const whole = continued(asked.normalised, { capture, recall, maxChars: settings.maxBodyBytes })
      const normalised = whole.ok ? whole.normalised : asked.normalised
      const question = questionOf(asked.dialect, asked.lineage, normalised.request)
      if (isAwaited(dedupe, question)) {
        const [effect] = apply({ type: 'arrived', call: callId(''), question })
        const turn = effect === undefined ? undefined : running.get(effect.call)?.turn
        // An answer that is whole is told as one: what was told of it while it grew was for another client.
        const isWhole = turn !== undefined && dedupe.turns.get(turn.call)?.progress.type === 'answered'
        if (turn !== undefined) return { ok: true, turn: isWhole ? { ...turn, live: null } : turn }
      }
      const farewell = spending.farewell()
      if (farewell !== null) return { ok: true, turn: unrecorded(farewell) }
      if (!whole.ok) return whole
      const ticket = host.admission.enter(options.session)
      if (ticket === null) return { ok: false, failure: OVERLOADED }
      return { ok: true, turn: start({ ...asked, normalised }, question, ticket) }
    },
    beginRun: spending.begin,
    budget: spending.use,
    restoreCountable(countable) {
      if (countable.kind === 'text') return countable
      const { request } = countable
      return { kind: 'messages', request: { ...request, messages: recall.restore(request.messages, request.tools).messages } }
    },
    detach(turn, delivery) {
      const record = capture.deliver(turn.call, withheld.has(turn.call) ? 'no' : delivery)
      if (record !== null && told.get(turn.call) !== record.delivery) {
        told.set(turn.call, record.delivery)
        keep(host.recordCall(record))
      }
      apply({ type: delivery === 'yes' ? 'delivered' : 'left', call: turn.call })
    },
    track(cut, settled) {
      cuts.add(cut)
      const tracked = settled.finally(() => cuts.delete(cut))
      keep(tracked)
    },
    seal,
    releaseSealed,
    close() {
      if (phase === 'closed') return
      const wasSealed = phase === 'sealed'
      const last = seal()
      phase = 'closed'
      releaseSealed()
      host.pool.unpin(options.session)
      if (wasSealed) capture.close()
      else void last.then(() => capture.close())
    },
  }

  function seal(): Promise<SealedCalls> {
    if (phase === 'open') phase = 'sealing'
    spending.end()
    sealing ??= finish()
    return sealing
  }

  function releaseSealed(): void {
    isReleased = true
    if (lease === null) return
    capture.release(lease)
    lease = null
  }

  async function finish(): Promise<SealedCalls> {
    apply({ type: 'sealed' })
    for (const cut of [...cuts]) cut()
    // What ends may leave something to wait for: a delivery to be mended.
    while (work.size > 0) await Promise.all(work)
    if (phase === 'sealing') phase = 'sealed'
    lease = capture.seal()
    const calls = lease
    if (isReleased) releaseSealed()
    return calls
  }
}
