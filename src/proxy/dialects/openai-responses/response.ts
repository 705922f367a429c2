// The response object around the output: what it says of the request, how it stands, what it cost.
import type { Usage } from '../../../contract/call.ts'
import type { ChatAnswer } from '../../chat.ts'
import type { JsonObject } from '../../json.ts'
import type { AnswerIdentity } from '../dialect.ts'
import type { StreamedError } from './error.ts'
import { responseId } from './item-ids.ts'
import { type OutputItem, writeOutput } from './output.ts'
import type { Face } from './tools.ts'

/** What of the request the answer depends on. */
export type ResponsesWishes = {
  readonly faces: ReadonlyMap<string, Face>
  /** Fields of the request that the vendor's response repeats. */
  readonly echo: JsonObject
}

export type ResponseState =
  | { readonly status: 'in_progress' }
  | { readonly status: 'failed'; readonly error: StreamedError }
  | { readonly status: 'answered'; readonly answer: ChatAnswer; readonly output: readonly OutputItem[] }

export function writeResponses(answer: ChatAnswer, identity: AnswerIdentity, wishes: ResponsesWishes): string {
  return JSON.stringify(
    responseObject(identity, wishes, { status: 'answered', answer, output: writeOutput(answer, identity, wishes.faces) }),
  )
}

/** Instructions and tools are not repeated: they are the greater part of a request, and a stream would repeat them with every beat. */
export function responseObject(identity: AnswerIdentity, { echo }: ResponsesWishes, state: ResponseState): JsonObject {
  const reason = state.status === 'answered' ? incompleteReason(state.answer) : null
  return {
    id: responseId(identity.id),
    object: 'response',
    created_at: identity.createdSeconds,
    status: state.status === 'answered' ? (reason === null ? 'completed' : 'incomplete') : state.status,
    background: false,
    error: state.status === 'failed' ? state.error : null,
    incomplete_details: reason === null ? null : { reason },
    instructions: null,
    model: identity.model,
    output: state.status === 'answered' ? state.output : [],
    ...echo,
    access_programs: null,
    service_tier: 'default',
    store: false,
    text: { format: { type: 'text' } },
    tools: [],
    truncation: 'disabled',
    usage: state.status === 'answered' ? writeUsage(state.answer.usage) : null,
  }
}

export function incompleteReason({ finishReason }: ChatAnswer): 'max_output_tokens' | 'content_filter' | null {
  if (finishReason === 'length') return 'max_output_tokens'
  return finishReason === 'content_filter' ? 'content_filter' : null
}

/** Details are objects even when they say nothing: clients index into them. */
function writeUsage(usage: Usage): object {
  return {
    input_tokens: usage.promptTokens,
    input_tokens_details: { cached_tokens: usage.cachedTokens ?? 0, cache_write_tokens: 0 },
    output_tokens: usage.completionTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
    total_tokens: usage.promptTokens + usage.completionTokens,
  }
}
