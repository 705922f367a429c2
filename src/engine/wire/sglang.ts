// SGLang's wire shape: chat completions with ids and meta_info on each choice, chunks without ids, flat errors.
import type { ChatRequest } from './chat-request.ts'
import type { AnswerDelta } from './deltas.ts'
import { completionTokens, finishReasonOf, type GeneratedChoice, type Generation, logprobContent, textOf } from './generation.ts'
import type { Complaint, StreamWriter, WireShape } from './shape.ts'

export const sglang: WireShape = {
  defaultLogprobMode: 'processed',
  toolCallPrefix: 'call_',
  defaultSampling: { temperature: 1, topP: 1, topK: 0, minP: 0 },
  defaultTopLogprobs: 0,
  refusesBudget: true,
  complaint,
  tooLong: ({ limit, prompt, output }) => ({
    status: 400,
    message: `Requested token count exceeds the model's maximum context length of ${limit} tokens. You requested a total of ${prompt + output} tokens: ${prompt} tokens from the input messages and ${output} tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.`,
    param: null,
  }),
  error: ({ status, message, param }) => ({ object: 'error', message, type: errorType(status), param, code: status }),
  completion,
  stream,
}

const BECOMES_TOOL_CALLS = ['stop'] as const

/** A stream may not be asked for ids, which only plain answers carry. The model's name is not looked at. */
function complaint(request: ChatRequest): Complaint | null {
  if (request.stream !== true) return null
  const asked = (['return_token_ids', 'return_prompt_token_ids', 'return_meta_info'] as const).filter((field) => request[field] === true)
  if (asked.length === 0) return null
  return { status: 400, message: `${asked.join(', ')} is not supported with stream=true. Please set stream=false.`, param: null }
}

function errorType(status: number): string {
  if (status === 404) return 'NotFoundError'
  return status < 500 ? 'BadRequestError' : 'InternalServerError'
}

function completion(generation: Generation, request: ChatRequest): object {
  const asksPrompt = request.return_prompt_token_ids === true || request.return_token_ids === true
  return {
    id: generation.id,
    object: 'chat.completion',
    created: generation.createdSeconds,
    model: generation.model,
    choices: generation.choices.map((choice) => ({
      index: choice.index,
      message: messageOf(choice),
      logprobs: request.logprobs === true ? { content: logprobContent(choice, { from: 0, to: choice.tokens.length }, 'text') } : null,
      finish_reason: finishReasonOf(choice, BECOMES_TOOL_CALLS),
      matched_stop: matchedStop(choice),
      ...(asksPrompt && generation.showsPromptIds ? { prompt_token_ids: generation.promptIds } : {}),
      ...(request.return_token_ids === true && choice.showsIds ? { token_ids: choice.tokens.map((token) => token.id) } : {}),
      ...(request.return_meta_info === true ? { meta_info: metaInfo(generation, choice, metaWishes(request)) } : {}),
    })),
    usage: usageOf(generation),
    metadata: { weight_version: generation.weightVersion },
  }
}

function stream(request: ChatRequest): StreamWriter {
  const base = (generation: Generation) => ({
    id: generation.id,
    object: 'chat.completion.chunk',
    created: generation.createdSeconds,
    model: generation.model,
  })
  return {
    saysDone: true,
    opening: (generation) =>
      generation.choices.map((choice) => {
        const delta = { role: 'assistant', content: '' }
        const opening = { index: choice.index, delta, logprobs: null, finish_reason: null, matched_stop: null }
        return { ...base(generation), choices: [opening], usage: null }
      }),
    delta(generation, choice, delta) {
      const entry = {
        index: choice.index,
        delta: deltaMessage(delta),
        logprobs: request.logprobs === true ? { content: logprobContent(choice, delta, 'text') } : null,
        finish_reason: delta.isLast ? finishReasonOf(choice, BECOMES_TOOL_CALLS) : null,
        matched_stop: delta.isLast ? matchedStop(choice) : null,
      }
      return [{ ...base(generation), choices: [entry], usage: null }]
    },
    closing: (generation) =>
      request.stream_options?.include_usage === true ? [{ ...base(generation), choices: [], usage: usageOf(generation) }] : [],
  }
}

function deltaMessage(delta: AnswerDelta): object {
  return {
    role: null,
    content: delta.content === '' ? null : delta.content,
    reasoning_content: delta.reasoning === '' ? null : delta.reasoning,
    tool_calls: delta.toolCalls.length === 0 ? null : delta.toolCalls,
  }
}

function messageOf(choice: GeneratedChoice): object {
  const calls = choice.parts.filter((part) => part.kind === 'tool-call')
  return {
    role: 'assistant',
    content: textOf(choice.parts, 'content'),
    reasoning_content: textOf(choice.parts, 'reasoning'),
    tool_calls:
      calls.length === 0
        ? null
        : calls.map((call, index) => ({
            id: choice.toolCallIds[index],
            index,
            type: 'function',
            function: { name: call.name, arguments: call.arguments },
          })),
  }
}

export type MetaWishes = {
  readonly logprobs: boolean
  /** Alternatives at each position; 0 leaves their list out. */
  readonly topLogprobs: number
  readonly texts: boolean
}

function metaWishes(request: ChatRequest): MetaWishes {
  return { logprobs: request.logprobs === true, topLogprobs: request.top_logprobs ?? 0, texts: false }
}

/** The whole meta_info of SGLang's native API. Logprob entries are `[logprob, id, text]`, without text unless asked. */
export function metaInfo(generation: Generation, choice: GeneratedChoice, wishes: MetaWishes): object {
  const hasLogprobs = wishes.logprobs && choice.showsIds
  const entry = (logprob: number | null, id: number | null, text: string) => [logprob, id, wishes.texts ? text : null]
  return {
    id: generation.id,
    finish_reason: metaFinish(choice),
    prompt_tokens: generation.promptIds.length,
    weight_version: generation.weightVersion,
    num_retractions: 0,
    completion_tokens: choice.tokens.length,
    cached_tokens: generation.cachedTokens ?? 0,
    e2e_latency: generation.latencySeconds,
    ...(hasLogprobs
      ? {
          input_token_logprobs: [],
          output_token_logprobs: choice.logprobs.map((logprob, position) => {
            const token = choice.tokens[position]
            return entry(logprob, token?.id ?? null, token?.text ?? '')
          }),
          output_token_logprobs_length: choice.logprobs.length,
          ...(wishes.topLogprobs === 0
            ? {}
            : {
                output_top_logprobs: choice.alternatives.map((alternatives) =>
                  [...alternatives].sort((a, b) => b.logprob - a.logprob).map(({ id, text, logprob }) => entry(logprob, id, text)),
                ),
              }),
        }
      : {}),
  }
}

function metaFinish(choice: GeneratedChoice): object | null {
  switch (choice.finish) {
    case 'stop':
      return { type: 'stop', matched: matchedStop(choice) }
    case 'length':
      return { type: 'length', length: choice.tokens.length }
    case 'abort':
      return { type: 'abort', message: 'Aborted' }
    case null:
      return null
  }
}

/** A model may have several end tokens: the one that was sampled. */
function matchedStop({ finish, matchedStop: matched, tokens }: GeneratedChoice): string | number | null {
  return finish === 'stop' ? (matched ?? tokens.at(-1)?.id ?? null) : null
}

function usageOf(generation: Generation): object {
  const sampled = completionTokens(generation)
  return {
    prompt_tokens: generation.promptIds.length,
    total_tokens: generation.promptIds.length + sampled,
    completion_tokens: sampled,
    prompt_tokens_details: generation.cachedTokens === null ? null : { cached_tokens: generation.cachedTokens },
    reasoning_tokens: 0,
  }
}
