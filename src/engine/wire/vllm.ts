// vLLM's wire shape: chat completions, chunks and errors as its OpenAI server writes them.
import type { ChatRequest } from './chat-request.ts'
import type { AnswerDelta } from './deltas.ts'
import { completionTokens, finishReasonOf, type GeneratedChoice, type Generation, logprobContent, textOf } from './generation.ts'
import type { Complaint, StreamWriter, WireShape } from './shape.ts'

export const vllm: WireShape = {
  defaultLogprobMode: 'raw',
  toolCallPrefix: 'chatcmpl-tool-',
  defaultSampling: { temperature: 1, topP: 1, topK: 0, minP: 0 },
  defaultTopLogprobs: 0,
  refusesBudget: true,
  complaint,
  tooLong,
  error: ({ status, message, param }) => ({ error: { message, type: errorType(status), param, code: status } }),
  completion,
  stream,
}

/** vLLM says `tool_calls` whenever its parser found some, also at the length limit. */
const BECOMES_TOOL_CALLS = ['stop', 'length'] as const

const bad = (message: string, param: string): Complaint => ({ status: 400, message, param })

/** It reads a prompt only as far as it may reach, and one token more: what it then calls the prompt's length says nothing of the rest. */
function tooLong({ limit, output }: { readonly limit: number; readonly output: number }): Complaint {
  if (output > limit)
    return bad(
      `max_tokens=${output} cannot be greater than max_model_len=max_total_tokens=${limit}. Please request fewer output tokens.`,
      'max_tokens',
    )
  const room = limit - output
  return bad(
    `You passed ${room + 1} input tokens and requested ${output} output tokens. However, the model's context length is only ${limit} tokens, resulting in a maximum input length of ${room} tokens. Please reduce the length of the input prompt.`,
    'input_tokens',
  )
}

function complaint(request: ChatRequest, model: string): Complaint | null {
  if (request.model !== undefined && request.model !== null && request.model !== model) {
    return { status: 404, message: `The model \`${request.model}\` does not exist.`, param: 'model' }
  }
  if (request.stream_options && request.stream !== true)
    return bad('Stream options can only be defined when `stream=True`.', 'stream_options')
  if (request.tools?.length === 0)
    return bad('`tools` must not be an empty array. Either provide at least one tool or omit the field.', 'tools')
  if (request.top_logprobs && request.logprobs !== true)
    return bad('when using `top_logprobs`, `logprobs` must be set to true.', 'top_logprobs')
  if (request.tool_choice && request.tool_choice !== 'none' && !request.tools)
    return bad('When using `tool_choice`, `tools` must be set.', 'tool_choice')
  return null
}

function completion(generation: Generation, request: ChatRequest): object {
  const showsIds = request.return_token_ids === true
  return {
    id: generation.id,
    object: 'chat.completion',
    created: generation.createdSeconds,
    model: generation.model,
    choices: generation.choices.map((choice) => ({
      index: choice.index,
      message: messageOf(choice),
      logprobs: logprobsOf(choice, request, { from: 0, to: choice.tokens.length }),
      finish_reason: finishReasonOf(choice, BECOMES_TOOL_CALLS),
      stop_reason: choice.matchedStop,
      token_ids: showsIds && choice.showsIds ? choice.tokens.map((token) => token.id) : null,
    })),
    service_tier: null,
    system_fingerprint: null,
    usage: usageOf(generation),
    prompt_logprobs: null,
    prompt_token_ids: showsIds && generation.showsPromptIds ? generation.promptIds : null,
    kv_transfer_params: null,
  }
}

/** Prompt ids come with the first chunk only; sampled ids as deltas that add up to the whole. */
function stream(request: ChatRequest): StreamWriter {
  const base = (generation: Generation) => ({
    id: generation.id,
    object: 'chat.completion.chunk',
    created: generation.createdSeconds,
    model: generation.model,
  })
  const showsIds = request.return_token_ids === true
  return {
    saysDone: true,
    opening(generation) {
      const choices = generation.choices.map((choice) => ({
        index: choice.index,
        delta: { role: 'assistant', content: '' },
        logprobs: null,
        finish_reason: null,
        ...(showsIds ? { token_ids: null } : {}),
      }))
      const promptIds = showsIds && generation.showsPromptIds ? { prompt_token_ids: generation.promptIds } : {}
      return [{ ...base(generation), choices, ...promptIds }]
    },
    delta: (generation, choice, delta) => [{ ...base(generation), choices: [chunkChoice(choice, delta, request)] }],
    closing: (generation) =>
      request.stream_options?.include_usage === true ? [{ ...base(generation), choices: [], usage: usageOf(generation) }] : [],
  }
}

function chunkChoice(choice: GeneratedChoice, delta: AnswerDelta, request: ChatRequest): object {
  const ids = choice.tokens.slice(delta.from, delta.to).map((token) => token.id)
  return {
    index: choice.index,
    delta: {
      ...(delta.reasoning === '' ? {} : { reasoning: delta.reasoning }),
      ...(delta.content === '' ? {} : { content: delta.content }),
      ...(delta.toolCalls.length === 0 ? {} : { tool_calls: delta.toolCalls }),
    },
    logprobs: logprobsOf(choice, request, delta),
    finish_reason: delta.isLast ? finishReasonOf(choice, BECOMES_TOOL_CALLS) : null,
    ...(delta.isLast ? { stop_reason: choice.matchedStop } : {}),
    ...(request.return_token_ids === true && choice.showsIds ? { token_ids: ids } : {}),
  }
}

function messageOf(choice: GeneratedChoice): object {
  const calls = choice.parts.filter((part) => part.kind === 'tool-call')
  return {
    role: 'assistant',
    content: textOf(choice.parts, 'content'),
    refusal: null,
    annotations: null,
    audio: null,
    function_call: null,
    tool_calls: calls.map((call, position) => ({
      id: choice.toolCallIds[position],
      type: 'function',
      function: { name: call.name, arguments: call.arguments },
    })),
    reasoning: textOf(choice.parts, 'reasoning'),
  }
}

function logprobsOf(choice: GeneratedChoice, request: ChatRequest, range: { readonly from: number; readonly to: number }): object | null {
  if (request.logprobs !== true) return null
  return { content: logprobContent(choice, range, request.return_tokens_as_token_ids === true ? 'id' : 'text') }
}

export function usageOf(generation: Generation): object {
  const sampled = completionTokens(generation)
  return {
    prompt_tokens: generation.promptIds.length,
    total_tokens: generation.promptIds.length + sampled,
    completion_tokens: sampled,
    prompt_tokens_details: generation.cachedTokens === null ? null : { cached_tokens: generation.cachedTokens },
  }
}

function errorType(status: number): string {
  switch (status) {
    case 404:
      return 'NotFoundError'
    case 429:
      return 'RateLimitError'
    case 500:
      return 'InternalServerError'
    case 503:
      return 'ServiceUnavailableError'
    default:
      return 'BadRequestError'
  }
}
