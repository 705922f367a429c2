// Whether an engine takes logprobs before or after temperature: told by asking for the same token at two temperatures.
import { isObject } from '../json.ts'

export type LogprobMode = 'raw' | 'processed' | 'unknown'

/** Asks for one token after `prompt`; the entries of the answer's `logprobs.content`, or null when there are none. */
export type AskForLogprobs = (prompt: string, temperature: number) => Promise<readonly unknown[] | null>

/** Short, and so unlike that one of them will not be answered by a coin toss. */
const PROMPTS = ['Say hi.', 'What is the capital of France?', 'Count to three.']
const COLD = 0.5
/** Below this distance between two tokens, rounding on a busy GPU could pass for temperature. */
const LEAST_GAP = 0.5
/** Engines write the logarithm of nothing as some huge negative number. */
const FLOOR = -1_000

/**
 * The distance between two tokens' logprobs does not depend on what the distribution sums to: it stays as it is where
 * logprobs are raw, and grows by 1/T where they are those of the sampler. Only the first position is compared: later ones
 * depend on what was sampled.
 */
export async function findLogprobMode(ask: AskForLogprobs): Promise<LogprobMode> {
  for (const prompt of PROMPTS) {
    const warm = await ask(prompt, 1)
    const cold = warm === null ? null : await ask(prompt, COLD)
    if (warm === null || cold === null) return 'unknown'
    const mode = compare(firstPosition(warm), firstPosition(cold))
    if (mode !== 'unknown') return mode
  }
  return 'unknown'
}

/** By the pair of tokens that lie furthest apart, where noise counts least. */
function compare(warm: ReadonlyMap<string, number>, cold: ReadonlyMap<string, number>): LogprobMode {
  const common = [...warm].filter(([token]) => cold.has(token)).sort(([, a], [, b]) => b - a)
  const [top, last] = [common[0], common.at(-1)]
  if (top === undefined || last === undefined) return 'unknown'
  const gap = top[1] - last[1]
  if (gap < LEAST_GAP) return 'unknown'
  const growth = ((cold.get(top[0]) ?? 0) - (cold.get(last[0]) ?? 0)) / gap
  if (Math.abs(growth - 1) < 0.3) return 'raw'
  return Math.abs(growth - 1 / COLD) < 0.5 ? 'processed' : 'unknown'
}

/** Logprob by token. Tokens that are shown alike, as parts of characters are, cannot be told apart and are left out. */
function firstPosition(content: readonly unknown[]): ReadonlyMap<string, number> {
  const [first] = content
  if (!isObject(first)) return new Map()
  const logprobs = new Map<string, number>()
  const alike = new Set<string>()
  const entries: readonly unknown[] = [first, ...(Array.isArray(first.top_logprobs) ? first.top_logprobs : [])]
  for (const entry of entries) {
    if (!isObject(entry) || typeof entry.logprob !== 'number' || !(entry.logprob > FLOOR)) continue
    const token = JSON.stringify([entry.id, entry.token, entry.bytes])
    const known = logprobs.get(token)
    // The sampled token stands among its alternatives too.
    if (known !== undefined && known !== entry.logprob) alike.add(token)
    logprobs.set(token, entry.logprob)
  }
  for (const token of alike) logprobs.delete(token)
  return logprobs
}
