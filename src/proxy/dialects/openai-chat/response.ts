// The pivot → one chat.completion object: built anew, so nothing of the engine's leaks to the agent.
import type { Usage } from '../../../contract/call.ts'
import type { ChatAnswer } from '../../chat.ts'
import type { AnswerIdentity } from '../dialect.ts'

/** What of the request the answer depends on. */
export type ChatWishes = { readonly includeUsage: boolean; readonly logprobs: boolean }

export function writeChat(answer: ChatAnswer, identity: AnswerIdentity, wishes: ChatWishes): string {
  const { message, finishReason } = answer
  return JSON.stringify({
    id: completionId(identity),
    object: 'chat.completion',
    created: identity.createdSeconds,
    model: identity.model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: message.content,
          refusal: null,
          ...(message.reasoning_content === undefined ? {} : { reasoning_content: message.reasoning_content }),
          ...((message.tool_calls ?? []).length === 0 ? {} : { tool_calls: message.tool_calls }),
        },
        logprobs: writeLogprobs(answer, wishes),
        finish_reason: finishReason,
      },
    ],
    usage: writeUsage(answer.usage),
  })
}

export function completionId(identity: AnswerIdentity): string {
  return `chatcmpl-${identity.id}`
}

export function writeLogprobs(
  answer: ChatAnswer,
  wishes: ChatWishes,
): { readonly content: readonly unknown[]; readonly refusal: null } | null {
  return wishes.logprobs && answer.logprobs !== null ? { content: answer.logprobs, refusal: null } : null
}

/** Details are objects even when they say nothing: clients index into them. */
export function writeUsage(usage: Usage): object {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens ?? 0 },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
  }
}
