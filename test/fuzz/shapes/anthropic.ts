// The shapes of Anthropic messages, from the SDK's types, and the order of an event stream.
import { z } from 'zod'
import { anyObject, count, demand, eventsOf, type Folded, json, nonEmpty, shaped } from './folded.ts'

const usage = z.strictObject({
  input_tokens: count,
  output_tokens: count,
  cache_creation_input_tokens: count.nullable(),
  cache_read_input_tokens: count.nullable(),
  cache_creation: z.null(),
  output_tokens_details: z.strictObject({ thinking_tokens: count }).nullable(),
  server_tool_use: z.null(),
  inference_geo: z.null(),
  service_tier: z.literal('standard').nullable(),
  speed: z.null(),
})

const thinking = z.strictObject({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() })
const text = z.strictObject({ type: z.literal('text'), text: z.string(), citations: z.null() })
const toolUse = z.strictObject({
  type: z.literal('tool_use'),
  id: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/),
  name: nonEmpty,
  input: anyObject,
  caller: z.strictObject({ type: z.literal('direct') }),
})
const block = z.discriminatedUnion('type', [thinking, text, toolUse])
type Block = z.infer<typeof block>

const stopReason = z.enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'refusal'])

const head = {
  id: z.string().regex(/^msg_/),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: nonEmpty,
  container: z.null(),
  diagnostics: z.null(),
  stop_details: z.null(),
  usage,
}

const message = z.strictObject({ ...head, content: z.array(block).min(1), stop_reason: stopReason, stop_sequence: z.string().nullable() })

export function readPlainMessage(body: string): Folded {
  const { id, model, content, stop_reason, stop_sequence } = shaped(message, json(body, 'a message'), 'message')
  return fold(id, model, content, stop_reason, stop_sequence)
}

const event = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('message_start'),
    message: z.strictObject({ ...head, content: z.tuple([]), stop_reason: z.null(), stop_sequence: z.null() }),
  }),
  z.strictObject({ type: z.literal('ping') }),
  z.strictObject({ type: z.literal('content_block_start'), index: count, content_block: block }),
  z.strictObject({
    type: z.literal('content_block_delta'),
    index: count,
    delta: z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('text_delta'), text: nonEmpty }),
      z.strictObject({ type: z.literal('thinking_delta'), thinking: nonEmpty }),
      z.strictObject({ type: z.literal('signature_delta'), signature: nonEmpty }),
      z.strictObject({ type: z.literal('input_json_delta'), partial_json: z.string() }),
    ]),
  }),
  z.strictObject({ type: z.literal('content_block_stop'), index: count }),
  z.strictObject({
    type: z.literal('message_delta'),
    delta: z.strictObject({ stop_reason: stopReason, stop_sequence: z.string().nullable(), container: z.null(), stop_details: z.null() }),
    usage,
  }),
  z.strictObject({ type: z.literal('message_stop') }),
])
type Event = z.infer<typeof event>

export function readMessageStream(body: string): Folded {
  const events = eventsOf(body).map(({ event: name, data }) => {
    const read = shaped(event, json(data, 'an event'), 'event')
    demand(name === read.type, `the event line says ${name}, its data ${read.type}`)
    return read
  })
  const [start, ...rest] = events.filter(({ type }) => type !== 'ping')
  demand(start?.type === 'message_start' && events[0] === start, 'the stream begins with message_start')
  const [delta, stop] = rest.slice(-2)
  demand(delta?.type === 'message_delta' && stop?.type === 'message_stop', 'the stream ends with message_delta and message_stop')
  demand(events.at(-1) === stop, 'nothing follows message_stop')
  return fold(start.message.id, start.message.model, blocksOf(rest.slice(0, -2)), delta.delta.stop_reason, delta.delta.stop_sequence)
}

/** Block after block: each is started, filled and stopped before the next. */
function blocksOf(events: readonly Event[]): readonly Block[] {
  const blocks: Block[] = []
  let open: { block: Block; input: string; isSigned: boolean } | null = null
  for (const each of events) {
    switch (each.type) {
      case 'content_block_start': {
        demand(open === null, 'a block starts before the last one has stopped')
        demand(each.index === blocks.length, `block ${each.index} starts where ${blocks.length} is due`)
        const started = each.content_block
        demand(started.type !== 'text' || started.text === '', 'a text starts empty')
        demand(started.type !== 'thinking' || (started.thinking === '' && started.signature === ''), 'a thought starts empty')
        demand(started.type !== 'tool_use' || Object.keys(started.input).length === 0, 'an input starts empty')
        open = { block: started, input: '', isSigned: false }
        break
      }
      case 'content_block_delta': {
        demand(open !== null && each.index === blocks.length, 'a delta belongs to the open block')
        const { block: filled } = open
        const { delta } = each
        if (delta.type === 'text_delta' && filled.type === 'text') open.block = { ...filled, text: filled.text + delta.text }
        else if (delta.type === 'thinking_delta' && filled.type === 'thinking') {
          demand(!open.isSigned, 'the signature ends the thought')
          open.block = { ...filled, thinking: filled.thinking + delta.thinking }
        } else if (delta.type === 'signature_delta' && filled.type === 'thinking') {
          demand(!open.isSigned, 'a thought is signed once')
          open.isSigned = true
          open.block = { ...filled, signature: delta.signature }
        } else if (delta.type === 'input_json_delta' && filled.type === 'tool_use') open.input += delta.partial_json
        else demand(false, `a ${delta.type} in a ${filled.type} block`)
        break
      }
      case 'content_block_stop': {
        demand(open !== null && each.index === blocks.length, 'a stop belongs to the open block')
        const { block: filled, input } = open
        if (filled.type !== 'tool_use') blocks.push(filled)
        else
          blocks.push(shaped(toolUse, { ...filled, input: json(input === '' ? '{}' : input, 'the input of a tool') }, 'streamed tool_use'))
        open = null
        break
      }
      default:
        demand(false, `${each.type} among the blocks`)
    }
  }
  demand(open === null, 'the last block was never stopped')
  demand(blocks.length > 0, 'a message has at least one block')
  return blocks
}

const ORDER = ['thinking', 'text', 'tool_use']

function fold(id: string, model: string, blocks: readonly Block[], stop: string, sequence: string | null): Folded {
  const order = blocks.map(({ type }) => ORDER.indexOf(type))
  demand(
    order.every((rank, index) => index === 0 || rank >= (order[index - 1] ?? 0)),
    'thinking comes before text, text before tools',
  )
  const uses = blocks.filter((each) => each.type === 'tool_use')
  demand(new Set(uses.map((use) => use.id)).size === uses.length, 'ids of tools are distinct')
  demand(stop !== 'tool_use' || uses.length > 0, 'tool_use without a tool')
  demand(stop !== 'end_turn' || uses.length === 0, 'end_turn with a tool')
  demand((stop === 'stop_sequence') === (sequence !== null), 'a stop sequence is named exactly when it ended the answer')
  const thoughts = blocks.filter((each) => each.type === 'thinking')
  demand(
    thoughts.every(({ signature }) => signature !== ''),
    'every thought is signed',
  )
  return {
    id,
    model,
    text: blocks.map((each) => (each.type === 'text' ? each.text : '')).join(''),
    reasoning: thoughts.map((each) => each.thinking).join(''),
    calls: uses.map((use) => ({ id: use.id, name: use.name, given: { value: use.input } })),
    kept: { items: blocks, calls: uses.map((use) => ({ id: use.id, name: use.name, kind: 'tool_use' })), responseId: null },
  }
}

export const anthropicError = z.strictObject({
  type: z.literal('error'),
  error: z.strictObject({
    type: z.enum([
      'invalid_request_error',
      'authentication_error',
      'billing_error',
      'permission_error',
      'not_found_error',
      'conflict_error',
      'request_too_large',
      'rate_limit_error',
      'timeout_error',
      'api_error',
      'overloaded_error',
    ]),
    message: nonEmpty,
  }),
  request_id: z.string().nullable().optional(),
})

export const anthropicCount = z.strictObject({ input_tokens: count })

export const anthropicModel = z.strictObject({
  type: z.literal('model'),
  id: nonEmpty,
  display_name: z.string(),
  created_at: z.iso.datetime(),
  max_input_tokens: count.nullable(),
  max_tokens: count.nullable(),
  lifecycle: z.literal('active'),
  line: z.null(),
  capabilities: z.null(),
  deprecated_at: z.null(),
  retires_at: z.null(),
})
export const anthropicModels = z.strictObject({
  data: z.array(anthropicModel),
  has_more: z.boolean(),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
})
