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
  /** The call whose answer this is, as a signature that came back with it says. Read by `recall.ts` and never sent to an engine. */
  readonly origin?: string
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
  /** The call whose conversation this one goes on with, when the client sends only what is new. */
  readonly continues: string | null
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
  /** The stop string that ended the answer, when the engine says so. */
  readonly stopSequence: string | null
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

/** What a token count is asked for: a conversation as a model call would send it, or a bare text. */
export type Countable = { readonly kind: 'messages'; readonly request: ChatRequest } | { readonly kind: 'text'; readonly text: string }

/** The id of the first tool result that no earlier call of the conversation asked for; null when every result has its call. */
export function orphanedResult(messages: readonly ChatMessage[]): string | null {
  const asked = new Set<string>()
  for (const message of messages) {
    if (message.role === 'assistant') for (const call of message.tool_calls ?? []) asked.add(call.id)
    if (message.role === 'tool' && !asked.has(message.tool_call_id)) return message.tool_call_id
  }
  return null
}
