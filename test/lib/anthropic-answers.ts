// Answers as an engine may give them, and the two forms in which an Anthropic client is told them.
import type { ChatAnswer, ToolCall } from '../../src/proxy/chat.ts'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import type { ReplyForm } from '../../src/proxy/dialects/dialect.ts'

export const IDENTITY = { id: 'ab'.repeat(16), createdSeconds: 1_700_000_000, model: 'claude-asked' }

export function answer(message: Partial<ChatAnswer['message']>, rest: Partial<ChatAnswer> = {}): ChatAnswer {
  return {
    message: { role: 'assistant', content: null, ...message },
    finishReason: 'stop',
    usage: { promptTokens: 10, completionTokens: 4, cachedTokens: 6, reasoningTokens: null },
    stopSequence: null,
    logprobs: null,
    ...rest,
  }
}

export const call = (id: string, text: string): ToolCall => ({ id, type: 'function', function: { name: 'f', arguments: text } })

const calls = { finishReason: 'tool_calls' } as const

/** The first five are those of case ST-04, the sixth that of TO-08. */
export const SAMPLES: readonly ChatAnswer[] = [
  answer({ content: null, tool_calls: [call('c', '{"a":1}')] }, calls),
  answer({ reasoning_content: 'R', content: 'T' }),
  answer({ reasoning_content: 'R', content: null, tool_calls: [call('c', '')] }, calls),
  answer({ content: 'Hi', tool_calls: [] }),
  answer({ content: '' }),
  answer({ reasoning_content: 'think <tool_call>{"name":"f"}</tool_call>', content: null, tool_calls: [] }),
  answer({ content: null }),
  answer({ reasoning_content: ' R\n', content: '\n\nT ' }),
  answer({ content: 'both', reasoning_content: 'R', tool_calls: [call('a', '{"x": 1.0}'), call('b', '{"y": []}')] }, calls),
  answer({ tool_calls: [call('a', '{"broken'), call('b', '[1]'), call('c', '7'), call('d', ' \n')] }, calls),
  answer({ tool_calls: [call('a', `{"s":"${'é😀"\\n'.replaceAll('"', '\\"').repeat(9_000)}"}`)] }, calls),
  answer({ content: '😀'.repeat(20_000) }, { finishReason: 'length' }),
  answer({ content: 'x' }, { finishReason: 'content_filter' }),
  answer({ content: 'until' }, { stopSequence: 'END' }),
]

export function replyForm(): ReplyForm {
  const read = anthropic.read(
    { model: 'claude-asked', max_tokens: 10, messages: [{ role: 'user', content: 'x' }], stop_sequences: ['END'] },
    { tier: 'eval', pins: {}, url: { model: null, form: null } },
  )
  if (!read.ok) throw new Error(read.failure.message)
  return read.reply
}

/** A whole body; with `isLate` the head left before the answer was there. */
export function streamed(sample: ChatAnswer, isLate = false): string {
  const stream = replyForm().stream(IDENTITY)
  return [...(isLate ? [stream.open(null), stream.beat()] : [stream.open(sample)]), ...stream.answer(sample)].join('')
}
