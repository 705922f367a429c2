// One generation from an admitted call to its end: place, engine, repeats, and what the engine said.
import type { Diagnostic, EngineKind } from '../contract/call.ts'
import type { ReplicaId, SessionId } from '../contract/ids.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { unreachable } from '../kernel/unreachable.ts'
import type { CallEnd } from './capture.ts'
import { type ChatAnswer, type ChatRequest, withToolCallIds } from './chat.ts'
import type { CapturedTokens, EngineReply, Send } from './engines/engine.ts'
import type { LogprobMode } from './engines/logprob-mode.ts'
import { type Failure, type FailureCode, failure } from './failure.ts'
import type { JsonObject } from './json.ts'
import type { PoolReplica } from './pool/member.ts'
import type { Lease, Pool } from './pool/pool.ts'
import { freed, type Prepared, prepare } from './profiles/preparation.ts'
import type { ProfileOf } from './profiles/profile.ts'
import type { BoundarySettings } from './settings.ts'
import { withSoundArguments } from './sound-arguments.ts'

export type GenerationHost = {
  readonly kernel: Kernel
  readonly pool: Pool
  readonly model: string
  readonly profileOf: ProfileOf
  /** Stands on the record of a call that reached no engine. */
  readonly engineKind: EngineKind
  readonly settings: BoundarySettings
}

export type Generated =
  | { readonly ok: true; readonly answer: ChatAnswer; readonly end: CallEnd }
  | { readonly ok: false; readonly failure: Failure; readonly end: CallEnd }

/** Failures for which the engine is to blame, not the request. */
const UPSTREAM: ReadonlySet<FailureCode> = new Set([
  'engine-failed',
  'engine-unreachable',
  'engine-aborted',
  'engine-timeout',
  'overloaded',
])

export async function generate(
  host: GenerationHost,
  session: SessionId,
  tier: 'train' | 'eval',
  request: ChatRequest,
  signal: AbortSignal,
): Promise<Generated> {
  const { kernel, pool, settings } = host
  const avoid = new Set<ReplicaId>()
  const diagnostics: Diagnostic[] = []
  let prepared: Prepared = { request, diagnostics: [] }
  let { parameters } = request
  /** The budget that fits the context, once it is known that the wanted one does not. */
  let fittingMaxTokens: number | null = null
  /** An engine has refused the conversation as it is, and calls in it may be why. */
  let needsSoundArguments = false
  let breaks = 0
  let aborts = 0
  let tried: PoolReplica | null = null
  let model = host.model
  let logprobMode: LogprobMode = 'unknown'

  const fail = (reason: Failure, given: Particulars = {}): Generated => ({
    ok: false,
    failure: reason,
    end: {
      ...ending(tried, given),
      status: given.status ?? (reason.code === 'cancelled' ? 'cancelled' : 'failed'),
      httpStatus: reason.status,
      message: null,
      usage: null,
      error: reason.message,
      isUpstreamFailure: UPSTREAM.has(reason.code),
    },
  })
  const ending = (replica: PoolReplica | null, given: Particulars) => ({
    finishReason: given.finishReason ?? null,
    replica: replica?.id ?? null,
    modelServed: model,
    engine: replica?.engine.kind ?? host.engineKind,
    logprobMode,
    parameters,
    tokens: given.tokens ?? null,
    weightVersion: given.weightVersion ?? null,
    diagnostics: [...prepared.diagnostics, ...diagnostics],
    endedMs: kernel.clock.nowMs(),
  })
  const clamp = (fits: number): void => {
    fittingMaxTokens = fits
    diagnostics.push({ code: 'max-tokens-clamped', detail: `${parameters.max_tokens} to ${fits}` })
    parameters = { ...parameters, max_tokens: fits }
  }

  for (;;) {
    const acquired = await pool.acquire(session, tier, avoid, signal)
    if (!acquired.ok) return fail(acquired.failure)
    const { lease } = acquired
    tried = lease.replica
    model = lease.model
    logprobMode = lease.logprobMode
    const profile = host.profileOf(model)
    prepared = prepare(request, profile)
    const { tools } = prepared.request
    const sound = needsSoundArguments ? withSoundArguments(prepared.request.messages) : null
    const messages = sound?.messages ?? prepared.request.messages
    parameters = { ...prepared.request.parameters, ...(fittingMaxTokens === null ? {} : { max_tokens: fittingMaxTokens }) }
    const reply = await sendWithin(host, lease, signal, async (send) => {
      const fits = fittingMaxTokens === null ? await fittingBudget(lease, profile.maxModelLen, prepared.request, send) : null
      if (fits !== null) clamp(fits)
      const prompt = { kind: 'messages', messages, tools } as const
      return lease.replica.engine.generate({ prompt, parameters, model, topLogprobs: 0, format: profile.format }, send)
    })
    if (reply.type === 'unserved') {
      lease.release('failed', null)
      return fail(failure('gateway-error', reply.detail))
    }
    if (reply.type === 'broken') {
      const sent = reply.reply
      lease.release(releaseOf(sent.error), null)
      if (signal.aborted) return fail(failure('cancelled', 'the call was cancelled'))
      if (sent.error === 'aborted') return fail(failure('engine-timeout', 'the inference server did not answer in time'))
      if (sent.error === 'too-large') return fail(failure('engine-failed', sent.detail))
      diagnostics.push({ code: 'replica-unreachable', detail: `${tried.id}: ${sent.detail}` })
      avoid.add(tried.id)
      breaks += 1
      if (breaks > settings.maxRepeats) {
        return fail(failure('engine-unreachable', 'the inference server cannot be reached; try again later', { retryAfterMs: 1_000 }))
      }
      await pause(kernel, settings.repeatDelayMs * breaks, signal)
      continue
    }

    lease.release(
      reply.type === 'answer' || reply.type === 'aborted' ? 'ok' : 'failed',
      'weightVersion' in reply ? reply.weightVersion : null,
    )
    switch (reply.type) {
      case 'answer': {
        const cut = freed(reply.answer, profile)
        const answer = withToolCallIds(cut.answer, () => {
          if (profile.printsCallIds) diagnostics.push({ code: 'call-id-invented', detail: 'the chat template shows it to the model' })
          return `call_${kernel.random.hex(12)}`
        })
        diagnostics.push(...reply.diagnostics, ...cut.diagnostics, ...oddities(answer))
        const { message, finishReason, usage } = answer
        const { tokens, weightVersion } = reply
        const end: CallEnd = {
          ...ending(tried, { tokens, weightVersion, finishReason }),
          status: 'ok',
          httpStatus: 200,
          message,
          usage,
          error: null,
          isUpstreamFailure: false,
        }
        return { ok: true, answer, end }
      }
      case 'aborted': {
        diagnostics.push({ code: 'generation-aborted', detail: `${reply.detail} after ${reply.tokens.sampledIds.length} tokens` })
        aborts += 1
        if (aborts <= settings.maxRepeats && !signal.aborted) {
          await pause(kernel, settings.repeatDelayMs * aborts, signal)
          continue
        }
        const { tokens, weightVersion, finishReason } = reply
        const reason = failure('engine-aborted', 'the inference server aborted the generation; try again', { retryAfterMs: 1_000 })
        return fail(reason, { status: 'aborted', tokens, weightVersion, finishReason })
      }
      case 'garbled':
        return fail(failure('engine-failed', `the inference server's answer cannot be read: ${reply.detail}`))
      case 'rejected': {
        if (reply.fittingMaxTokens !== null && fittingMaxTokens === null && typeof parameters.max_tokens === 'number') {
          clamp(reply.fittingMaxTokens)
          continue
        }
        const mended = needsSoundArguments || reply.reason === 'context-overflow' ? null : withSoundArguments(prepared.request.messages)
        if (mended !== null && (reply.status === 400 || reply.status === 500)) {
          needsSoundArguments = true
          diagnostics.push({ code: 'arguments-replaced', detail: `${mended.replaced} calls in history: ${reply.message.slice(0, 200)}` })
          continue
        }
        return fail(rejection(reply))
      }
      default:
        return unreachable(reply)
    }
  }
}

type Particulars = {
  readonly status?: CallEnd['status']
  readonly tokens?: CapturedTokens
  readonly weightVersion?: string | null
  readonly finishReason?: CallEnd['finishReason']
}

/** The end of a call that never came to a generation: it left the line, or the machinery failed. */
export function neverGenerated(host: GenerationHost, reason: Failure, parameters: JsonObject): Generated {
  return {
    ok: false,
    failure: reason,
    end: {
      status: reason.code === 'cancelled' ? 'cancelled' : 'failed',
      httpStatus: reason.status,
      finishReason: null,
      replica: null,
      modelServed: host.model,
      engine: host.engineKind,
      logprobMode: 'unknown',
      parameters,
      message: null,
      tokens: null,
      weightVersion: null,
      usage: null,
      diagnostics: [],
      error: reason.message,
      isUpstreamFailure: false,
      endedMs: host.kernel.clock.nowMs(),
    },
  }
}

/**
 * What the prompt leaves of the context, for a budget that would not fit even an empty prompt; null for any other, when the
 * context or the prompt's length is not known, and when nothing is left: the engine then says so itself.
 */
async function fittingBudget(lease: Lease, profiledLen: number | null, request: ChatRequest, send: Send): Promise<number | null> {
  const context = lease.maxModelLen ?? profiledLen
  const { max_tokens: asked } = request.parameters
  if (context === null || typeof asked !== 'number' || asked < context) return null
  const counted = await lease.replica.engine.countTokens({ kind: 'messages', request }, lease.model, send)
  return counted !== null && counted < context ? context - counted : null
}

/** Every exchange of `work` ends by the call's own deadline or by its cancellation, whichever is first; nothing else cuts it. */
async function sendWithin<T>(host: GenerationHost, lease: Lease, signal: AbortSignal, work: (send: Send) => Promise<T>): Promise<T> {
  const abort = new AbortController()
  const cancel = (): void => abort.abort()
  const deadline = host.kernel.scheduler.after(host.settings.engineDeadlineMs, cancel)
  signal.addEventListener('abort', cancel, { once: true })
  if (signal.aborted) cancel()
  try {
    return await work((request) => lease.replica.connection.send(request, abort.signal))
  } finally {
    deadline.cancel()
    signal.removeEventListener('abort', cancel)
  }
}

function releaseOf(error: 'refused' | 'reset' | 'aborted' | 'too-large'): Parameters<Lease['release']>[0] {
  if (error === 'aborted') return 'cancelled'
  return error === 'too-large' ? 'failed' : 'unreachable'
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

/** Answers that are valid and yet not what an agent can use; counted, never repaired. */
function oddities(answer: ChatAnswer): readonly Diagnostic[] {
  const { message, finishReason } = answer
  const calls = message.tool_calls ?? []
  const found: Diagnostic[] = []
  if (finishReason === 'tool_calls' && calls.length === 0) found.push({ code: 'tool-calls-missing', detail: 'finish_reason is tool_calls' })
  if ((message.content ?? '') === '' && calls.length === 0)
    found.push({ code: 'empty-visible', detail: `finish_reason is ${finishReason}` })
  return found
}

/** Clients must see what is theirs to mend with its status; the engine's own credentials and routes are not. */
function rejection(reply: Extract<EngineReply, { type: 'rejected' }>): Failure {
  const { status, message, retryAfterMs } = reply
  if (reply.reason === 'context-overflow') return failure('context-overflow', message, { param: 'messages' })
  if (status === 429 || status === 503) return failure('overloaded', message, { status, retryAfterMs: retryAfterMs ?? 1_000 })
  if (status >= 500 && status <= 599) return failure('engine-failed', message, { status })
  if (status === 400 || status === 413 || status === 422) return failure('engine-rejected', message, { status })
  return failure('engine-failed', `the inference server answered ${status}: ${message}`)
}
