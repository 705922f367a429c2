// Which calls' sampled tokens may be trained, and for each that may not the reason.
import type { CaptureError } from '../contract/call.ts'
import type { BuilderCall } from './builder.ts'
import type { Forest } from './forest.ts'
import type { Role } from './roles.ts'

type UntrainedReason =
  | 'failed'
  | 'aborted'
  | 'cancelled'
  | 'ids_missing'
  | 'lengths_differ'
  | 'logprobs_missing'
  | 'logprob_not_finite'
  | 'prompt_empty'
  | 'sampled_empty'
  | 'arena_full'
  | 'aux'
  | 'retry_abandoned'
  | 'undelivered'
  | 'partly_delivered'

/** Null: trained. */
export type Verdict = UntrainedReason | null

const CAPTURE_REASONS: { readonly [K in CaptureError['code']]: UntrainedReason } = {
  'ids-missing': 'ids_missing',
  'lengths-differ': 'lengths_differ',
  'logprobs-missing': 'logprobs_missing',
  'logprob-not-finite': 'logprob_not_finite',
  'prompt-empty': 'prompt_empty',
  'sampled-empty': 'sampled_empty',
  'arena-full': 'arena_full',
}

/** Attempts at one turn, in sequence: equal prompts or equal request digests. Only groups of two and more. */
export function groupRetries(calls: readonly BuilderCall[], forest: Forest): readonly (readonly number[])[] {
  const leader = calls.map((_, index) => index)
  const find = (index: number): number => {
    let at = index
    while (leader[at] !== undefined && leader[at] !== at) at = leader[at] ?? at
    return at
  }
  // The earliest call leads, so that groups come out in sequence.
  const unite = (a: number, b: number) => {
    const [first, second] = [find(a), find(b)].toSorted((left, right) => left - right)
    if (first !== undefined && second !== undefined) leader[second] = first
  }
  for (const group of forest.samePrompt) for (const index of group) unite(group[0] ?? index, index)
  const byDigest = new Map<string, number>()
  const byId = new Map<string, number>()
  for (const [index, { record }] of calls.entries()) {
    const same = record.digest === '' ? undefined : byDigest.get(record.digest)
    if (same !== undefined) unite(same, index)
    else byDigest.set(record.digest, index)
    const origin = record.retryOf === null ? undefined : byId.get(record.retryOf)
    if (origin !== undefined) unite(origin, index)
    byId.set(record.id, index)
  }
  const groups = new Map<number, number[]>()
  for (const index of calls.keys()) {
    const head = find(index)
    const group = groups.get(head)
    if (group === undefined) groups.set(head, [index])
    else group.push(index)
  }
  return [...groups.values()].filter((group) => group.length > 1)
}

/** Judges every call. A call that a later one continues was received, whatever the socket says. */
export function judge(
  calls: readonly BuilderCall[],
  forest: Forest,
  roles: readonly Role[],
  retries: readonly (readonly number[])[],
): readonly Verdict[] {
  const verdicts = calls.map((call, index): Verdict => unusable(call) ?? (roles[index] === 'aux' ? 'aux' : null))
  const isContinued = (index: number) => (forest.children[index]?.length ?? 0) > 0

  for (const group of retries) {
    const usable = group.filter((index) => verdicts[index] === null)
    const continued = usable.filter(isContinued)
    // Of attempts that nothing continues, the agent went on with the last one it got in full.
    const last = usable.findLast((index) => calls[index]?.record.delivery === 'yes')
    const kept = continued.length > 0 ? continued : last === undefined ? [] : [last]
    if (kept.length === 0) continue
    for (const index of usable) if (!kept.includes(index)) verdicts[index] = 'retry_abandoned'
  }
  for (const [index, { record }] of calls.entries()) {
    if (verdicts[index] !== null || isContinued(index) || record.delivery === 'yes') continue
    verdicts[index] = record.delivery === 'partial' ? 'partly_delivered' : 'undelivered'
  }
  return verdicts
}

function unusable({ record, promptIds, sampledIds, logprobs }: BuilderCall): Verdict {
  if (record.status !== 'ok') return record.status
  if (record.finishReason === 'abort') return 'aborted'
  if (record.captureError !== null) return CAPTURE_REASONS[record.captureError.code]
  if (promptIds.length === 0) return 'prompt_empty'
  if (sampledIds.length === 0) return 'sampled_empty'
  if (logprobs === null) return 'logprobs_missing'
  if (logprobs.length !== sampledIds.length) return 'lengths_differ'
  return logprobs.every((logprob) => Number.isFinite(logprob) && logprob <= 0) ? null : 'logprob_not_finite'
}
