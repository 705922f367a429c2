// Answers that every dialect must tell, and what a client must then know, in no dialect's own words.
import type { ChatAnswer, ToolCall } from '../../src/proxy/chat.ts'
import { canonicalText, isObject } from '../../src/proxy/json.ts'

/** What a reply told. */
export type Said = {
  readonly reasoning: string
  readonly text: string
  /** `arguments`: canonical JSON; what says no object counts as empty, as in the dialects that can only tell objects. */
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[]
  readonly finish: 'done' | 'length' | 'filtered'
  readonly usage: { readonly prompt: number; readonly completion: number; readonly cached: number }
}

export function saidOf({ message, finishReason, usage }: ChatAnswer): Said {
  return {
    reasoning: message.reasoning_content ?? '',
    text: message.content ?? '',
    calls: (message.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) => ({
      id,
      name,
      arguments: canonicalArguments(args),
    })),
    finish: finishReason === 'length' ? 'length' : finishReason === 'content_filter' ? 'filtered' : 'done',
    usage: { prompt: usage.promptTokens, completion: usage.completionTokens, cached: usage.cachedTokens ?? 0 },
  }
}

export function canonicalArguments(text: string): string {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? canonicalText(value) : '{}'
  } catch {
    return '{}'
  }
}

export function answer(message: Partial<ChatAnswer['message']>, rest: Partial<ChatAnswer> = {}): ChatAnswer {
  return {
    message: { role: 'assistant', content: null, ...message },
    finishReason: message.tool_calls === undefined ? 'stop' : 'tool_calls',
    usage: { promptTokens: 10, completionTokens: 4, cachedTokens: 6, reasoningTokens: null },
    stopSequence: null,
    logprobs: null,
    ...rest,
  }
}

export function toolCall(id: string, args: string, name = 'edit'): ToolCall {
  return { id, type: 'function', function: { name, arguments: args } }
}

const LONG = '👩‍👩‍👧 é\n\n'.repeat(3_000)

export const ANSWERS: Readonly<Record<string, ChatAnswer>> = {
  text: answer({ content: 'T' }),
  'text between white space': answer({ content: '\n\n T \n\n' }),
  'reasoning and text': answer(
    { reasoning_content: ' R\n', content: 'T' },
    { usage: { promptTokens: 9, completionTokens: 8, cachedTokens: null, reasoningTokens: 3 } },
  ),
  'a call': answer({ tool_calls: [toolCall('call_a', '{"x": 1.0, "s": "caf\\u00e9"}')] }),
  'a call without arguments': answer({ tool_calls: [toolCall('call_a', '')] }),
  'parallel calls': answer({
    tool_calls: [toolCall('call_a', '{"10": "b", "2": "a"}'), toolCall('call_b', '{}', 'list_directory'), toolCall('call_c', '{}')],
  }),
  everything: answer({
    reasoning_content: 'R',
    content: 'T',
    tool_calls: [toolCall('call_a', '{"x":{"y":[1,null,"z"]}}'), toolCall('call_b', '{ }')],
  }),
  'empty text': answer({ content: '' }),
  nothing: answer({ content: null }),
  'TO-08: reasoning that swallowed a call': answer({ reasoning_content: 'think <tool_call>{"name":"f"}</tool_call>', content: null }),
  'cut at its limit': answer({ content: 'half a sen' }, { finishReason: 'length' }),
  'cut before it said anything': answer({ reasoning_content: 'R', content: null }, { finishReason: 'length' }),
  filtered: answer({ content: 'T' }, { finishReason: 'content_filter' }),
  'arguments that are cut': answer({ tool_calls: [toolCall('call_a', '{"path": "a')] }),
  'arguments that are no object': answer({ tool_calls: [toolCall('call_a', '[1]'), toolCall('call_b', '"x"')] }),
  'long texts in characters of two halves': answer({
    reasoning_content: LONG,
    content: LONG,
    tool_calls: [toolCall('call_a', JSON.stringify({ s: LONG }))],
  }),
  'text that looks like a frame': answer({ content: 'data: [DONE]\n\nevent: x\r\n\r\n', reasoning_content: '\n\ndata: {}\n\n' }),
}
