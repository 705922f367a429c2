// The Responses API through the official openai SDK.
import type OpenAI from 'openai'
import type { Ask, Tool } from '../scenarios.ts'
import { chatClient } from './chat.ts'
import type { Answer, Driver } from './driver.ts'
import { isOpenaiAbort, isOpenaiStatus, OPENAI_ERROR_WORDS, openaiErrorWord, openaiRetryAfter } from './openai-errors.ts'

type Item = OpenAI.Responses.ResponseInputItem

export type ResponsesHistory = {
  readonly instructions: string
  readonly input: readonly Item[]
  readonly tools: readonly OpenAI.Responses.FunctionTool[]
  readonly thinks: boolean
  readonly maxTokens: number
}

export const responses: Driver<ResponsesHistory> = {
  dialect: 'openai-responses',
  finishes: { stop: 'completed', tool_calls: 'completed', length: 'incomplete: max_output_tokens' },
  signsReasoning: true,
  showsHeaders: true,
  lateFailure: 'in the answer',
  begin: ({ system, text, image, tools, thinks, maxTokens }: Ask) => ({
    instructions: system,
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text },
          ...(image === null
            ? []
            : [{ type: 'input_image' as const, detail: 'auto' as const, image_url: `data:${image.mediaType};base64,${image.base64}` }]),
        ],
      },
    ],
    tools: tools.map(({ name, description, schema }: Tool) => ({
      type: 'function',
      name,
      description,
      parameters: { ...schema },
      strict: false,
    })),
    thinks,
    maxTokens,
  }),
  async send(endpoint, history, wish) {
    const body = responsesBody(history)
    const options = wish.signal === undefined ? {} : { signal: wish.signal }
    const sdk = chatClient(endpoint, wish)
    let response: OpenAI.Responses.Response
    if (wish.form === 'stream') {
      const runner = sdk.responses.stream(body, options)
      for await (const _event of runner) wish.onEvent?.()
      response = await runner.finalResponse()
    } else {
      response = await sdk.responses.create(body, options)
    }
    // Output items are what the API takes back as input.
    const items: readonly Item[] = response.output as readonly Item[]
    return { answer: readResponse(response), history: { ...history, input: [...history.input, ...items] } }
  },
  async count(endpoint, history) {
    const { model, instructions, input, tools, reasoning } = responsesBody(history)
    const counted = await chatClient(endpoint).responses.inputTokens.count({
      model,
      instructions,
      input,
      ...(tools === undefined ? {} : { tools }),
      ...(reasoning === undefined ? {} : { reasoning }),
    })
    return counted.input_tokens
  },
  toolContent: (output) => output,
  withResults: (history, results) => ({
    ...history,
    input: [...history.input, ...results.map(({ call, output }) => ({ type: 'function_call_output' as const, call_id: call.id, output }))],
  }),
  withUser: (history, text) => ({ ...history, input: [...history.input, { role: 'user', content: text }] }),
  isStatusError: isOpenaiStatus,
  isAbort: isOpenaiAbort,
  retryAfter: openaiRetryAfter,
  errorWord: openaiErrorWord,
  errorWords: OPENAI_ERROR_WORDS,
}

function responsesBody(history: ResponsesHistory) {
  return {
    model: 'gpt-any',
    instructions: history.instructions,
    input: [...history.input],
    store: false,
    max_output_tokens: history.maxTokens,
    ...(history.tools.length === 0 ? {} : { tools: [...history.tools] }),
    ...(history.thinks ? { reasoning: { effort: 'medium' as const }, include: ['reasoning.encrypted_content' as const] } : {}),
  }
}

export function readResponse(response: OpenAI.Responses.Response): Answer {
  const reasoning = response.output.filter((item) => item.type === 'reasoning')
  const texts = reasoning.map(({ content, summary }) => {
    const parts = content !== undefined && content.length > 0 ? content : summary
    return parts.map((part) => part.text).join('')
  })
  return {
    text: response.output
      .filter((item) => item.type === 'message')
      .flatMap((item) => item.content.map((part) => (part.type === 'output_text' ? part.text : '')))
      .join(''),
    reasoning: texts.join(''),
    signature: reasoning[0]?.encrypted_content ?? null,
    calls: response.output
      .filter((item) => item.type === 'function_call')
      .map((item) => ({ id: item.call_id, name: item.name, arguments: JSON.parse(item.arguments), argumentText: item.arguments })),
    finish: [response.status, response.incomplete_details?.reason].filter((word) => word !== undefined && word !== null).join(': '),
    usage: {
      input: response.usage?.input_tokens,
      output: response.usage?.output_tokens,
      total: response.usage?.total_tokens ?? null,
    },
  }
}
