// The shapes of Google's GenerateContentResponse, from the SDK's types, and the order of its two streamed forms.
import { z } from 'zod'
import { anyObject, count, demand, eventsOf, type Folded, json, nonEmpty, shaped, type Wishes } from './folded.ts'

const signature = z.base64().min(1)

const part = z.union([
  z.strictObject({
    functionCall: z.strictObject({ id: nonEmpty, name: nonEmpty, args: anyObject }),
    thoughtSignature: signature.optional(),
  }),
  z.strictObject({ text: z.string(), thought: z.literal(true).optional(), thoughtSignature: signature.optional() }),
])
type Part = z.infer<typeof part>

const probability = z.strictObject({ token: z.string(), tokenId: count.optional(), logProbability: z.number() })

const candidate = z.strictObject({
  content: z.strictObject({ role: z.literal('model'), parts: z.array(part).min(1) }),
  index: z.literal(0),
  finishReason: z.enum(['STOP', 'MAX_TOKENS', 'SAFETY']).optional(),
  safetyRatings: z.array(z.never()).optional(),
  avgLogprobs: z.number().optional(),
  logprobsResult: z
    .strictObject({ chosenCandidates: z.array(probability), topCandidates: z.array(z.strictObject({ candidates: z.array(probability) })) })
    .optional(),
})

const response = z.strictObject({
  candidates: z.tuple([candidate]),
  usageMetadata: z
    .strictObject({
      promptTokenCount: count,
      candidatesTokenCount: count,
      totalTokenCount: count,
      thoughtsTokenCount: count.optional(),
      cachedContentTokenCount: count.optional(),
    })
    .optional(),
  modelVersion: nonEmpty,
  responseId: nonEmpty,
})
type Response = z.infer<typeof response>

export function readPlainGoogle(body: string, wishes: Wishes): Folded {
  return fold([shaped(response, json(body, 'a response'), 'response')], wishes)
}

export function readGoogleStream(body: string, wishes: Wishes): Folded {
  const events = eventsOf(body)
  demand(
    events.every(({ event }) => event === null),
    'a Google stream has no event names',
  )
  return fold(
    events.map(({ data }) => shaped(response, json(data, 'a response'), 'streamed response')),
    wishes,
  )
}

export function readGoogleArray(body: string, wishes: Wishes): Folded {
  const list = json(body, 'the array')
  demand(Array.isArray(list), 'the streamed body is an array')
  return fold(
    list.map((each) => shaped(response, each, 'element')),
    wishes,
  )
}

function fold(responses: readonly Response[], wishes: Wishes): Folded {
  const [first] = responses
  const last = responses.at(-1)
  demand(first !== undefined && last !== undefined, 'there is a response')
  for (const each of responses) {
    demand(each.responseId === first.responseId && each.modelVersion === first.modelVersion, 'id and model stay the same')
    const [{ finishReason, avgLogprobs, logprobsResult }] = each.candidates
    demand((finishReason !== undefined) === (each === last), 'the finish reason stands in the last response, and there alone')
    demand((each.usageMetadata !== undefined) === (each === last), 'the usage stands in the last response, and there alone')
    demand(wishes.logprobs !== false || (avgLogprobs === undefined && logprobsResult === undefined), 'logprobs were not asked for')
  }
  const parts = joined(responses.flatMap((each) => each.candidates[0].content.parts))
  const calls = parts.flatMap((each) => ('functionCall' in each ? [each.functionCall] : []))
  demand(new Set(calls.map(({ id }) => id)).size === calls.length, 'ids of calls are distinct')
  const texts = parts.flatMap((each) => ('text' in each ? [each] : []))
  const thoughts = texts.filter((each) => each.thought === true)
  return {
    id: first.responseId,
    model: first.modelVersion,
    text: texts
      .filter((each) => each.thought !== true)
      .map((each) => each.text)
      .join(''),
    reasoning: thoughts.length === 0 ? null : thoughts.map((each) => each.text).join(''),
    calls: calls.map(({ id, name, args }) => ({ id, name, given: { value: args } })),
    kept: { items: parts, calls: calls.map(({ id, name }) => ({ id, name, kind: 'functionCall' })), responseId: null },
  }
}

/** As Google's own chat sessions keep a streamed answer: neighbouring texts of one kind are one, and thoughts that say nothing are none. */
function joined(parts: readonly Part[]): readonly Part[] {
  const kept: Part[] = []
  for (const each of parts) {
    const before = kept.at(-1)
    if ('text' in each && each.thought === true && each.text === '') continue
    if (before !== undefined && 'text' in each && 'text' in before && each.thought === before.thought) {
      kept[kept.length - 1] = { ...before, ...each, text: before.text + each.text }
    } else kept.push(each)
  }
  return kept
}

export const googleError = z.strictObject({
  error: z.strictObject({
    code: z.int().min(400).max(599),
    message: nonEmpty,
    status: z.enum([
      'INVALID_ARGUMENT',
      'UNAUTHENTICATED',
      'PERMISSION_DENIED',
      'NOT_FOUND',
      'ABORTED',
      'FAILED_PRECONDITION',
      'RESOURCE_EXHAUSTED',
      'CANCELLED',
      'INTERNAL',
      'UNAVAILABLE',
      'DEADLINE_EXCEEDED',
    ]),
    details: z.array(z.looseObject({ '@type': nonEmpty })).optional(),
  }),
})

export const googleCount = z.strictObject({ totalTokens: count, cachedContentTokenCount: count.optional() })

export const googleModel = z.strictObject({
  name: z.string().regex(/^models\//),
  displayName: z.string().optional(),
  description: z.string().optional(),
  version: z.string().optional(),
  baseModelId: z.string().optional(),
  inputTokenLimit: count.optional(),
  outputTokenLimit: count.optional(),
  supportedGenerationMethods: z.array(nonEmpty),
  supportedActions: z.array(nonEmpty).optional(),
})
export const googleModels = z.strictObject({ models: z.array(googleModel).min(1) })
