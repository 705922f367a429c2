// Polar's merging as its code does it, wrong cases included: the yardstick against which the repaired rules are shown.
import type { Trace } from '../contract/result.ts'
import { isPrefix } from '../tokens/prefix.ts'
import type { Analysis } from './analysis.ts'
import type { BuilderCall } from './builder.ts'
import { responseMessages, rowId, type Turn, toolListOf } from './rows.ts'

type Chain = { tip: Int32Array; readonly members: number[] }

/** Groups records by prompt alone, in the order in which they were saved; `truncated` counts chains that lost later records. */
export function buildPolarChains(
  analysis: Analysis,
  endToken: number | null,
): { readonly traces: readonly Trace[]; readonly truncated: number } {
  const chains: Chain[] = []
  for (const index of savedOrder(analysis.calls)) {
    const prompt = analysis.calls[index]?.promptIds ?? new Int32Array(0)
    let best: Chain | null = null
    for (const chain of chains) {
      if (chain.tip.length > (best?.tip.length ?? 0) && isPrefix(chain.tip, prompt)) best = chain
    }
    if (best === null) chains.push({ tip: prompt, members: [index] })
    else {
      best.tip = prompt
      best.members.push(index)
    }
  }
  let truncated = 0
  const traces = chains.map(({ members }) => {
    const pieces = reconstruct(analysis.calls, members, endToken)
    if (pieces.length < members.length) truncated++
    return layOut(analysis, members.slice(0, pieces.length), pieces)
  })
  return { traces, truncated }
}

/** Polar saves a record when its answer is there, and sees no call that failed before. */
function savedOrder(calls: readonly BuilderCall[]): readonly number[] {
  const savedAt = (index: number) => (calls[index]?.record.startedAtMs ?? 0) + (calls[index]?.record.durationMs ?? 0)
  return [...calls.entries()]
    .filter(([, { record, sampledIds }]) => record.status === 'ok' || record.status === 'aborted' || sampledIds.length > 0)
    .map(([index]) => index)
    .sort((a, b) => savedAt(a) - savedAt(b) || a - b)
}

/** The interstitial before each record that Polar keeps; it stops at the first break and forgets the rest. */
function reconstruct(calls: readonly BuilderCall[], members: readonly number[], configured: number | null): readonly Int32Array[] {
  const end = configured ?? firstNaturalEnd(calls, members)
  const pieces: Int32Array[] = [new Int32Array(0)]
  for (let at = 1; at < members.length; at++) {
    const before = calls[members[at - 1] ?? -1]
    const call = calls[members[at] ?? -1]
    if (before === undefined || call === undefined || end === null || !isPrefix(before.promptIds, call.promptIds)) break
    const tail = call.promptIds.subarray(before.promptIds.length)
    const position = tail.indexOf(end)
    if (position === -1) break
    pieces.push(tail.subarray(before.sampledIds.at(-1) === end ? position + 1 : position))
  }
  return pieces
}

function firstNaturalEnd(calls: readonly BuilderCall[], members: readonly number[]): number | null {
  const natural = members.find((index) => {
    const reason = calls[index]?.record.finishReason
    return reason === 'stop' || reason === 'tool_calls'
  })
  return calls[natural ?? -1]?.sampledIds.at(-1) ?? null
}

function layOut(analysis: Analysis, members: readonly number[], pieces: readonly Int32Array[]): Trace {
  const path = members.flatMap((index) => analysis.calls[index] ?? [])
  const length = path.reduce((sum, call, at) => sum + call.sampledIds.length + (pieces[at]?.length ?? 0), 0)
  const responseIds = new Int32Array(length)
  const lossMask = new Uint8Array(length)
  const complete = path.every((call) => call.logprobs?.length === call.sampledIds.length)
  const logprobs = complete && lengthOfSampled(path) > 0 ? new Float32Array(length) : null
  const turns: Turn[] = []
  let at = 0
  for (const [position, call] of path.entries()) {
    const piece = pieces[position] ?? new Int32Array(0)
    responseIds.set(piece, at)
    const start = at + piece.length
    at = start + call.sampledIds.length
    responseIds.set(call.sampledIds, start)
    lossMask.fill(1, start, at)
    if (call.logprobs !== null) logprobs?.set(call.logprobs, start)
    const { id, sequence, weightVersion, logprobMode, sampling, finishReason } = call.record
    turns.push({
      call_id: id,
      sequence,
      start,
      end: at,
      trained: true,
      weight_version: weightVersion,
      logprob_mode: logprobMode,
      temperature: sampling.temperature,
      finish_reason: finishReason,
      spliced_context: true,
    })
  }
  const [first] = path
  const last = path.at(-1)
  if (first === undefined || last === undefined) throw new Error('a chain needs a call')
  return {
    prompt_ids: Int32Array.from(first.promptIds),
    response_ids: responseIds,
    loss_mask: lossMask,
    prompt_messages: first.record.promptMessages.map(analysis.conversation.parse),
    response_messages: responseMessages(analysis, members).map(analysis.conversation.parse),
    tools: toolListOf(analysis, first),
    finish_reason: last.record.finishReason,
    response_logprobs: logprobs,
    reward: null,
    metadata: {
      row_id: rowId(last),
      parent_row_id: null,
      edge: null,
      drift: null,
      segment_role: 'main',
      last_sequence: last.record.sequence,
      turns,
    },
  }
}

const lengthOfSampled = (path: readonly BuilderCall[]): number => path.reduce((sum, call) => sum + call.sampledIds.length, 0)
