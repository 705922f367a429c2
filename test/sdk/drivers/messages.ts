// Anthropic Messages through the official SDK.
import Anthropic from '@anthropic-ai/sdk'
import type { Ask, Tool } from '../scenarios.ts'
import type { Answer, Driver, Endpoint, Wish } from './driver.ts'

export type MessagesHistory = {
  readonly system: string
  readonly messages: readonly Anthropic.MessageParam[]
  readonly tools: readonly Anthropic.Tool[]
  readonly thinks: boolean
  readonly maxTokens: number
}

export function anthropicClient(endpoint: Endpoint, wish: Pick<Wish, 'retries' | 'timeoutMs'> = {}): Anthropic {
  return new Anthropic({
    apiKey: endpoint.key,
    baseURL: `${endpoint.origin}${endpoint.basePath}`,
    fetch: endpoint.fetch,
    maxRetries: wish.retries ?? 0,
    ...(wish.timeoutMs === undefined ? {} : { timeout: wish.timeoutMs }),
  })
}

const CLASSES: { readonly [status: number]: new (...parameters: never) => InstanceType<typeof Anthropic.APIError> } = {
  400: Anthropic.BadRequestError,
  401: Anthropic.AuthenticationError,
  403: Anthropic.PermissionDeniedError,
  404: Anthropic.NotFoundError,
  429: Anthropic.RateLimitError,
  500: Anthropic.InternalServerError,
  503: Anthropic.InternalServerError,
}

export const messages: Driver<MessagesHistory> = {
  dialect: 'anthropic',
  finishes: { stop: 'end_turn', tool_calls: 'tool_use', length: 'max_tokens' },
  signsReasoning: true,
  showsHeaders: true,
  lateFailure: 'thrown',
  begin: ({ system, text, image, tools, thinks, maxTokens }: Ask) => ({
    system,
    messages: [
      {
        role: 'user',
        content:
          image === null
            ? text
            : [
                { type: 'text', text },
                { type: 'image', source: { type: 'base64', media_type: image.mediaType, data: image.base64 } },
              ],
      },
    ],
    tools: tools.map(({ name, description, schema }: Tool) => ({ name, description, input_schema: { type: 'object', ...schema } })),
    thinks,
    maxTokens,
  }),
  async send(endpoint, history, wish) {
    const body = messagesBody(history)
    const options = wish.signal === undefined ? {} : { signal: wish.signal }
    const sdk = anthropicClient(endpoint, wish)
    let message: Anthropic.Message
    /** By block: the text of a call's arguments exists on the wire of a stream only. */
    const argumentTexts = new Map<number, string>()
    if (wish.form === 'stream') {
      const runner = sdk.messages.stream(body, options)
      for await (const event of runner) {
        wish.onEvent?.()
        if (event.type === 'content_block_delta' && event.delta.type === 'input_json_delta')
          argumentTexts.set(event.index, (argumentTexts.get(event.index) ?? '') + event.delta.partial_json)
      }
      message = await runner.finalMessage()
    } else {
      message = await sdk.messages.create(body, options)
    }
    const turn: Anthropic.MessageParam = { role: 'assistant', content: message.content }
    return { answer: answerOf(message, argumentTexts), history: { ...history, messages: [...history.messages, turn] } }
  },
  async count(endpoint, history) {
    const { max_tokens: _limit, ...body } = messagesBody(history)
    return (await anthropicClient(endpoint).messages.countTokens(body)).input_tokens
  },
  toolContent: (output) => output,
  withResults: (history, results) => ({
    ...history,
    messages: [
      ...history.messages,
      { role: 'user', content: results.map(({ call, output }) => ({ type: 'tool_result', tool_use_id: call.id, content: output })) },
    ],
  }),
  withUser: (history, text) => ({ ...history, messages: [...history.messages, { role: 'user', content: text }] }),
  isStatusError: (error, status) => error instanceof (CLASSES[status] ?? Anthropic.APIError) && error.status === status,
  isAbort: (error) => error instanceof Anthropic.APIUserAbortError,
  errorWords: {
    400: 'invalid_request_error',
    401: 'authentication_error',
    403: 'permission_error',
    404: 'not_found_error',
    413: 'request_too_large',
    415: 'invalid_request_error',
    429: 'rate_limit_error',
  },
  errorWord: (error) => (error instanceof Anthropic.APIError ? error.type : null),
  retryAfter: (error) => (error instanceof Anthropic.APIError ? (error.headers?.get('retry-after') ?? null) : null),
}

function messagesBody(history: MessagesHistory) {
  return {
    model: 'claude-any',
    max_tokens: history.maxTokens,
    system: history.system,
    messages: [...history.messages],
    ...(history.tools.length === 0 ? {} : { tools: [...history.tools] }),
    ...(history.thinks ? { thinking: { type: 'enabled' as const, budget_tokens: 1_024 } } : {}),
  }
}

function answerOf(message: Anthropic.Message, argumentTexts: ReadonlyMap<number, string>): Answer {
  const { content, usage } = message
  const thinking = content.filter((block) => block.type === 'thinking')
  const input = usage.input_tokens + (usage.cache_read_input_tokens ?? 0)
  return {
    text: content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
    reasoning: thinking.map((block) => block.thinking).join(''),
    signature: thinking[0]?.signature ?? null,
    calls: content.flatMap((block, index) =>
      block.type === 'tool_use'
        ? [{ id: block.id, name: block.name, arguments: block.input, argumentText: argumentTexts.get(index) ?? null }]
        : [],
    ),
    finish: message.stop_reason,
    usage: { input, output: usage.output_tokens, total: null },
  }
}
