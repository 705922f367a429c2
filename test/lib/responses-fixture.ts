// OpenAI Responses for tests: requests that are read, answers that are told, and streams that are taken apart.
import type { AssistantMessage, ChatAnswer, ChatMessage, NormalisedCall, ToolCall } from '../../src/proxy/chat.ts'
import type { ReplyForm } from '../../src/proxy/dialects/dialect.ts'
import { openaiResponses } from '../../src/proxy/dialects/openai-responses/dialect.ts'
import type { Failure } from '../../src/proxy/failure.ts'
import type { JsonObject } from '../../src/proxy/json.ts'

export const CALL = '0123456789abcdef0123456789abcdef'
export const OTHER_CALL = 'fedcba9876543210fedcba9876543210'
export const IDENTITY = { id: CALL, createdSeconds: 1_700_000_000, model: 'gpt-asked' }

export function read(body: JsonObject, tier: 'train' | 'eval' = 'eval'): ReturnType<typeof openaiResponses.read> {
  return openaiResponses.read({ model: 'gpt-asked', input: 'hi', ...body }, { tier, pins: {}, url: { model: null, form: null } })
}

export function accepted(body: JsonObject, tier: 'train' | 'eval' = 'eval'): NormalisedCall {
  const result = read(body, tier)
  if (!result.ok) throw new Error(result.failure.message)
  return result.call
}

export function refused(body: JsonObject, tier: 'train' | 'eval' = 'eval'): Failure {
  const result = read(body, tier)
  if (result.ok) throw new Error(`accepted: ${JSON.stringify(result.call.request)}`)
  return result.failure
}

export function messagesOf(input: unknown, rest: JsonObject = {}): readonly ChatMessage[] {
  return accepted({ input, ...rest }).request.messages
}

export function formOf(body: JsonObject = {}): ReplyForm {
  const result = read(body)
  if (!result.ok) throw new Error(result.failure.message)
  return result.reply
}

export const call = (id: string, argumentsText: string, name = 'f'): ToolCall => ({
  id,
  type: 'function',
  function: { name, arguments: argumentsText },
})

export const said = (rest: Partial<AssistantMessage>): AssistantMessage => ({ role: 'assistant', content: null, ...rest })

export const answer = (message: Partial<ChatAnswer['message']>, rest: Partial<ChatAnswer> = {}): ChatAnswer => ({
  message: { role: 'assistant', content: null, ...message },
  finishReason: message.tool_calls === undefined ? 'stop' : 'tool_calls',
  usage: { promptTokens: 10, completionTokens: 4, cachedTokens: 6, reasoningTokens: 2 },
  stopSequence: null,
  logprobs: null,
  ...rest,
})

/** Tools of every kind that comes back in a form of its own. */
export const TOOLS = [
  { type: 'function', name: 'f', parameters: { type: 'object' } },
  {
    type: 'custom',
    name: 'apply_patch',
    description: 'edit files',
    format: { type: 'grammar', syntax: 'lark', definition: 'start: /.+/s' },
  },
  {
    type: 'namespace',
    name: 'mcp__files__',
    description: 'Files.',
    tools: [
      { type: 'function', name: 'status', parameters: { type: 'object', properties: {} } },
      { type: 'custom', name: 'write' },
    ],
  },
  { type: 'shell' },
  { type: 'local_shell' },
  { type: 'tool_search', execution: 'client', description: 'finds tools', parameters: { type: 'object' } },
] as const

export const SAMPLES: readonly ChatAnswer[] = [
  answer({ content: 'T' }),
  answer({ content: '' }),
  answer({ content: null }),
  answer({ reasoning_content: ' R\n', content: '\n\nT ' }),
  answer({ reasoning_content: 'R', content: null }),
  answer({ tool_calls: [call('a', '{"x": 1.0}'), call('b', '')] }),
  answer({ reasoning_content: 'R', content: 'both', tool_calls: [call('a', `{"s":"${'é😀'.repeat(9_000)}"}`)] }),
  answer({ content: '😀'.repeat(20_000) }, { finishReason: 'length' }),
  answer({ content: 'half', tool_calls: [call('a', '{}'), call('b', '{"x": ')] }, { finishReason: 'length' }),
  answer({ content: 'x' }, { finishReason: 'content_filter' }),
  answer({ content: 'x' }, { usage: { promptTokens: 1, completionTokens: 2, cachedTokens: null, reasoningTokens: null } }),
  answer({
    tool_calls: [
      call('a', '{"input": "*** Begin Patch\\n"}', 'apply_patch'),
      call('b', '{"q": 1}', 'mcp__files____status'),
      call('c', 'bare', 'mcp__files____write'),
      call('d', '{"commands":["ls"],"timeout_ms":5}', 'shell'),
      call('e', '{"command":["ls","-l"]}', 'local_shell'),
      call('g', '{"query":"mail"}', 'tool_search'),
      call('h', '{}', 'undeclared'),
    ],
  }),
]

export type StreamEvent = { readonly type: string; readonly sequence_number: number; readonly [field: string]: unknown }

/** Takes frames apart as a client does: an `event:` line that agrees with the type in the data, one blank line between frames. */
export function eventsOf(frames: Iterable<string>): readonly StreamEvent[] {
  return [...frames]
    .join('')
    .split('\n\n')
    .slice(0, -1)
    .map((frame) => {
      const [, name, data] = /^event: (.+)\ndata: (.+)$/.exec(frame) ?? []
      const event: StreamEvent = JSON.parse(data ?? 'null')
      if (event.type !== name) throw new Error(`event line ${name} before ${event.type}`)
      return event
    })
}

export function streamOf(sample: ChatAnswer, form: ReplyForm = formOf({ tools: TOOLS })): readonly StreamEvent[] {
  const stream = form.stream(IDENTITY)
  return eventsOf([stream.open(null), stream.beat(), ...stream.answer(sample)])
}
