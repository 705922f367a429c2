// The logs of engines, with each generation that another one went on with put together.
import type { EngineRequest } from '../../src/engine/scripted/request-log.ts'
import { isObject } from '../../src/proxy/json.ts'

/** One that goes on where an engine gave up stands for all of its answer, under the messages that it began with. */
export function wholeGenerations(requests: readonly EngineRequest[]): readonly EngineRequest[] {
  const whole: EngineRequest[] = []
  // One engine may go on where another gave up, and each has a log of its own.
  for (const request of requests.toSorted((one, other) => one.at - other.at)) {
    const prompt = isObject(request.body) && Array.isArray(request.body.prompt) ? request.body.prompt : null
    const begun = prompt === null ? undefined : whole.findLast((earlier) => isBegunBy(prompt, earlier))
    if (prompt === null || begun === undefined) whole.push(request)
    else {
      const { body, promptIds, sampledIds, logprobs } = begun
      const kept = prompt.length - promptIds.length
      whole.push({
        ...request,
        body,
        promptIds,
        sampledIds: [...sampledIds.slice(0, kept), ...request.sampledIds],
        logprobs: [...logprobs.slice(0, kept), ...request.logprobs],
      })
    }
  }
  return whole
}

/** The log knows what an engine would have sampled: what it gave up after is the beginning of it. */
function isBegunBy(prompt: readonly unknown[], { promptIds, sampledIds }: EngineRequest): boolean {
  const all = [...promptIds, ...sampledIds]
  return prompt.length > promptIds.length && prompt.length <= all.length && prompt.every((id, at) => id === all[at])
}
