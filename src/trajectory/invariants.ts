// What must hold of every set of rows, whoever built it: a violation fails the build by name, it never becomes a wrong row.
import type { Trace } from '../contract/result.ts'
import { commonPrefix } from '../tokens/prefix.ts'
import type { BuilderCall } from './builder.ts'
import { type Turn, turnsOf } from './rows.ts'

export type Violation = { readonly invariant: string; readonly row: number; readonly call: string | null; readonly detail: string }

/** `polar` lifts what Polar's own rule breaks by design: it trains whatever it keeps, on contexts and logprobs it does not check. */
export type InvariantMode = 'strict' | 'polar'

type Report = (invariant: string, call: string | null, detail: string) => Violation

/** The first violation, or null. Rows must name their turns in `metadata.turns`: a token outside every trained turn may not be trained. */
export function findViolation(calls: readonly BuilderCall[], traces: readonly Trace[], mode: InvariantMode): Violation | null {
  const byId = new Map(calls.map((call) => [call.record.id as string, call]))
  const trainedIn = new Map<string, number>()
  for (const [row, trace] of traces.entries()) {
    const report: Report = (invariant, call, detail) => ({ invariant, row, call, detail })
    const violation = checkLengths(trace, report) ?? checkTurns(trace, byId, report, mode)
    if (violation !== null) return violation
    for (const { call_id, trained } of turnsOf(trace)) {
      if (!trained) continue
      const other = trainedIn.get(call_id)
      if (other !== undefined) return report('trained-once', call_id, `also trained in row ${other}`)
      trainedIn.set(call_id, row)
    }
  }
  return null
}

export function describeViolation({ invariant, row, call, detail }: Violation): string {
  return `invariant ${invariant} is broken in row ${row}${call === null ? '' : `, call ${call}`}: ${detail}`
}

function checkLengths(trace: Trace, report: Report): Violation | null {
  const length = trace.response_ids.length
  if (trace.loss_mask.length !== length) return report('equal-lengths', null, `${length} ids, ${trace.loss_mask.length} mask positions`)
  const logprobs = trace.response_logprobs
  if (logprobs !== null && logprobs.length !== length) return report('equal-lengths', null, `${length} ids, ${logprobs.length} logprobs`)
  if (trace.prompt_ids.some(isNegative) || trace.response_ids.some(isNegative)) return report('ids-valid', null, 'an id is negative')
  if (trace.loss_mask.some((bit) => bit > 1)) return report('mask-binary', null, 'the mask holds more than 0 and 1')
  if (logprobs?.some((logprob) => !Number.isFinite(logprob))) return report('logprobs-finite', null, 'a logprob is not finite')
  return null
}

function checkTurns(trace: Trace, calls: ReadonlyMap<string, BuilderCall>, report: Report, mode: InvariantMode): Violation | null {
  let at = 0
  for (const turn of turnsOf(trace)) {
    const call = calls.get(turn.call_id)
    if (call === undefined) return report('turn-known', turn.call_id, 'the session has no such call')
    if (turn.start < at || turn.end < turn.start || turn.end > trace.response_ids.length) {
      return report('turn-spans', turn.call_id, `span ${turn.start}..${turn.end} in a row of ${trace.response_ids.length}`)
    }
    const between = trace.loss_mask.indexOf(1, at)
    if (between !== -1 && between < turn.start)
      return report('trained-is-sampled', null, `position ${between} is trained but was not sampled`)
    const violation = checkTurn(trace, turn, call, report, mode)
    if (violation !== null) return violation
    at = turn.end
  }
  const after = trace.loss_mask.indexOf(1, at)
  return after === -1 ? null : report('trained-is-sampled', null, `position ${after} is trained but was not sampled`)
}

function checkTurn(trace: Trace, turn: Turn, call: BuilderCall, report: Report, mode: InvariantMode): Violation | null {
  const { start, end, call_id } = turn
  if (!isAt(call.sampledIds, trace.response_ids, start, end))
    return report('tokens-as-sampled', call_id, `span ${start}..${end} holds other tokens than were sampled`)
  const untrained = trace.loss_mask.indexOf(turn.trained ? 0 : 1, start)
  if (untrained !== -1 && untrained < end) {
    return report(
      'mask-as-stated',
      call_id,
      `position ${untrained} has mask ${trace.loss_mask[untrained]} in a turn said to be ${turn.trained ? 'trained' : 'untrained'}`,
    )
  }
  if (!turn.trained)
    return turn.reason === undefined ? report('masked-with-reason', call_id, 'the turn is not trained and gives no reason') : null
  if (mode === 'polar') return null

  const { record, logprobs } = call
  if (record.status !== 'ok' || record.finishReason === 'abort')
    return report('untrainable-call', call_id, `a call with status ${record.status} is trained`)
  if (record.captureError !== null)
    return report('untrainable-call', call_id, `a call with capture error ${record.captureError.code} is trained`)
  if (logprobs === null || trace.response_logprobs === null) return report('logprobs-present', call_id, 'a trained turn has no logprobs')
  for (let at = start; at < end; at++) {
    const logprob = trace.response_logprobs[at] ?? Number.NaN
    if (!(logprob <= 0) || logprob !== logprobs[at - start])
      return report('logprobs-as-sampled', call_id, `position ${at} has logprob ${logprob}`)
  }
  if (turn.spliced_context === true) return null
  const { prompt_ids: prompt, response_ids: response } = trace
  const isReported =
    call.promptIds.length === prompt.length + start &&
    commonPrefix(call.promptIds, 0, prompt, 0, prompt.length) === prompt.length &&
    commonPrefix(call.promptIds, prompt.length, response, 0, start) === start
  return isReported
    ? null
    : report('context-as-reported', call_id, 'the row leads up to the turn with other tokens than the engine was given')
}

function isAt(ids: Int32Array, row: Int32Array, start: number, end: number): boolean {
  return ids.length === end - start && commonPrefix(ids, 0, row, start, ids.length) === ids.length
}

const isNegative = (id: number): boolean => id < 0
