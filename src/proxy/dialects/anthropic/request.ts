// Anthropic Messages → the pivot: what is kept, what is dropped with a note, what is refused in the caller's terms.
import type { Diagnostic } from '../../../contract/call.ts'
import { type NormalisedCall, orphanedResult } from '../../chat.ts'
import type { JsonObject } from '../../json.ts'
import { noteDropped } from '../../notes.ts'
import { readParameters } from '../../parameters.ts'
import type { ReadContext, ReadRequest } from '../dialect.ts'
import {
  isAbsent,
  list,
  modelName,
  object,
  optionalBoolean,
  optionalBudget,
  orRefuse,
  reading,
  refuse,
  refuseInTraining,
  text,
} from '../reading.ts'
import { readEffort, thinkingSwitch } from '../thinking.ts'
import { readMessages } from './history.ts'
import type { AnthropicWishes } from './response.ts'
import { readToolChoice, readTools } from './tools.ts'

/** Known here, and either used or without meaning for a local engine: dropped without a word. */
const KNOWN = new Set(
  (
    'model messages system tools tool_choice stream max_tokens temperature top_p top_k stop_sequences thinking output_config output_format ' +
    'metadata context_management betas cache_control service_tier speed inference_geo diagnostics user_profile_id workspace_id ' +
    'billing_policy fallbacks fallback_credit_token thread'
  ).split(' '),
)

export function readAnthropic(body: JsonObject, context: ReadContext): ReadRequest<AnthropicWishes> {
  return reading(() => {
    const read = normalise(body, context)
    const orphan = orphanedResult(read.call.request.messages)
    if (orphan !== null) refuse('messages', `a tool_result names ${JSON.stringify(orphan)}, which no tool_use before it has as id`)
    return read
  })
}

/** All but that every result must have its call. */
export function normalise(body: JsonObject, context: ReadContext): { readonly call: NormalisedCall; readonly wishes: AnthropicWishes } {
  const diagnostics: Diagnostic[] = []
  const modelRequested = modelName(body.model)
  if (!isAbsent(body.thread)) refuse('thread', 'conversations are not kept here: send all messages')
  const tools = readTools(body.tools, context.tier, diagnostics)
  const maxTokens = optionalBudget(body.max_tokens, 'max_tokens')
  const stopSequences = readStops(body.stop_sequences)
  const { temperature, top_p, top_k } = body
  const source = {
    max_tokens: maxTokens,
    temperature,
    top_p,
    top_k,
    ...(stopSequences.length === 0 ? {} : { stop: stopSequences }),
    ...readThinking(body.thinking),
    ...readOutput(body, context.tier, diagnostics),
  }
  const read = orRefuse(readParameters(source, context.tier, context.pins))
  noteDropped(body, KNOWN, '', diagnostics)
  const call: NormalisedCall = {
    modelRequested,
    stream: optionalBoolean(body, 'stream') ?? false,
    maxTokensRequested: maxTokens,
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
      return thinkingSwitch(true)
    // The second is thinking turned off, with short notes between tool calls.
    case 'disabled':
    case 'between_tools':
      return thinkingSwitch(false)
    default:
      return refuse('thinking.type', 'expected "enabled", "adaptive", "disabled" or "between_tools"')
  }
}

const OUTPUT_FIELDS = new Set(['effort', 'format'])

function readOutput(body: JsonObject, tier: 'train' | 'eval', diagnostics: Diagnostic[]): JsonObject {
  const config = isAbsent(body.output_config) ? {} : object(body.output_config, 'output_config')
  noteDropped(config, OUTPUT_FIELDS, 'output_config', diagnostics)
  return {
    reasoning_effort: readEffort(config.effort, 'output_config.effort', diagnostics),
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
  const json_schema = { name: 'output', schema: object(schema, `${place}.schema`) }
  refuseInTraining(place, tier)
  return { response_format: { type, json_schema } }
}
