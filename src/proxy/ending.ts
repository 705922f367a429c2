// What a call's record will say of its generation: put together send by send, whichever way it ends.
import type { Diagnostic, EngineKind } from '../contract/call.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { CallEnd } from './capture.ts'
import type { ChatAnswer } from './chat.ts'
import type { EngineReply } from './engines/engine.ts'
import { soleVersion } from './engines/weight-spans.ts'
import type { Failure, FailureCode } from './failure.ts'
import type { JsonObject } from './json.ts'
import type { Lease } from './pool/pool.ts'

export type Generated =
  | { readonly ok: true; readonly answer: ChatAnswer; readonly end: CallEnd }
  | { readonly ok: false; readonly failure: Failure; readonly end: CallEnd }

/** What was sampled, whole. */
type Sampled = Pick<Extract<EngineReply, { type: 'answer' }>, 'tokens' | 'weightVersion' | 'weightSpans'>
/** A generation that the engine gave up: what it had sampled by then. */
type GivenUp = Sampled & Pick<Extract<EngineReply, { type: 'aborted' }>, 'finishReason'>

export type Ending = {
  /** To whom, with which parameters, and what preparing them changed: those of the last send stand. */
  sent(lease: Lease, parameters: JsonObject, prepared: readonly Diagnostic[]): void
  /** As last sent. */
  parameters(): JsonObject
  /** What stands whatever is sent after it. */
  note(...diagnostics: readonly Diagnostic[]): void
  answered(answer: ChatAnswer, sampled: Sampled): Generated
  failed(reason: Failure): Generated
  givenUp(reason: Failure, partial: GivenUp): Generated
  /** The call came to no generation: it left the line, or the machinery failed. */
  neverBegun(reason: Failure): Generated
}

export type EndingOptions = {
  readonly kernel: Kernel
  /** Stand on the record of a call that reached no engine. */
  readonly model: string
  readonly engineKind: EngineKind
}

/** Failures for which the engine is to blame, not the request. */
const UPSTREAM: ReadonlySet<FailureCode> = new Set([
  'engine-failed',
  'engine-unreachable',
  'engine-aborted',
  'engine-timeout',
  'overloaded',
  'not-trainable',
])

const NO_GENERATION = { finishReason: null, tokens: null, weightVersion: null, weightSpans: [] } as const

export function openEnding({ kernel, model, engineKind }: EndingOptions, requested: JsonObject): Ending {
  const noted: Diagnostic[] = []
  let last: { readonly lease: Lease; readonly prepared: readonly Diagnostic[] } | null = null
  let parameters = requested

  const common = () => ({
    replica: last?.lease.replica.id ?? null,
    modelServed: last?.lease.model ?? model,
    engine: last?.lease.replica.engine.kind ?? engineKind,
    logprobMode: last?.lease.logprobMode ?? 'unknown',
    parameters,
    diagnostics: [...(last?.prepared ?? []), ...noted],
    endedMs: kernel.clock.nowMs(),
  })
  const unanswered = (reason: Failure) => ({
    ...common(),
    httpStatus: reason.status,
    message: null,
    usage: null,
    error: reason.message,
    isUpstreamFailure: UPSTREAM.has(reason.code),
  })
  const statusOf = (reason: Failure) => (reason.code === 'cancelled' ? 'cancelled' : 'failed')

  return {
    sent(lease, given, prepared) {
      last = { lease, prepared }
      parameters = given
    },
    parameters: () => parameters,
    note: (...diagnostics) => void noted.push(...diagnostics),
    answered(answer, sampled) {
      const { message, finishReason, usage } = answer
      const told = { status: 'ok', httpStatus: 200, error: null, isUpstreamFailure: false } as const
      return { ok: true, answer, end: { ...common(), ...told, message, finishReason, usage, ...taken(sampled) } }
    },
    failed: (reason) => ({ ok: false, failure: reason, end: { ...unanswered(reason), ...NO_GENERATION, status: statusOf(reason) } }),
    givenUp: (reason, partial) => ({
      ok: false,
      failure: reason,
      end: { ...unanswered(reason), status: 'aborted', ...taken(partial), finishReason: partial.finishReason },
    }),
    neverBegun: (reason) => ({
      ok: false,
      failure: reason,
      end: { ...unanswered(reason), ...NO_GENERATION, status: statusOf(reason), isUpstreamFailure: false },
    }),
  }
}

/** What came without its tokens is of the version that was stated. */
function taken({ tokens, weightVersion, weightSpans }: Sampled): Pick<CallEnd, 'tokens' | 'weightVersion' | 'weightSpans'> {
  return { tokens, weightVersion: weightSpans.length === 0 ? weightVersion : soleVersion(weightSpans), weightSpans }
}
