// Chat completions through the official openai SDK.
import OpenAI from 'openai'
import type { Ask, Tool } from '../scenarios.ts'
import type { Answer, Driver, Endpoint, Wish } from './driver.ts'
import { isOpenaiAbort, isOpenaiStatus, OPENAI_ERROR_WORDS, openaiErrorWord, openaiRetryAfter } from './openai-errors.ts'

export type ChatHistory = {
  readonly messages: readonly OpenAI.ChatCompletionMessageParam[]
  readonly tools: readonly OpenAI.ChatCompletionTool[]
  readonly maxTokens: number
}

export function chatClient(endpoint: Endpoint, wish: Pick<Wish, 'retries' | 'timeoutMs'> = {}): OpenAI {
  return new OpenAI({
    apiKey: endpoint.key,
    baseURL: `${endpoint.origin}${endpoint.basePath}/v1`,
    fetch: endpoint.fetch,
    maxRetries: wish.retries ?? 0,
    ...(wish.timeoutMs === undefined ? {} : { timeout: wish.timeoutMs }),
  })
}

export const chat: Driver<ChatHistory> = {
  dialect: 'openai-chat',
  finishes: { stop: 'stop', tool_calls: 'tool_calls', length: 'length' },
  signsReasoning: false,
  showsHeaders: true,
  lateFailure: 'thrown',
  begin: ({ system, text, image, tools, maxTokens }: Ask) => ({
    messages: [
      { role: 'system', content: system },
      {
        role: 'user',
        content:
          image === null
            ? text
            : [
                { type: 'text', text },
                { type: 'image_url', image_url: { url: `data:${image.mediaType};base64,${image.base64}` } },
              ],
      },
    ],
    tools: tools.map(({ name, description, schema }: Tool) => ({
      type: 'function',
      function: { name, description, parameters: { ...schema } },
    })),
    maxTokens,
  }),
  async send(endpoint, history, wish) {
    const body = chatBody(history)
    const options = wish.signal === undefined ? {} : { signal: wish.signal }
    const sdk = chatClient(endpoint, wish)
    let completion: OpenAI.ChatCompletion
    // The SDK's types know nothing of reasoning; its objects carry it.
    let reasoning = ''
    if (wish.form === 'stream') {
      const runner = sdk.chat.completions.stream({ ...body, stream_options: { include_usage: true } }, options)
      for await (const chunk of runner) {
        wish.onEvent?.()
        reasoning += reasoningOf(chunk.choices[0]?.delta)
      }
      completion = await runner.finalChatCompletion()
    } else {
      completion = await sdk.chat.completions.create(body, options)
      reasoning = reasoningOf(completion.choices[0]?.message)
    }
    const message = completion.choices[0]?.message
    if (message === undefined) throw new Error('the SDK gave no choice')
    return { answer: answerOf(completion, reasoning), history: { ...history, messages: [...history.messages, message] } }
  },
  async count(endpoint, history) {
    const counted: { readonly count: number } = await chatClient(endpoint).post('/tokenize', { body: chatBody(history) })
    return counted.count
  },
  toolContent: (output) => output,
  withResults: (history, results) => ({
    ...history,
    messages: [
      ...history.messages,
      ...results.map(({ call, output }) => ({ role: 'tool' as const, tool_call_id: call.id, content: output })),
    ],
  }),
  withUser: (history, text) => ({ ...history, messages: [...history.messages, { role: 'user', content: text }] }),
  isStatusError: isOpenaiStatus,
  isAbort: isOpenaiAbort,
  retryAfter: openaiRetryAfter,
  errorWord: openaiErrorWord,
  errorWords: OPENAI_ERROR_WORDS,
}

function chatBody(history: ChatHistory) {
  return {
    model: 'gpt-any',
    messages: [...history.messages],
    max_completion_tokens: history.maxTokens,
    ...(history.tools.length === 0 ? {} : { tools: [...history.tools] }),
  }
}

function answerOf(completion: OpenAI.ChatCompletion, reasoning: string): Answer {
  const [choice] = completion.choices
  return {
    text: choice?.message.content ?? '',
    reasoning,
    signature: null,
    calls: (choice?.message.tool_calls ?? []).map((call) => {
      if (call.type !== 'function') throw new Error(`the SDK gave a call of type ${call.type}`)
      const { name, arguments: text } = call.function
      return { id: call.id, name, arguments: JSON.parse(text), argumentText: text }
    }),
    finish: choice?.finish_reason ?? null,
    usage: {
      input: completion.usage?.prompt_tokens,
      output: completion.usage?.completion_tokens,
      total: completion.usage?.total_tokens ?? null,
    },
  }
}

function reasoningOf(message: object | undefined): string {
  return message !== undefined && 'reasoning_content' in message && typeof message.reasoning_content === 'string'
    ? message.reasoning_content
    : ''
}
