// Token ids and logprobs of one answer: taken by position where everything agrees, and otherwise with the reason why not.
import type { CaptureError } from '../../contract/call.ts'
import type { CapturedTokens } from './engine.ts'

export type GivenTokens = {
  readonly promptIds: unknown
  readonly sampledIds: unknown
  /** The tokens that the logprobs themselves name; null when they name none. */
  readonly namedIds: readonly unknown[] | null
  /** Null when the engine sent none; the numbers may still be wrong. */
  readonly logprobs: readonly unknown[] | null
  /** What the engine counted. */
  readonly promptTokens: unknown
  readonly completionTokens: unknown
}

/** What each of them is called where the engine has it, for people. */
export type TokenFields = { readonly [field in Exclude<keyof GivenTokens, 'namedIds'>]: string }

/** An engine that lists the sampled ids nowhere else has them beside their logprobs. */
export function readTokens(given: GivenTokens, fields: TokenFields): CapturedTokens {
  const { namedIds: named, logprobs } = given
  const [promptIds, sampledIds] = [readIds(given.promptIds), readIds(given.sampledIds ?? named)]
  if (promptIds === null || sampledIds === null) {
    return untrained(`${promptIds === null ? fields.promptIds : fields.sampledIds}: not an array of token ids`)
  }
  if (named?.length === sampledIds.length && sampledIds.some((id, at) => id !== named[at])) {
    return untrained(`${fields.sampledIds} and ${fields.logprobs} name different tokens`)
  }
  const error = disagreement(promptIds, sampledIds, given, fields)
  return { promptIds, sampledIds, logprobs: error === null && logprobs !== null ? logprobs.map(Number) : null, error }
}

function untrained(detail: string): CapturedTokens {
  return { promptIds: [], sampledIds: [], logprobs: null, error: { code: 'ids-missing', detail } }
}

export function readIds(value: unknown): readonly number[] | null {
  if (!Array.isArray(value)) return null
  return value.every((id) => Number.isInteger(id) && id >= 0 && id <= 0x7fffffff) ? value : null
}

export function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null
}

function disagreement(
  promptIds: readonly number[],
  sampledIds: readonly number[],
  { logprobs, ...counted }: GivenTokens,
  fields: TokenFields,
): CaptureError | null {
  if (promptIds.length === 0) return { code: 'prompt-empty', detail: `${fields.promptIds} is empty` }
  if (sampledIds.length === 0) return { code: 'sampled-empty', detail: `${fields.sampledIds} is empty` }
  const completionTokens = count(counted.completionTokens)
  if (completionTokens !== null && completionTokens !== sampledIds.length) {
    const detail = `${fields.sampledIds} has ${sampledIds.length}, ${fields.completionTokens} says ${completionTokens}`
    return { code: 'lengths-differ', detail }
  }
  const promptTokens = count(counted.promptTokens)
  if (promptTokens !== null && promptTokens !== promptIds.length) {
    return { code: 'lengths-differ', detail: `${fields.promptIds} has ${promptIds.length}, ${fields.promptTokens} says ${promptTokens}` }
  }
  if (logprobs === null) return { code: 'logprobs-missing', detail: `${fields.logprobs} is missing` }
  if (logprobs.length !== sampledIds.length) {
    return { code: 'lengths-differ', detail: `${fields.sampledIds} has ${sampledIds.length}, ${fields.logprobs} has ${logprobs.length}` }
  }
  const wrong = logprobs.findIndex((logprob) => typeof logprob !== 'number' || !Number.isFinite(logprob) || logprob > 0)
  if (wrong === -1) return null
  return { code: 'logprob-not-finite', detail: `${fields.logprobs}[${wrong}] is ${JSON.stringify(logprobs[wrong]) ?? 'missing'}` }
}
