// Which weights drew which sampled tokens: as the engine lists it where its list is sound, else one version for all of them.
import type { WeightSpan } from '../../contract/call.ts'
import { isObject } from '../json.ts'

/** What an engine's reply says of its weights. */
export type Weights = {
  /** The latest that sampled. */
  readonly weightVersion: string | null
  /** Every sampled token is in one of them, in order; neighbours differ. */
  readonly weightSpans: readonly WeightSpan[]
}

/** `listed`: vLLM's and SGLang's `weight_versions`, `{version, start, end}` each; `stated`: the one version of those that list none. */
export function readWeights(listed: unknown, stated: unknown, length: number): Weights {
  const told = (Array.isArray(listed) ? listed : []).map(readSpan)
  const versions = new Set(told.map(({ version }) => version))
  const weightVersion = told.at(-1)?.version ?? versionText(stated)
  // Where one version ends and the next begins is not to be guessed.
  const unplaced = versions.size > 1 ? null : weightVersion
  const isSound = versions.size > 1 && told.every(({ start, end }, at) => start === (told[at - 1]?.end ?? 0) && end > start)
  const spans = isSound && told.at(-1)?.end === length ? told : wholeSpan(unplaced, length)
  return { weightVersion, weightSpans: compacted(spans) }
}

/** Of one version from its first token to its last. */
export function wholeSpan(version: string | null, length: number): readonly WeightSpan[] {
  return length === 0 ? [] : [{ start: 0, end: length, version }]
}

/** Of a generation that went on in another one. */
export function joinedSpans(first: readonly WeightSpan[], next: readonly WeightSpan[]): readonly WeightSpan[] {
  const offset = first.at(-1)?.end ?? 0
  return compacted([...first, ...next.map(({ start, end, version }) => ({ start: start + offset, end: end + offset, version }))])
}

/** Tokens from `from` on that no answer named the weights of are of this version. */
export function named<T extends Weights>(weights: T, version: string, from: number): T {
  const weightSpans = weights.weightSpans.flatMap((span) => {
    if (span.version !== null || span.end <= from) return [span]
    const before = span.start < from ? [{ ...span, end: from }] : []
    return [...before, { start: Math.max(span.start, from), end: span.end, version }]
  })
  return { ...weights, weightVersion: weights.weightVersion ?? version, weightSpans: compacted(weightSpans) }
}

/** Null where it is not known, or more than one. */
export function soleVersion(spans: readonly WeightSpan[]): string | null {
  return spans.length === 1 ? (spans[0]?.version ?? null) : null
}

export function versionText(version: unknown): string | null {
  return typeof version === 'string' || typeof version === 'number' ? String(version) : null
}

function readSpan(entry: unknown): WeightSpan {
  const { version, weight_version, start, end } = isObject(entry) ? entry : { version: entry }
  return { start: position(start), end: position(end), version: versionText(version ?? weight_version) }
}

/** No position is one that no span can begin or end at. */
function position(value: unknown): number {
  return typeof value === 'number' && Number.isInteger(value) ? value : -1
}

function compacted(spans: readonly WeightSpan[]): readonly WeightSpan[] {
  const joined: WeightSpan[] = []
  for (const span of spans) {
    const before = joined.at(-1)
    if (before?.version === span.version && before !== undefined) joined[joined.length - 1] = { ...before, end: span.end }
    else joined.push(span)
  }
  return joined
}
