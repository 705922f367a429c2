// OpenAI Responses → the pivot: what is kept, what is dropped with a note, what is refused in the caller's terms.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ChatMessage, NormalisedCall } from '../../chat.ts'
import { failure } from '../../failure.ts'
import { describe, isObject, type JsonObject } from '../../json.ts'
import { noteDropped } from '../../notes.ts'
import { PARAMETER_NAMES, readParameters } from '../../parameters.ts'
import type { ReadContext, ReadRequest } from '../dialect.ts'
import {
  isAbsent,
  modelName,
  object,
  optionalBoolean,
  optionalBudget,
  orRefuse,
  reading,
  refuse,
  refuseInTraining,
  refuseWith,
  text,
} from '../reading.ts'
import { mergeLeadingSystem } from '../system-messages.ts'
import { readEffort, thinkingSwitch } from '../thinking.ts'
import { arrange } from './history.ts'
import { callOfResponse } from './item-ids.ts'
import { type Piece, readItem } from './items.ts'
import type { ResponsesWishes } from './response.ts'
import { readToolChoice } from './tool-choice.ts'
import { readTools, type ToolSource } from './tools.ts'

/** Known here, and either used or without meaning for a local engine: dropped without a word. */
const KNOWN = new Set([
  ...(
    'model input instructions tools tool_choice parallel_tool_calls stream stream_options max_output_tokens reasoning text ' +
    'previous_response_id conversation background generate prompt store include truncation prompt_cache_key prompt_cache_retention ' +
    'prompt_cache_options service_tier metadata client_metadata user safety_identifier'
  ).split(' '),
  ...PARAMETER_NAMES,
])

export function readResponses(body: JsonObject, context: ReadContext): ReadRequest<ResponsesWishes> {
  return reading(() => normalise(body, context))
}

function normalise(body: JsonObject, { tier, pins }: ReadContext): { readonly call: NormalisedCall; readonly wishes: ResponsesWishes } {
  const diagnostics: Diagnostic[] = []
  refuseUnserved(body)
  const continues = readPrevious(body.previous_response_id)
  const pieces = readInput(body.input, diagnostics)
  const brought = pieces.flatMap((piece) => (piece.type === 'tools' ? [piece.source] : []))
  const listed: readonly ToolSource[] = isAbsent(body.tools) ? [] : [{ value: body.tools, place: 'tools' }]
  const toolbox = readTools([...listed, ...brought], { tier, diagnostics })
  const choice = readToolChoice(body, toolbox, tier, diagnostics)
  const conversation = arrange(pieces, { isContinued: continues !== null, diagnostics })
  const maxTokens = optionalBudget(body.max_output_tokens, 'max_output_tokens') ?? optionalBudget(body.max_tokens, 'max_tokens')
  const source = { ...body, max_tokens: maxTokens, ...readThinking(body, diagnostics), ...readFormat(body.text, tier, diagnostics) }
  const read = orRefuse(readParameters(source, tier, pins))
  noteDropped(body, KNOWN, '', diagnostics)
  return {
    call: {
      modelRequested: modelName(body.model),
      stream: optionalBoolean(body, 'stream') ?? false,
      maxTokensRequested: maxTokens,
      continues,
      request: {
        messages: mergeLeadingSystem([...readInstructions(body.instructions), ...saying(conversation, continues)]),
        tools: choice.tools,
        parameters: { ...read.parameters, ...choice.parameters },
      },
      diagnostics: [...diagnostics, ...read.diagnostics],
    },
    wishes: { faces: toolbox.faces, echo: echoOf(body) },
  }
}

/** Fields that ask for something other than one answer to what the request holds. */
function refuseUnserved(body: JsonObject): void {
  if (optionalBoolean(body, 'background') === true) refuse('background', 'responses are not made in the background here')
  if (optionalBoolean(body, 'generate') === false) refuse('generate', 'warming up without an answer is not served here')
  if (!isAbsent(body.prompt)) refuse('prompt', 'stored prompts are not known here; send instructions and input')
  if (isAbsent(body.conversation)) return
  const param = 'conversation'
  refuseWith(failure('previous-response-unknown', `${param}: conversations are not stored here; send the whole input`, { param }))
}

function readPrevious(value: unknown): string | null {
  if (isAbsent(value)) return null
  const param = 'previous_response_id'
  const id = text(value, param)
  const call = callOfResponse(id)
  if (call !== null) return call
  return refuseWith(failure('previous-response-unknown', `${param}: no response has the id ${JSON.stringify(id)}`, { param }))
}

function readInput(input: unknown, diagnostics: Diagnostic[]): readonly Piece[] {
  if (typeof input === 'string') return [{ type: 'message', message: { role: 'user', content: input } }]
  if (!Array.isArray(input)) return refuse('input', `expected a string or an array of items, got ${describe(input)}`)
  return input.flatMap((item: unknown, index) => readItem(item, `input[${index}]`, diagnostics))
}

function readInstructions(value: unknown): readonly ChatMessage[] {
  if (isAbsent(value)) return []
  const content = text(value, 'instructions', true)
  return content === '' ? [] : [{ role: 'system', content }]
}

/** Codex probes with an empty input, and an engine must be told something. */
function saying(conversation: readonly ChatMessage[], continues: string | null): readonly ChatMessage[] {
  return conversation.length === 0 && continues === null ? [{ role: 'user', content: '' }] : conversation
}

const REASONING_FIELDS = new Set(['effort', 'summary', 'generate_summary', 'context', 'mode'])

/** `none` turns thinking off, any effort turns it on; silence leaves it to the model. What the request says in the engine's terms wins. */
function readThinking(body: JsonObject, diagnostics: Diagnostic[]): JsonObject {
  if (isAbsent(body.reasoning)) return {}
  const reasoning = object(body.reasoning, 'reasoning')
  noteDropped(reasoning, REASONING_FIELDS, 'reasoning', diagnostics)
  if (isAbsent(reasoning.effort)) return {}
  const isOn = reasoning.effort !== 'none'
  const effort = isOn ? readEffort(reasoning.effort, 'reasoning.effort', diagnostics) : null
  return { ...thinkingSwitch(isOn, body.chat_template_kwargs), ...(effort === null ? {} : { reasoning_effort: effort }) }
}

const TEXT_FIELDS = new Set(['format', 'verbosity'])

function readFormat(value: unknown, tier: 'train' | 'eval', diagnostics: Diagnostic[]): JsonObject {
  if (isAbsent(value)) return {}
  const wishes = object(value, 'text')
  noteDropped(wishes, TEXT_FIELDS, 'text', diagnostics)
  if (isAbsent(wishes.format)) return {}
  const { type, ...schema } = object(wishes.format, 'text.format')
  if (type === 'text') return {}
  if (type !== 'json_object' && type !== 'json_schema') return refuse('text.format.type', 'expected text, json_object or json_schema')
  refuseInTraining('text.format', tier)
  return { response_format: type === 'json_object' ? { type } : { type, json_schema: schema } }
}

/** What the vendor's response repeats of its request, with the vendor's defaults. */
function echoOf(body: JsonObject): JsonObject {
  const reasoning = isObject(body.reasoning) ? body.reasoning : {}
  const orNull = (value: unknown): unknown => value ?? null
  return {
    max_output_tokens: orNull(body.max_output_tokens),
    metadata: isObject(body.metadata) ? textsOf(body.metadata) : {},
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: orNull(body.previous_response_id),
    reasoning: { effort: orNull(reasoning.effort), summary: orNull(reasoning.summary) },
    temperature: orNull(body.temperature),
    tool_choice: body.tool_choice ?? 'auto',
    top_p: orNull(body.top_p),
  }
}

/** The vendor's type knows texts alone; it means nothing here, so what is none is no reason to refuse. */
function textsOf(metadata: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(metadata).filter(([, value]) => typeof value === 'string'))
}
