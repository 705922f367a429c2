// The pivot: what every dialect is turned into before an engine sees it, and what every answer is before a dialect renders it.
import type { Diagnostic, FinishReason, Usage } from '../contract/call.ts'
import type { JsonObject } from './json.ts'

export type ContentPart = JsonObject & { readonly type: string }

export type ToolCall = {
  readonly id: string
  readonly type: 'function'
  /** `arguments` is the sampled text: it is never parsed and printed again. */
  readonly function: { readonly name: string; readonly arguments: string }
}

export type ChatMessage =
  | { readonly role: 'system'; readonly content: string | readonly ContentPart[]; readonly name?: string }
  | { readonly role: 'user'; readonly content: string | readonly ContentPart[]; readonly name?: string }
  | AssistantMessage
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: string | readonly ContentPart[] }

export type AssistantMessage = {
  readonly role: 'assistant'
  readonly content: string | readonly ContentPart[] | null
  readonly reasoning_content?: string
  readonly tool_calls?: readonly ToolCall[]
  readonly name?: string
}

export type Tool = { readonly type: 'function'; readonly function: JsonObject & { readonly name: string } }

export type ChatRequest = {
  readonly messages: readonly ChatMessage[]
  /** Null rather than empty: engines refuse an empty list. */
  readonly tools: readonly Tool[] | null
  /** Everything else the engine is sent, under the engine's own names. */
  readonly parameters: JsonObject
}

/** A client's request after its dialect has been read. */
export type NormalisedCall = {
  readonly modelRequested: string
  readonly stream: boolean
  readonly maxTokensRequested: number | null
  readonly request: ChatRequest
  readonly diagnostics: readonly Diagnostic[]
}

export type AnswerMessage = {
  readonly role: 'assistant'
  readonly content: string | null
  readonly reasoning_content?: string
  readonly tool_calls?: readonly ToolCall[]
}

/** Reasons with which a generation is an answer. */
type AnswerFinish = Exclude<FinishReason, 'abort' | 'unknown'>

export type ChatAnswer = {
  readonly message: AnswerMessage
  readonly finishReason: AnswerFinish
  readonly usage: Usage
  /** The engine's `logprobs.content`, for a client that asked. */
  readonly logprobs: readonly unknown[] | null
}

/** Gives calls without an id, or with one that is taken, a new one; what the engine named stays as it is. */
export function withToolCallIds(answer: ChatAnswer, newId: () => string): ChatAnswer {
  const calls = answer.message.tool_calls
  if (calls === undefined) return answer
  const taken = new Set<string>()
  const named = calls.map((call) => {
    const id = call.id === '' || taken.has(call.id) ? newId() : call.id
    taken.add(id)
    return id === call.id ? call : { ...call, id }
  })
  return { ...answer, message: { ...answer.message, tool_calls: named } }
}
