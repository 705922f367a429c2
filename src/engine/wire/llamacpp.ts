// llama.cpp's wire shape: chat completions, whose only token ids stand in the logprobs, and errors.
import type { ChatRequest } from './chat-request.ts'
import type { AnswerDelta } from './deltas.ts'
import { completionTokens, finishReasonOf, type GeneratedChoice, type Generation, textOf } from './generation.ts'
import { probabilities } from './llamacpp-completion.ts'
import type { StreamWriter, WireShape } from './shape.ts'

export const llamacpp: WireShape = {
  defaultLogprobMode: 'raw',
  toolCallPrefix: '',
  defaultSampling: { temperature: 0.8, topP: 0.95, topK: 40, minP: 0.05 },
  defaultTopLogprobs: 20,
  refusesBudget: false,
  complaint: (request) =>
    request.top_logprobs !== undefined && request.top_logprobs !== null && request.logprobs !== true
      ? { status: 400, message: 'top_logprobs requires logprobs to be set to true', param: null }
      : null,
  tooLong: ({ limit, prompt }) => ({
    status: 400,
    message: `request (${prompt} tokens) exceeds the available context size (${limit} tokens), try increasing it`,
    param: 'prompt',
    kind: { type: 'exceed_context_size_error', n_prompt_tokens: prompt, n_ctx: limit },
  }),
  error: ({ status, message, kind }) => ({ error: { code: status, message, type: errorType(status), ...kind } }),
  completion,
  stream,
}

const BECOMES_TOOL_CALLS = ['stop'] as const

function completion(generation: Generation, request: ChatRequest): object {
  return {
    choices: generation.choices.map((choice) => ({
      finish_reason: finishReasonOf(choice, BECOMES_TOOL_CALLS),
      index: choice.index,
      message: messageOf(choice),
      ...logprobsOf(choice, request),
    })),
    created: generation.createdSeconds,
    model: generation.model,
    system_fingerprint: 'polar-node',
    object: 'chat.completion',
    usage: usageOf(generation),
    id: generation.id,
  }
}

function logprobsOf(choice: GeneratedChoice, request: ChatRequest): object {
  // No alternatives asked for is no logprobs at all.
  if (request.logprobs !== true || request.top_logprobs === 0) return {}
  return { logprobs: { content: probabilities(choice) } }
}

/** The reason of an end comes in a chunk of its own. */
function stream(request: ChatRequest): StreamWriter {
  const base = (generation: Generation) => ({
    created: generation.createdSeconds,
    id: generation.id,
    model: generation.model,
    object: 'chat.completion.chunk',
  })
  return {
    saysDone: true,
    opening: () => [],
    delta(generation, choice, delta) {
      const entry = { finish_reason: null, index: choice.index, delta: deltaMessage(delta) }
      const grown = { ...base(generation), choices: [entry] }
      if (!delta.isLast) return [grown]
      const closing = { finish_reason: finishReasonOf(choice, BECOMES_TOOL_CALLS), index: choice.index, delta: {} }
      return [grown, { ...base(generation), choices: [closing] }]
    },
    closing: (generation) =>
      request.stream_options?.include_usage === true ? [{ ...base(generation), choices: [], usage: usageOf(generation) }] : [],
  }
}

function deltaMessage(delta: AnswerDelta): object {
  return {
    ...(delta.reasoning === '' ? {} : { reasoning_content: delta.reasoning }),
    ...(delta.content === '' ? {} : { content: delta.content }),
    ...(delta.toolCalls.length === 0 ? {} : { tool_calls: delta.toolCalls }),
  }
}

function messageOf(choice: GeneratedChoice): object {
  const calls = choice.parts.filter((part) => part.kind === 'tool-call')
  const reasoning = textOf(choice.parts, 'reasoning')
  return {
    role: 'assistant',
    content: textOf(choice.parts, 'content') ?? (calls.length === 0 ? '' : null),
    ...(reasoning === null ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map((call, position) => ({
            type: 'function',
            function: { name: call.name, arguments: call.arguments },
            id: choice.toolCallIds[position],
          })),
        }),
  }
}

function usageOf(generation: Generation): object {
  const sampled = completionTokens(generation)
  return {
    completion_tokens: sampled,
    prompt_tokens: generation.promptIds.length,
    total_tokens: generation.promptIds.length + sampled,
    prompt_tokens_details: { cached_tokens: generation.cachedTokens ?? 0 },
  }
}

function errorType(status: number): string {
  switch (status) {
    case 404:
      return 'not_found_error'
    case 503:
      return 'unavailable_error'
    default:
      return status < 500 ? 'invalid_request_error' : 'server_error'
  }
}
