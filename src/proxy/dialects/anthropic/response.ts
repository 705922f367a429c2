// The pivot → one Anthropic message: thinking, text and tool calls as blocks, built once for both forms of the answer.
import type { Usage } from '../../../contract/call.ts'
import { unreachable } from '../../../kernel/unreachable.ts'
import type { ChatAnswer } from '../../chat.ts'
import type { JsonObject } from '../../json.ts'
import { exactObject } from '../arguments.ts'
import type { AnswerIdentity } from '../dialect.ts'
import { signatureOf } from '../signature.ts'

/** What of the request the answer depends on. */
export type AnthropicWishes = { readonly stopSequences: readonly string[] }

type ThinkingBlock = { readonly type: 'thinking'; readonly thinking: string; readonly signature: string }
type TextBlock = { readonly type: 'text'; readonly text: string; readonly citations: null }
type ToolUseBlock = {
  readonly type: 'tool_use'
  readonly id: string
  readonly name: string
  readonly input: JsonObject
  readonly caller: { readonly type: 'direct' }
}

export function writeAnthropic(answer: ChatAnswer, identity: AnswerIdentity, wishes: AnthropicWishes): string {
  return JSON.stringify(messageOf(answer, identity, wishes))
}

export function messageOf(answer: ChatAnswer, identity: AnswerIdentity, wishes: AnthropicWishes) {
  return {
    ...messageHead(identity),
    content: blocksOf(answer, identity),
    ...stopOf(answer, wishes),
    usage: usageOf(answer.usage),
  }
}

/** The fields that are the same for every message; those the vendor's types promise and nothing here can fill are null. */
export function messageHead(identity: AnswerIdentity) {
  return {
    id: `msg_${identity.id}`,
    type: 'message' as const,
    role: 'assistant' as const,
    model: identity.model,
    container: null,
    diagnostics: null,
    stop_details: null,
  }
}

/** Never empty. An empty text stands only where there is neither text nor call: clients take an answer with nothing to see for a fault. */
function blocksOf({ message }: ChatAnswer, identity: AnswerIdentity): (ThinkingBlock | TextBlock | ToolUseBlock)[] {
  const { reasoning_content: reasoning = '', tool_calls: calls = [] } = message
  const text = message.content ?? ''
  return [
    ...(reasoning === '' ? [] : [thinkingBlock(reasoning, signatureOf(identity.id))]),
    ...(text === '' && calls.length > 0 ? [] : [textBlock(text)]),
    ...calls.map(({ id, function: { name, arguments: input } }) => toolUseBlock(id, name, exactObject(input) ?? {})),
  ]
}

export function thinkingBlock(thinking: string, signature: string): ThinkingBlock {
  return { type: 'thinking', thinking, signature }
}

export function textBlock(text: string): TextBlock {
  return { type: 'text', text, citations: null }
}

export function toolUseBlock(id: string, name: string, input: JsonObject): ToolUseBlock {
  return { type: 'tool_use', id, name, input, caller: { type: 'direct' } }
}

/** The reason follows what the message holds: a call is never told as `end_turn`, and `tool_use` never without a call. */
export function stopOf({ message, finishReason, stopSequence }: ChatAnswer, { stopSequences }: AnthropicWishes) {
  const hasCalls = (message.tool_calls ?? []).length > 0
  // Engines also report stop tokens of their own, which the client has not asked for.
  const stopped = finishReason === 'stop' && !hasCalls && stopSequence !== null && stopSequences.includes(stopSequence)
  return {
    stop_reason: stopped ? ('stop_sequence' as const) : stopReason(finishReason, hasCalls),
    stop_sequence: stopped ? stopSequence : null,
  }
}

function stopReason(finish: ChatAnswer['finishReason'], hasCalls: boolean): 'end_turn' | 'max_tokens' | 'tool_use' | 'refusal' {
  switch (finish) {
    case 'stop':
    case 'tool_calls':
      return hasCalls ? 'tool_use' : 'end_turn'
    case 'length':
      return 'max_tokens'
    case 'content_filter':
      return 'refusal'
    default:
      return unreachable(finish)
  }
}

/** `input_tokens` is what the cache did not hold: the parts of the prompt add up to its length. */
export function usageOf({ promptTokens, completionTokens, cachedTokens, reasoningTokens }: Usage) {
  const cached = Math.min(cachedTokens ?? 0, promptTokens)
  return {
    input_tokens: promptTokens - cached,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    cache_creation: null,
    output_tokens: completionTokens,
    output_tokens_details: reasoningTokens === null ? null : { thinking_tokens: reasoningTokens },
    server_tool_use: null,
    inference_geo: null,
    service_tier: 'standard' as const,
    speed: null,
  }
}
