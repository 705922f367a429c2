// OpenAI chat completions → the pivot: what is kept, what is dropped with a note, what is refused in the caller's terms.
import type { Diagnostic } from '../../../contract/call.ts'
import { type NormalisedCall, orphanedResult } from '../../chat.ts'
import { isObject, type JsonObject } from '../../json.ts'
import { note, noteDropped } from '../../notes.ts'
import { PARAMETER_NAMES, readParameters } from '../../parameters.ts'
import type { ReadContext, ReadRequest } from '../dialect.ts'
import { isAbsent, modelName, object, optionalBoolean, optionalBudget, orRefuse, reading, refuse } from '../reading.ts'
import { readEffort, thinkingSwitch } from '../thinking.ts'
import { readMessages } from './history.ts'
import type { ChatWishes } from './response.ts'
import { readToolChoice, readTools } from './tools.ts'

/** Known here, and either used or without meaning for a local engine: dropped without a word. */
const KNOWN = new Set([
  ...(
    'model messages tools tool_choice parallel_tool_calls stream stream_options n max_completion_tokens logprobs top_logprobs ' +
    'user store metadata reasoning service_tier prompt_cache_key prompt_cache_retention safety_identifier'
  ).split(' '),
  ...PARAMETER_NAMES,
])

/** Of the field `reasoning`. */
const EFFORT = new Set(['effort'])

export function readChat(body: JsonObject, context: ReadContext): ReadRequest<ChatWishes> {
  return reading(() => {
    const read = normalise(body, context)
    const orphan = orphanedResult(read.call.request.messages)
    if (orphan !== null) refuse('messages', `a tool message names ${JSON.stringify(orphan)}, which no tool call before it has as id`)
    return read
  })
}

/** All but that every result must have its call. */
export function normalise(body: JsonObject, { tier, pins }: ReadContext): { readonly call: NormalisedCall; readonly wishes: ChatWishes } {
  const diagnostics: Diagnostic[] = []
  if (!isAbsent(body.n) && body.n !== 1) refuse('n', 'only one choice per request can be served')
  for (const legacy of ['functions', 'function_call']) {
    if (!isAbsent(body[legacy])) refuse(legacy, 'is the retired form; use tools and tool_choice')
  }
  const stream = optionalBoolean(body, 'stream') ?? false
  const tools = readTools(body.tools, tier, diagnostics)
  const maxTokens = optionalBudget(body.max_tokens, 'max_tokens') ?? optionalBudget(body.max_completion_tokens, 'max_completion_tokens')
  const source = { ...body, max_tokens: maxTokens, ...readThinking(body, diagnostics) }
  const read = orRefuse(readParameters(source, tier, pins))
  noteDropped(body, KNOWN, '', diagnostics)
  const call: NormalisedCall = {
    modelRequested: modelName(body.model),
    stream,
    maxTokensRequested: maxTokens,
    continues: null,
    request: {
      messages: readMessages(body.messages, diagnostics),
      tools,
      parameters: { ...read.parameters, ...readToolChoice(body, tools, tier) },
    },
    diagnostics: [...diagnostics, ...read.diagnostics],
  }
  return {
    call,
    wishes: { includeUsage: stream && wantsUsage(body.stream_options), logprobs: optionalBoolean(body, 'logprobs') ?? false },
  }
}

/** OpenAI has a field for the effort; clients that speak to routers have one for all that they say of reasoning, with the effort in it. */
function readThinking(body: JsonObject, diagnostics: Diagnostic[]): JsonObject {
  const { chat_template_kwargs: stated } = body
  const reasoning = readReasoning(body.reasoning, diagnostics)
  const isPlain = !isAbsent(body.reasoning_effort)
  const effort = isPlain ? body.reasoning_effort : reasoning.effort
  // Not every engine knows `none` as an effort.
  if (effort === 'none') return { ...thinkingSwitch(false, stated), reasoning_effort: null }
  return { reasoning_effort: readEffort(effort, isPlain ? 'reasoning_effort' : 'reasoning.effort', diagnostics) }
}

function readReasoning(value: unknown, diagnostics: Diagnostic[]): JsonObject {
  if (isObject(value)) {
    noteDropped(value, EFFORT, 'reasoning', diagnostics)
    return value
  }
  if (!isAbsent(value)) note('field-dropped', 'reasoning', diagnostics)
  return {}
}

function wantsUsage(value: unknown): boolean {
  return !isAbsent(value) && object(value, 'stream_options').include_usage === true
}
