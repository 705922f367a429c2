// OpenAI chat completions → the pivot: what is kept, what is dropped with a diagnostic, what is refused in the caller's terms.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ChatMessage, ContentPart, NormalisedCall, Tool, ToolCall } from '../../chat.ts'
import type { Failure } from '../../failure.ts'
import { describe, isObject, type JsonObject } from '../../json.ts'
import { constrained, isParameter, readParameters } from '../../parameters.ts'
import type { ReadContext, ReadCount } from '../dialect.ts'
import { isAbsent, modelName, note, noteDropped, optionalBoolean, Refusal, reading, refuse, text } from '../reading.ts'
import { mergeLeadingSystem } from '../system-messages.ts'

export type ChatWishes = { readonly includeUsage: boolean; readonly logprobs: boolean }

export type ReadChat =
  | { readonly ok: true; readonly call: NormalisedCall; readonly wishes: ChatWishes }
  | { readonly ok: false; readonly failure: Failure }

/** Known here, and either used or without meaning for a local engine: dropped without a word. */
const SILENT = new Set(
  (
    'model messages tools tool_choice parallel_tool_calls stream stream_options n max_completion_tokens logprobs top_logprobs ' +
    'user store metadata service_tier prompt_cache_key prompt_cache_retention safety_identifier'
  ).split(' '),
)

export function readChat(body: JsonObject, context: ReadContext): ReadChat {
  return reading(() => normalise(body, context))
}

function normalise(body: JsonObject, context: ReadContext): { readonly call: NormalisedCall; readonly wishes: ChatWishes } {
  const diagnostics: Diagnostic[] = []
  const stream = optionalBoolean(body, 'stream') ?? false
  if (body.n !== undefined && body.n !== null && body.n !== 1) refuse('n', 'only one choice per request can be served')
  for (const legacy of ['functions', 'function_call']) {
    if (body[legacy] !== undefined && body[legacy] !== null) refuse(legacy, 'is the retired form; use tools and tool_choice')
  }
  const tools = readTools(body.tools, diagnostics)
  const source = { ...body, max_tokens: body.max_tokens ?? readMaxCompletionTokens(body) }
  const read = readParameters(source, context.tier, context.pins)
  if (!read.ok) throw new Refusal(read.failure)
  const maxTokens = source.max_tokens
  for (const name of Object.keys(body)) {
    if (!SILENT.has(name) && !isParameter(name) && !name.startsWith('_proxy_')) {
      note('field-dropped', name, diagnostics)
    }
  }
  const call: NormalisedCall = {
    modelRequested: modelName(body.model),
    stream,
    maxTokensRequested: typeof maxTokens === 'number' ? maxTokens : null,
    continues: null,
    request: {
      messages: readMessages(body.messages, diagnostics),
      tools,
      parameters: { ...read.parameters, ...readToolChoice(body, tools, context.tier) },
    },
    diagnostics: [...diagnostics, ...read.diagnostics],
  }
  return {
    call,
    wishes: { includeUsage: stream && wantsUsage(body.stream_options), logprobs: optionalBoolean(body, 'logprobs') ?? false },
  }
}

/** The newer name of `max_tokens`, checked under its own. */
function readMaxCompletionTokens({ max_completion_tokens: value }: JsonObject): number | null {
  if (isAbsent(value)) return null
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) {
    return refuse('max_completion_tokens', `expected an integer, got ${describe(value)}`)
  }
  return value < 1 ? refuse('max_completion_tokens', 'must be at least 1') : value
}

function wantsUsage(value: unknown): boolean {
  if (value === undefined || value === null) return false
  if (!isObject(value)) refuse('stream_options', `expected an object, got ${describe(value)}`)
  return value.include_usage === true
}

function readTools(value: unknown, diagnostics: Diagnostic[]): readonly Tool[] | null {
  if (value === undefined || value === null) return null
  if (!Array.isArray(value)) refuse('tools', `expected an array, got ${describe(value)}`)
  const tools: Tool[] = []
  for (const [index, tool] of value.entries()) {
    const place = `tools[${index}]`
    if (!isObject(tool)) refuse(place, `expected an object, got ${describe(tool)}`)
    const { type } = tool
    if (type !== 'function') {
      if (typeof type !== 'string') refuse(`${place}.type`, `expected a string, got ${describe(type)}`)
      note('tool-dropped', `${place}: no engine here runs tools of type ${type}`, diagnostics)
      continue
    }
    const definition = tool.function
    if (!isObject(definition)) refuse(`${place}.function`, `expected an object, got ${describe(definition)}`)
    tools.push({ type, function: { ...definition, name: text(definition.name, `${place}.function.name`) } })
  }
  return tools.length === 0 ? null : tools
}

function readToolChoice(body: JsonObject, tools: readonly Tool[] | null, tier: 'train' | 'eval'): JsonObject {
  const { tool_choice: choice } = body
  const parallel = optionalBoolean(body, 'parallel_tool_calls')
  const named = namedTool(choice)
  if (named !== null && tools?.some((tool) => tool.function.name === named) !== true) {
    refuse('tool_choice', `names the tool ${JSON.stringify(named)}, which is not among the tools that can be served`)
  }
  if (tools === null) return {}
  if (tier === 'train' && (named !== null || choice === 'required')) throw new Refusal(constrained('tool_choice'))
  return {
    ...(choice === undefined || choice === null ? {} : { tool_choice: choice }),
    ...(parallel === null ? {} : { parallel_tool_calls: parallel }),
  }
}

function namedTool(choice: unknown): string | null {
  if (choice === undefined || choice === null || choice === 'auto' || choice === 'none' || choice === 'required') return null
  if (isObject(choice) && choice.type === 'function' && isObject(choice.function)) {
    return text(choice.function.name, 'tool_choice.function.name')
  }
  return refuse('tool_choice', 'expected "auto", "none", "required" or {"type":"function","function":{"name":…}}')
}

function readMessages(value: unknown, diagnostics: Diagnostic[]): readonly ChatMessage[] {
  if (!Array.isArray(value)) refuse('messages', `expected an array, got ${describe(value)}`)
  if (value.length === 0) refuse('messages', 'must hold at least one message')
  return mergeLeadingSystem(value.map((message: unknown, index) => readMessage(message, `messages[${index}]`, diagnostics)))
}

const PLAIN_FIELDS = new Set(['role', 'content', 'name'])
const TOOL_FIELDS = new Set(['role', 'content', 'tool_call_id', 'name'])
const ASSISTANT_FIELDS = new Set(['role', 'content', 'name', 'tool_calls', 'reasoning_content', 'reasoning'])

function readMessage(message: unknown, place: string, diagnostics: Diagnostic[]): ChatMessage {
  if (!isObject(message)) refuse(place, `expected an object, got ${describe(message)}`)
  const { role, content } = message
  const name = message.name === undefined || message.name === null ? {} : { name: text(message.name, `${place}.name`) }
  switch (role) {
    case 'system':
    case 'developer':
      noteDropped(message, PLAIN_FIELDS, place, diagnostics)
      return { role: 'system', content: readContent(content, `${place}.content`), ...name }
    case 'user':
      noteDropped(message, PLAIN_FIELDS, place, diagnostics)
      return { role, content: readContent(content, `${place}.content`), ...name }
    case 'tool':
      noteDropped(message, TOOL_FIELDS, place, diagnostics)
      return {
        role,
        tool_call_id: text(message.tool_call_id, `${place}.tool_call_id`),
        content: readContent(content, `${place}.content`),
      }
    case 'assistant': {
      noteDropped(message, ASSISTANT_FIELDS, place, diagnostics)
      const calls = readToolCalls(message.tool_calls, `${place}.tool_calls`)
      const reasoning = message.reasoning_content ?? message.reasoning
      if (reasoning !== undefined && reasoning !== null && typeof reasoning !== 'string') {
        refuse(`${place}.reasoning_content`, `expected a string, got ${describe(reasoning)}`)
      }
      return {
        role,
        content: content === undefined || content === null ? null : readContent(content, `${place}.content`),
        ...(typeof reasoning === 'string' && reasoning !== '' ? { reasoning_content: reasoning } : {}),
        ...(calls.length === 0 ? {} : { tool_calls: calls }),
        ...name,
      }
    }
    default:
      return refuse(`${place}.role`, `expected system, developer, user, assistant or tool, got ${JSON.stringify(role) ?? 'nothing'}`)
  }
}

function readContent(content: unknown, place: string): string | readonly ContentPart[] {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return refuse(place, `expected a string or an array of parts, got ${describe(content)}`)
  return content.map((part: unknown, index) => {
    if (!isObject(part)) return refuse(`${place}[${index}]`, `expected an object, got ${describe(part)}`)
    const { type } = part
    if (typeof type !== 'string') return refuse(`${place}[${index}].type`, `expected a string, got ${describe(type)}`)
    // Cache marks move from turn to turn and would make equal texts differ.
    if (type === 'text') return { type, text: text(part.text, `${place}[${index}].text`, true) }
    if (type === 'refusal') return { type: 'text', text: text(part.refusal, `${place}[${index}].refusal`, true) }
    const { cache_control: _mark, ...rest } = part
    return { ...rest, type }
  })
}

function readToolCalls(value: unknown, place: string): readonly ToolCall[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) return refuse(place, `expected an array, got ${describe(value)}`)
  return value.map((call: unknown, index) => {
    const here = `${place}[${index}]`
    if (!isObject(call)) return refuse(here, `expected an object, got ${describe(call)}`)
    const definition = call.function
    if (!isObject(definition)) return refuse(`${here}.function`, `expected an object, got ${describe(definition)}`)
    return {
      id: text(call.id, `${here}.id`),
      type: 'function' as const,
      function: {
        name: text(definition.name, `${here}.function.name`),
        arguments: text(definition.arguments, `${here}.function.arguments`, true),
      },
    }
  })
}

/** vLLM's tokenize request: a text, or the conversation of a chat request. */
export function readTokenize(body: JsonObject, context: ReadContext): ReadCount {
  const { prompt } = body
  if (typeof prompt === 'string') return { ok: true, countable: { kind: 'text', text: prompt } }
  if (prompt !== undefined) return reading(() => refuse('prompt', `expected a string, got ${describe(prompt)}`))
  const read = readChat({ model: 'unnamed', ...body }, context)
  return read.ok ? { ok: true, countable: { kind: 'messages', request: read.call.request } } : read
}
