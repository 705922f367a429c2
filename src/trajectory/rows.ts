// Lays calls out as training rows: one prompt, then sampled turns and the context between them, with masks, logprobs and spans.
import { createHash } from 'node:crypto'
import type { CallRecord, WeightSpan } from '../contract/call.ts'
import type { Trace } from '../contract/result.ts'
import type { Analysis, Edge } from './analysis.ts'
import type { BuilderCall } from './builder.ts'
import { isObject } from './conversation.ts'
import type { Drift } from './drift.ts'
import { hasUnparsedToolCall } from './parser-filter.ts'
import type { Role } from './roles.ts'

/** Calls of one row, each continuing the one before it. Those before `ownFrom` are trained in another row. */
export type RowPlan = { readonly path: readonly number[]; readonly ownFrom: number }

/** A sampled turn inside `response_ids`. */
export type Turn = {
  readonly call_id: string
  /** The call's place among all calls of the session. */
  readonly sequence: number
  readonly start: number
  readonly end: number
  readonly trained: boolean
  /** Why the turn is not trained here; `shared`: it is trained in another row. */
  readonly reason?: string
  readonly weight_version: string | null
  /** The distribution that the logprobs are of: the model's own (`raw`), or the one that was drawn from at this temperature (`processed`). */
  readonly logprob_mode: CallRecord['logprobMode']
  readonly temperature: number | null
  readonly finish_reason: string | null
  /** True when this row's context before the turn is not, token for token, what the engine reported. */
  readonly spliced_context?: true
}

type SegmentRole = Role | 'discarded'

type RowMetadata = {
  readonly row_id: string
  readonly parent_row_id: string | null
  readonly edge: Edge['kind'] | null
  readonly drift: Drift | null
  readonly segment_role: SegmentRole
  /** Sequence of the row's last call. */
  readonly last_sequence: number
  readonly turns: readonly Turn[]
  readonly weight_versions: readonly WeightSpan[]
  readonly synthetic_logprob_spans: readonly { readonly start: number; readonly end: number }[]
  readonly tool_schema_digest: string | null
  /** Calls of this row that ended at their token limit. */
  readonly truncated_turns: readonly string[]
  readonly unparsed_tool_call: boolean
  readonly unreported_context_tokens: number
  readonly unreported_context_share: number
}

/** The turns that a row names, whoever built it. Anything but a list of well-formed turns counts as none, and then nothing of the row may be trained. */
export function turnsOf(trace: Trace): readonly Turn[] {
  const { turns } = trace.metadata
  return Array.isArray(turns) && turns.every(isTurn) ? turns : []
}

function isTurn(value: unknown): value is Turn {
  if (!isObject(value)) return false
  const { call_id, sequence, start, end, trained } = value
  return typeof call_id === 'string' && [sequence, start, end].every(Number.isInteger) && typeof trained === 'boolean'
}

export const rowId = (call: BuilderCall): string => `row_${call.record.id}`

/** A call with nothing to show is counted, not emitted: a row needs a prompt and a response. */
export function isEmitted(call: BuilderCall): boolean {
  return call.promptIds.length > 0 && call.sampledIds.length > 0
}

export function layOutRow(analysis: Analysis, plan: RowPlan, rowOf: ReadonlyMap<number, string>): Trace {
  const { calls, forest, verdicts, conversation } = analysis
  const path = plan.path.map((index) => {
    const call = calls[index]
    if (call === undefined) throw new Error(`row names call ${index} of ${calls.length}`)
    return { index, call, interstitial: new Int32Array(0) as Int32Array, isSpliced: false }
  })
  const first = path[0]
  const last = path.at(-1)
  if (first === undefined || last === undefined) throw new Error('a row needs a call')

  let length = 0
  let unreported = 0
  for (const [at, step] of path.entries()) {
    const before = path[at - 1]?.call
    const junction = at === 0 ? null : (forest.placements[step.index]?.junction ?? null)
    if (before !== undefined) {
      step.interstitial = step.call.promptIds.subarray(junction?.from ?? before.promptIds.length + before.sampledIds.length)
      unreported += junction?.unreported ?? 0
    }
    step.isSpliced = junction !== null || (path[at - 1]?.isSpliced ?? false)
    length += step.interstitial.length + step.call.sampledIds.length
  }

  const responseIds = new Int32Array(length)
  const lossMask = new Uint8Array(length)
  const hasLogprobs = path.some(({ call }) => isAligned(call))
  const logprobs = hasLogprobs ? new Float32Array(length) : null
  const turns: Turn[] = []
  const synthetic: { start: number; end: number }[] = []
  const versions: WeightSpan[] = []
  let at = 0
  for (const [position, { index, call, interstitial, isSpliced }] of path.entries()) {
    responseIds.set(interstitial, at)
    addSpan(synthetic, at, at + interstitial.length)
    const start = at + interstitial.length
    const end = start + call.sampledIds.length
    responseIds.set(call.sampledIds, start)
    const reason = position < plan.ownFrom ? 'shared' : (verdicts[index] ?? null)
    if (reason === null) lossMask.fill(1, start, end)
    if (call.logprobs !== null && isAligned(call)) logprobs?.set(call.logprobs, start)
    else addSpan(synthetic, start, end)
    turns.push({
      call_id: call.record.id,
      sequence: call.record.sequence,
      start,
      end,
      trained: reason === null,
      ...(reason === null ? {} : { reason }),
      weight_version: call.record.weightVersion,
      logprob_mode: call.record.logprobMode,
      temperature: call.record.sampling.temperature,
      finish_reason: call.record.finishReason,
      ...(isSpliced ? { spliced_context: true } : {}),
    })
    for (const span of call.record.weightSpans) addVersion(versions, start + span.start, start + span.end, span.version)
    at = end
  }

  const own = path[plan.ownFrom] ?? last
  const edge = openingEdge(analysis.edges, own.index)
  const toolsText = conversation.toolsText(first.call.record)
  const contextLength = first.call.promptIds.length + length - last.call.sampledIds.length
  const metadata: RowMetadata = {
    row_id: rowId(last.call),
    parent_row_id: edge?.to == null ? null : (rowOf.get(edge.to) ?? null),
    edge: edge?.kind ?? null,
    drift: edge?.drift ?? null,
    segment_role: roleOf(analysis, plan.path.slice(plan.ownFrom)),
    last_sequence: last.call.record.sequence,
    turns,
    weight_versions: versions,
    synthetic_logprob_spans: hasLogprobs ? synthetic : [],
    tool_schema_digest: toolsText === null ? null : createHash('sha256').update(toolsText).digest('hex'),
    truncated_turns: path.filter(({ call }) => call.record.finishReason === 'length').map(({ call }) => call.record.id),
    unparsed_tool_call: path.slice(plan.ownFrom).some(({ call }) => hasUnparsedToolCall(call.record, conversation)),
    unreported_context_tokens: unreported,
    unreported_context_share: contextLength === 0 ? 0 : unreported / contextLength,
  }
  return {
    prompt_ids: Int32Array.from(first.call.promptIds),
    response_ids: responseIds,
    loss_mask: lossMask,
    prompt_messages: first.call.record.promptMessages.map(conversation.parse),
    response_messages: responseMessages(analysis, plan.path).map(conversation.parse),
    tools: toolListOf(analysis, first.call),
    finish_reason: last.call.record.finishReason,
    response_logprobs: logprobs,
    reward: null,
    metadata,
  }
}

/** Each answer, then what the next request adds to the history: the messages past those already told. */
export function responseMessages({ calls }: Pick<Analysis, 'calls'>, path: readonly number[]): readonly number[] {
  const told: number[] = []
  let counted = 0
  for (const [position, index] of path.entries()) {
    const record = calls[index]?.record
    if (record === undefined) continue
    if (position > 0) told.push(...record.promptMessages.slice(counted))
    counted = Math.max(counted, record.promptMessages.length)
    if (record.responseMessage === null) continue
    told.push(record.responseMessage)
    counted++
  }
  return told
}

export function toolListOf({ conversation }: Pick<Analysis, 'conversation'>, call: BuilderCall): readonly unknown[] | null {
  if (call.record.tools === null) return null
  const tools = conversation.parse(call.record.tools)
  return Array.isArray(tools) ? tools : null
}

const isAligned = (call: BuilderCall): boolean =>
  call.logprobs !== null && call.logprobs.length === call.sampledIds.length && call.logprobs.every(Number.isFinite)

/** The edge that says why the row begins: anything but a plain continuation says more. */
function openingEdge(edges: readonly Edge[], index: number): Edge | null {
  const own = edges.filter((edge) => edge.from === index)
  return own.find((edge) => edge.kind !== 'extends') ?? own[0] ?? null
}

function roleOf({ roles, verdicts }: Analysis, own: readonly number[]): SegmentRole {
  const trained = own.find((index) => verdicts[index] === null)
  if (trained !== undefined) return roles[trained] ?? 'main'
  return own.every((index) => roles[index] === 'aux') ? 'aux' : 'discarded'
}

function addSpan(spans: { start: number; end: number }[], start: number, end: number): void {
  if (start === end) return
  const before = spans.at(-1)
  if (before !== undefined && before.end === start) before.end = end
  else spans.push({ start, end })
}

/** Calls that follow one another under the same weights are one span, and so is the context between them. */
function addVersion(spans: WeightSpan[], start: number, end: number, version: string | null): void {
  const before = spans.at(-1)
  if (before !== undefined && before.version === version) spans[spans.length - 1] = { ...before, end }
  else spans.push({ start, end, version })
}
