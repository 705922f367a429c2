// Anthropic Messages → the pivot: what is kept, what is dropped with a diagnostic, what is refused in the caller's terms.
import type { Diagnostic } from '../../../contract/call.ts'
import { type NormalisedCall, orphanedResult } from '../../chat.ts'
import type { Failure } from '../../failure.ts'
import { isObject, type JsonObject } from '../../json.ts'
import { constrained, readParameters } from '../../parameters.ts'
import type { ReadContext, ReadCount } from '../dialect.ts'
import { isAbsent, list, modelName, note, noteDropped, object, optionalBoolean, Refusal, reading, refuse, text } from '../reading.ts'
import { readMessages } from './history.ts'
import type { MessageWishes } from './response.ts'
import { readToolChoice, readTools } from './tools.ts'

export type ReadMessagesRequest =
  | { readonly ok: true; readonly call: NormalisedCall; readonly wishes: MessageWishes }
  | { readonly ok: false; readonly failure: Failure }

/** Known here, and either used or without meaning for a local engine: dropped without a word. */
const SILENT = new Set(
  (
    'model messages system tools tool_choice stream max_tokens temperature top_p top_k stop_sequences thinking output_config output_format ' +
    'metadata context_management betas cache_control service_tier speed inference_geo diagnostics user_profile_id workspace_id ' +
    'billing_policy fallbacks fallback_credit_token thread'
  ).split(' '),
)

export function readMessagesRequest(body: JsonObject, context: ReadContext): ReadMessagesRequest {
  return reading(() => {
    const read = normalise(body, context)
    const orphan = orphanedResult(read.call.request.messages)
    if (orphan !== null)
      refuse('messages', `a tool_result names ${JSON.stringify(orphan.slice(0, 64))}, which no tool_use before it has as id`)
    return read
  })
}

/** The same conversation as a call would send; a part of one can be counted too. */
export function readMessagesCount(body: JsonObject, context: ReadContext): ReadCount {
  return reading(() => {
    const { call } = normalise({ ...body, model: body.model ?? 'unnamed' }, context)
    return { countable: { kind: 'messages' as const, request: call.request } }
  })
}

function normalise(body: JsonObject, context: ReadContext): { readonly call: NormalisedCall; readonly wishes: MessageWishes } {
  const diagnostics: Diagnostic[] = []
  const modelRequested = modelName(body.model)
  if (!isAbsent(body.thread)) refuse('thread', 'conversations are not kept here: send all messages')
  const tools = readTools(body.tools, diagnostics)
  const stopSequences = readStops(body.stop_sequences)
  const { max_tokens: maxTokens, temperature, top_p, top_k } = body
  const source = {
    max_tokens: maxTokens,
    temperature,
    top_p,
    top_k,
    ...(stopSequences.length === 0 ? {} : { stop: stopSequences }),
    ...readThinking(body.thinking),
    ...readOutput(body, context.tier, diagnostics),
  }
  const read = readParameters(source, context.tier, context.pins)
  if (!read.ok) throw new Refusal(read.failure)
  noteDropped(body, SILENT, '', diagnostics)
  const call: NormalisedCall = {
    modelRequested,
    stream: optionalBoolean(body, 'stream') ?? false,
    maxTokensRequested: typeof maxTokens === 'number' ? maxTokens : null,
    continues: null,
    request: {
      messages: readMessages(body.system, body.messages, diagnostics),
      tools,
      parameters: { ...read.parameters, ...readToolChoice(body.tool_choice, tools, context.tier) },
    },
    diagnostics: [...diagnostics, ...read.diagnostics],
  }
  return { call, wishes: { stopSequences } }
}

function readStops(value: unknown): readonly string[] {
  return isAbsent(value) ? [] : list(value, 'stop_sequences').map((stop, index) => text(stop, `stop_sequences[${index}]`))
}

/** A budget is no matter for a local engine: `max_tokens` bounds thinking and answer together. */
function readThinking(value: unknown): JsonObject {
  if (isAbsent(value)) return {}
  const { type } = object(value, 'thinking')
  switch (type) {
    case 'enabled':
    case 'adaptive':
      return { chat_template_kwargs: { enable_thinking: true } }
    // The second is thinking turned off, with short notes between tool calls.
    case 'disabled':
    case 'between_tools':
      return { chat_template_kwargs: { enable_thinking: false } }
    default:
      return refuse('thinking.type', 'expected "enabled", "adaptive", "disabled" or "between_tools"')
  }
}

const EFFORTS: ReadonlySet<unknown> = new Set(['low', 'medium', 'high'])

function readOutput(body: JsonObject, tier: 'train' | 'eval', diagnostics: Diagnostic[]): JsonObject {
  const config = isAbsent(body.output_config) ? {} : object(body.output_config, 'output_config')
  const { effort } = config
  if (!isAbsent(effort) && !EFFORTS.has(effort)) note('field-dropped', 'output_config.effort', diagnostics)
  return {
    ...(EFFORTS.has(effort) ? { reasoning_effort: effort } : {}),
    // The older spelling of the same wish.
    ...(isAbsent(config.format)
      ? readFormat(body.output_format, 'output_format', tier)
      : readFormat(config.format, 'output_config.format', tier)),
  }
}

function readFormat(value: unknown, place: string, tier: 'train' | 'eval'): JsonObject {
  if (isAbsent(value)) return {}
  const { type, schema } = object(value, place)
  if (type !== 'json_schema') refuse(`${place}.type`, 'expected "json_schema"')
  if (!isObject(schema)) refuse(`${place}.schema`, 'expected an object')
  if (tier === 'train') throw new Refusal(constrained(place))
  return { response_format: { type, json_schema: { name: 'output', schema } } }
}
