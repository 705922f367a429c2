// The shapes of OpenAI Responses, from the SDK's types, and the order of an event stream.
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { count, demand, eventsOf, type Folded, type FoldedCall, json, nonEmpty, shaped } from './folded.ts'
import { type Item, item, summaryPart, textPart } from './responses-items.ts'

const usage = z.strictObject({
  input_tokens: count,
  input_tokens_details: z.strictObject({ cached_tokens: count, cache_write_tokens: count }),
  output_tokens: count,
  output_tokens_details: z.strictObject({ reasoning_tokens: count }),
  total_tokens: count,
})

/** Repeated from the request or filled with the vendor's defaults: their inside is the client's own. */
const repeated = Object.fromEntries(
  (
    'access_programs background completed_at conversation instructions max_output_tokens max_tool_calls metadata moderation parallel_tool_calls ' +
    'previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store temperature text ' +
    'tool_choice tools top_logprobs top_p truncation user'
  )
    .split(' ')
    .map((name) => [name, z.unknown().optional()]),
)

const response = z.strictObject({
  ...repeated,
  id: z.string().regex(/^resp_/),
  object: z.literal('response'),
  created_at: count,
  model: nonEmpty,
  status: z.enum(['in_progress', 'completed', 'incomplete', 'failed']),
  error: z.strictObject({ code: nonEmpty, message: nonEmpty }).nullable(),
  incomplete_details: z.strictObject({ reason: z.enum(['max_output_tokens', 'content_filter']) }).nullable(),
  output: z.array(item),
  usage: usage.nullable(),
  // Not optional in the vendor's type.
  instructions: z.unknown(),
  metadata: z.record(z.string(), z.string()).nullable(),
  parallel_tool_calls: z.boolean(),
  temperature: z.number().nullable(),
  top_p: z.number().nullable(),
  tools: z.array(z.unknown()),
  tool_choice: z.union([z.string(), z.record(z.string(), z.unknown())]),
})
type Response = z.infer<typeof response>

export function readPlainResponse(body: string): Folded {
  return fold(shaped(response, json(body, 'a response'), 'response'))
}

const place = { item_id: nonEmpty, output_index: count }
const textPlace = { ...place, content_index: count }
const summaryPlace = { ...place, summary_index: count }
const numbered = { sequence_number: count }
const lifecycle = <T extends string>(type: T) => z.strictObject({ type: z.literal(type), ...numbered, response })

const event = z.discriminatedUnion('type', [
  lifecycle('response.created'),
  lifecycle('response.in_progress'),
  lifecycle('response.completed'),
  lifecycle('response.incomplete'),
  lifecycle('response.failed'),
  z.strictObject({ type: z.literal('response.output_item.added'), ...numbered, output_index: count, item }),
  z.strictObject({ type: z.literal('response.output_item.done'), ...numbered, output_index: count, item }),
  z.strictObject({ type: z.literal('response.content_part.added'), ...numbered, ...textPlace, part: textPart }),
  z.strictObject({ type: z.literal('response.output_text.delta'), ...numbered, ...textPlace, delta: nonEmpty, logprobs: z.tuple([]) }),
  z.strictObject({ type: z.literal('response.output_text.done'), ...numbered, ...textPlace, text: z.string(), logprobs: z.tuple([]) }),
  z.strictObject({ type: z.literal('response.content_part.done'), ...numbered, ...textPlace, part: textPart }),
  z.strictObject({ type: z.literal('response.reasoning_summary_part.added'), ...numbered, ...summaryPlace, part: summaryPart }),
  z.strictObject({ type: z.literal('response.reasoning_summary_text.delta'), ...numbered, ...summaryPlace, delta: nonEmpty }),
  z.strictObject({ type: z.literal('response.reasoning_summary_text.done'), ...numbered, ...summaryPlace, text: z.string() }),
  z.strictObject({ type: z.literal('response.reasoning_summary_part.done'), ...numbered, ...summaryPlace, part: summaryPart }),
  z.strictObject({ type: z.literal('response.function_call_arguments.delta'), ...numbered, ...place, delta: nonEmpty }),
  z.strictObject({
    type: z.literal('response.function_call_arguments.done'),
    ...numbered,
    ...place,
    arguments: z.string(),
    name: z.string().optional(),
  }),
  z.strictObject({ type: z.literal('response.custom_tool_call_input.delta'), ...numbered, ...place, delta: nonEmpty }),
  z.strictObject({ type: z.literal('response.custom_tool_call_input.done'), ...numbered, ...place, input: z.string() }),
])
type Event = z.infer<typeof event>

export function readResponseStream(body: string): Folded {
  const events = eventsOf(body).map(({ event: name, data }) => {
    const read = shaped(event, json(data, 'an event'), 'event')
    demand(name === read.type, `the event line says ${name}, its data ${read.type}`)
    return read
  })
  for (const [index, each] of events.entries())
    demand(each.sequence_number === index, `event ${index} has the number ${each.sequence_number}`)
  const [created, begun] = events
  demand(created?.type === 'response.created' && begun?.type === 'response.in_progress', 'the stream begins with created and in_progress')
  const last = events.at(-1)
  demand(last?.type === 'response.completed' || last?.type === 'response.incomplete', `the stream ends with ${last?.type}`)
  demand(created.response.id === last.response.id, 'one response has one id')
  const itemEvents = events.slice(2, -1).filter((each) => {
    if (each.type === 'response.in_progress') demand(each.response.id === created.response.id, 'one response has one id')
    return each.type !== 'response.in_progress'
  })
  const items = itemsOf(itemEvents)
  demand(isDeepStrictEqual(items, last.response.output), 'the items of the stream are those of its end')
  demand(
    (last.response.status === 'completed') === (last.type === 'response.completed'),
    `${last.type} with status ${last.response.status}`,
  )
  return fold(last.response)
}

function itemsOf(events: readonly Event[]): readonly Item[] {
  const items: Item[] = []
  let at = 0
  while (at < events.length) {
    const added = events[at]
    demand(added?.type === 'response.output_item.added' && added.output_index === items.length, `item ${items.length} is added first`)
    const end = events.findIndex((each, index) => index > at && each.type === 'response.output_item.done')
    const done = events[end]
    demand(done?.type === 'response.output_item.done' && done.output_index === items.length, `item ${items.length} is done before the next`)
    demand('id' in added.item && added.item.id === done.item.id && added.item.type === done.item.type, 'an item keeps its id and type')
    const inner = events.slice(at + 1, end)
    for (const each of inner) {
      demand('item_id' in each && each.item_id === done.item.id && each.output_index === items.length, 'an event belongs to the open item')
    }
    filledBy(inner, done.item)
    items.push(done.item)
    at = end + 1
  }
  return items
}

/** The events between an item's beginning and end, in the only order there is, with texts that add up to the item's. */
function filledBy(events: readonly Event[], done: Item): void {
  switch (done.type) {
    case 'message':
      filledByParts(events, 'response.content_part', 'response.output_text', done.content)
      return
    case 'reasoning':
      filledByParts(events, 'response.reasoning_summary_part', 'response.reasoning_summary_text', done.summary)
      return
    case 'function_call':
      filledByText(events, 'response.function_call_arguments', done.arguments)
      return
    case 'custom_tool_call':
      filledByText(events, 'response.custom_tool_call_input', done.input)
      return
    default:
      demand(events.length === 0, `a ${done.type} comes whole`)
  }
}

function filledByParts(events: readonly Event[], part: string, text: string, parts: readonly { readonly text: string }[]): void {
  let rest = events
  for (const [index, expected] of parts.entries()) {
    const end = rest.findIndex(({ type }) => type === `${part}.done`)
    const [added, ...inner] = rest.slice(0, end)
    const done = rest[end]
    demand(added?.type === `${part}.added` && indexOf(added) === index, `part ${index} is added first`)
    demand('part' in added && added.part.text === '', 'a part starts empty')
    demand(done !== undefined && 'part' in done && isDeepStrictEqual(done.part, expected), 'a part ends as it stands in the item')
    demand(
      [...inner, done].every((each) => indexOf(each) === index),
      'an event belongs to the open part',
    )
    filledByText(inner, text, expected.text)
    rest = rest.slice(end + 1)
  }
  demand(rest.length === 0, 'nothing follows the last part')
}

function indexOf(each: Event): number {
  return 'content_index' in each ? each.content_index : 'summary_index' in each ? each.summary_index : -1
}

function filledByText(events: readonly Event[], stem: string, whole: string): void {
  const deltas = events.slice(0, -1)
  const done = events.at(-1)
  demand(deltas.every(({ type }) => type === `${stem}.delta`) && done?.type === `${stem}.done`, `${stem}: deltas, then done`)
  const collected = deltas.map((each) => ('delta' in each ? each.delta : '')).join('')
  const told = 'text' in done ? done.text : 'arguments' in done ? done.arguments : 'input' in done ? done.input : ''
  demand(collected === whole && told === whole, `${stem}: the deltas add up to the whole`)
}

const ORDER = ['reasoning', 'message']

function fold(reply: Response): Folded {
  demand(reply.status === 'completed' || reply.status === 'incomplete', `an answer with status ${reply.status}`)
  demand(reply.error === null, 'an answer with an error')
  demand((reply.status === 'incomplete') === (reply.incomplete_details !== null), 'incomplete says why, completed does not')
  demand(reply.usage !== null, 'an answer says what it cost')
  const { output } = reply
  demand(output.length > 0, 'an answer has an item')
  const ranks = output.map(({ type }) => ORDER.indexOf(type)).map((rank) => (rank === -1 ? 2 : rank))
  demand(
    ranks.every((rank, index) => index === 0 || rank > (ranks[index - 1] ?? 0) || rank === 2),
    'reasoning, then the message, then calls',
  )
  demand(new Set(output.map(({ id }) => id)).size === output.length, 'ids of items are distinct')
  const calls = output.flatMap((each) => ('call_id' in each ? [each] : []))
  demand(new Set(calls.map((call) => call.call_id)).size === calls.length, 'ids of calls are distinct')
  return {
    id: reply.id,
    model: reply.model,
    text: output.map((each) => (each.type === 'message' ? each.content.map(({ text }) => text).join('') : '')).join(''),
    reasoning: output.map((each) => (each.type === 'reasoning' ? each.summary.map(({ text }) => text).join('') : '')).join(''),
    calls: calls.map(foldCall),
    kept: {
      items: output,
      calls: calls.map((call) => ({ id: call.call_id, name: 'name' in call ? call.name : call.type, kind: call.type })),
      responseId: reply.id,
    },
  }
}

function foldCall(call: Extract<Item, { call_id: string }>): FoldedCall {
  const { call_id: id } = call
  if (call.type !== 'function_call') return { id, name: null, given: null }
  return { id, name: call.namespace === undefined ? call.name : null, given: { text: call.arguments } }
}

export const responsesCount = z.strictObject({ object: z.literal('response.input_tokens'), input_tokens: count })

/** The last event of a stream that failed. */
export const failedEvent = z.strictObject({
  type: z.literal('response.failed'),
  ...numbered,
  response: response.extend({
    status: z.literal('failed'),
    error: z.strictObject({ code: nonEmpty, message: nonEmpty }),
    output: z.array(item),
  }),
})
