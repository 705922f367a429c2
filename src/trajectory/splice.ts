// Joining a turn to a prompt that tells it differently: Polar's published rule (prompt prefix + canonical interstitial), repaired.
import { commonPrefix } from '../tokens/prefix.ts'
import type { BuilderCall } from './builder.ts'
import type { Conversation } from './conversation.ts'
import type { Junction, Splicer } from './forest.ts'

/** The token that ends a turn: as configured, or the one with which every naturally ended call of the session ends; null when they differ. */
export function endOfTurn(calls: readonly BuilderCall[], configured: number | null): number | null {
  if (configured !== null) return configured
  let found: number | null = null
  for (const { record, sampledIds } of calls) {
    const last = sampledIds.at(-1)
    if (last === undefined || record.status !== 'ok' || (record.finishReason !== 'stop' && record.finishReason !== 'tool_calls')) continue
    if (found !== null && found !== last) return null
    found = last
  }
  return found
}

/**
 * Splices only where the engine's own account of the turn can be found in the later prompt: with as many end-of-turn tokens as were
 * sampled (a turn may hold several), an assistant message in the turn's place, and at least some of its tokens. Anything else stays two rows.
 */
export function openSplicer(
  calls: readonly BuilderCall[],
  conversation: Conversation,
  endToken: number | null,
  maxUnreported: number,
): Splicer {
  return (earlierIndex, laterIndex) => {
    const earlier = calls[earlierIndex]
    const later = calls[laterIndex]
    if (earlier === undefined || later === undefined) return null
    if (!answersInPlace(earlier, later, conversation)) return null
    const junction = splice(earlier, later.promptIds, endToken)
    if (junction === null) return null
    const context = earlier.promptIds.length + earlier.sampledIds.length
    return junction.unreported / context > maxUnreported ? null : junction
  }
}

function splice({ promptIds, sampledIds }: BuilderCall, prompt: Int32Array, endToken: number | null): Junction | null {
  const start = promptIds.length
  const body = commonPrefix(sampledIds, 0, prompt, start, Math.min(sampledIds.length, prompt.length - start))
  if (body === sampledIds.length) return { from: start + body, unreported: 0 }
  if (endToken === null) return null

  const endsItself = sampledIds.at(-1) === endToken
  const end = positionOfEnd(prompt, start, endToken, count(sampledIds, endToken) + (endsItself ? 0 : 1))
  if (end === -1) return null
  const sampledLength = sampledIds.length - (endsItself ? 1 : 0)
  const prefix = Math.min(body, end - start, sampledLength)
  const suffix = commonSuffix(sampledIds, sampledLength, prompt, end, Math.min(sampledLength, end - start) - prefix)
  if (prefix + suffix === 0) return null
  return { from: endsItself ? end + 1 : end, unreported: sampledLength - prefix - suffix }
}

/** With messages known, the later request must hold an assistant message where this turn's answer would stand. */
function answersInPlace(earlier: BuilderCall, later: BuilderCall, conversation: Conversation): boolean {
  const place = later.record.promptMessages[earlier.record.promptMessages.length]
  if (earlier.record.promptMessages.length === 0 || later.record.promptMessages.length === 0) return true
  return place !== undefined && conversation.role(place) === 'assistant'
}

function positionOfEnd(prompt: Int32Array, from: number, endToken: number, ordinal: number): number {
  let at = from - 1
  for (let seen = 0; seen < ordinal; seen++) {
    at = prompt.indexOf(endToken, at + 1)
    if (at === -1) return -1
  }
  return at
}

function count(ids: Int32Array, token: number): number {
  let found = 0
  for (const id of ids) if (id === token) found++
  return found
}

function commonSuffix(a: Int32Array, aEnd: number, b: Int32Array, bEnd: number, limit: number): number {
  let same = 0
  while (same < limit && a[aEnd - 1 - same] === b[bEnd - 1 - same]) same++
  return same
}
