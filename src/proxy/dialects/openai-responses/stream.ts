// The pivot → a Responses stream, as it grows or all at once: created, in_progress, each item from added to done, and how it ended.
import { unreachable } from '../../../kernel/unreachable.ts'
import type { ChatAnswer, ToolCall } from '../../chat.ts'
import { type AnswerDelta, addTold, nothingTold, restOf } from '../../live/answer-delta.ts'
import type { AnswerIdentity, ReplyStream } from '../dialect.ts'
import { pieces } from '../pieces.ts'
import { streamedError } from './error.ts'
import { type ItemStatus, lastStatus, messageItem, type OutputItem, outputText, reasoningItem, writeCall, writeOutput } from './output.ts'
import { incompleteReason, type ResponseState, type ResponsesWishes, responseObject } from './response.ts'

/** An event without its number. */
type Event = { readonly type: string; readonly [field: string]: unknown }

export function openResponsesStream(identity: AnswerIdentity, wishes: ResponsesWishes): ReplyStream {
  let sequence = 0
  const frame = ({ type, ...fields }: Event): string => {
    const data = JSON.stringify({ type, sequence_number: sequence, ...fields })
    sequence += 1
    return `event: ${type}\ndata: ${data}\n\n`
  }
  const lifecycle = (type: string, state: ResponseState): string => frame({ type, response: responseObject(identity, wishes, state) })
  const inProgress = (): string => lifecycle('response.in_progress', { status: 'in_progress' })

  const told = nothingTold()
  let open: OpenItem | null = null
  let index = -1

  function* begin(make: OpenItem['make']): Iterable<Event> {
    yield* end('completed')
    index += 1
    open = { make, begun: make('', 'in_progress'), text: '' }
    yield* beginning(open.begun, index)
  }

  function* grow(text: string): Iterable<Event> {
    if (open === null || text === '') return
    open.text += text
    yield* growth(open.begun, index, text)
  }

  function* end(status: ItemStatus): Iterable<Event> {
    if (open === null) return
    const item = open.make(open.text, status)
    open = null
    yield* ending(item, index)
    yield { type: 'response.output_item.done', output_index: index, item }
  }

  const message = (text: string, status: ItemStatus): OutputItem => messageItem(text, status, identity.id, index)

  function* tell(added: AnswerDelta): Iterable<Event> {
    addTold(told, added)
    switch (added.type) {
      case 'reasoning':
        if (open?.begun.type !== 'reasoning') yield* begin((text) => reasoningItem(text, identity.id, index))
        return yield* grow(added.text)
      case 'content':
        if (open?.begun.type !== 'message') yield* begin(message)
        return yield* grow(added.text)
      case 'call': {
        const face = wishes.faces.get(added.name)
        const callOf = (text: string): ToolCall => ({ id: added.id, type: 'function', function: { name: added.name, arguments: text } })
        yield* begin((text, status) => writeCall(callOf(text), face, status, identity.id, index))
        return yield* grow(added.arguments)
      }
      case 'arguments':
        return yield* grow(added.text)
      default:
        return unreachable(added)
    }
  }

  function* rest(answer: ChatAnswer): Iterable<Event> {
    for (const added of restOf(answer, told)) yield* tell(added)
    // An answer that says nothing has a message that says so.
    if (told.content === 0 && told.calls.length === 0) yield* begin(message)
    yield* end(lastStatus(answer))
  }

  return {
    open: () => lifecycle('response.created', { status: 'in_progress' }) + inProgress(),
    beat: inProgress,
    delta: (added) => [...tell(added)].map(frame).join(''),
    *answer(answer: ChatAnswer) {
      for (const event of rest(answer)) yield frame(event)
      const type = incompleteReason(answer) === null ? 'response.completed' : 'response.incomplete'
      yield lifecycle(type, { status: 'answered', answer, output: writeOutput(answer, identity, wishes.faces) })
    },
    failure: (failure) => lifecycle('response.failed', { status: 'failed', error: streamedError(failure) }),
  }
}

/** An item that is being told: its text so far, and what it is with a text. */
type OpenItem = {
  readonly make: (text: string, status: ItemStatus) => OutputItem
  readonly begun: OutputItem
  text: string
}

const added = (index: number, item: object): Event => ({ type: 'response.output_item.added', output_index: index, item })

/** What is known of an item before its text, of which it holds none yet. */
function beginning(item: OutputItem, index: number): readonly Event[] {
  const at = { item_id: item.id, output_index: index }
  switch (item.type) {
    case 'reasoning':
      return [
        added(index, { id: item.id, type: item.type, summary: [] }),
        { type: 'response.reasoning_summary_part.added', ...at, summary_index: 0, part: { type: 'summary_text', text: '' } },
      ]
    case 'message':
      return [
        added(index, { ...item, content: [] }),
        { type: 'response.content_part.added', ...at, content_index: 0, part: outputText('') },
      ]
    case 'function_call':
    case 'custom_tool_call':
      return [added(index, item)]
    default:
      return []
  }
}

/** What a piece of the text is told as; nothing for an item that is made of its whole text. */
function growth(item: OutputItem, index: number, delta: string): readonly Event[] {
  const at = { item_id: item.id, output_index: index }
  switch (item.type) {
    case 'reasoning':
      return [{ type: 'response.reasoning_summary_text.delta', ...at, summary_index: 0, delta }]
    case 'message':
      return [{ type: 'response.output_text.delta', ...at, content_index: 0, delta, logprobs: [] }]
    case 'function_call':
      return [{ type: 'response.function_call_arguments.delta', ...at, delta }]
    default:
      return []
  }
}

/** What is told of an item when its text is whole, up to the event that it is done. */
function ending(item: OutputItem, index: number): readonly Event[] {
  const at = { item_id: item.id, output_index: index }
  switch (item.type) {
    case 'reasoning':
      return item.summary.flatMap((part) => [
        { type: 'response.reasoning_summary_text.done', ...at, summary_index: 0, text: part.text },
        { type: 'response.reasoning_summary_part.done', ...at, summary_index: 0, part },
      ])
    case 'message':
      return item.content.flatMap((part) => [
        { type: 'response.output_text.done', ...at, content_index: 0, text: part.text, logprobs: [] },
        { type: 'response.content_part.done', ...at, content_index: 0, part },
      ])
    case 'function_call':
      return [{ type: 'response.function_call_arguments.done', ...at, name: item.name, arguments: item.arguments }]
    case 'custom_tool_call':
      return [
        ...pieces(item.input).map((delta): Event => ({ type: 'response.custom_tool_call_input.delta', ...at, delta })),
        { type: 'response.custom_tool_call_input.done', ...at, input: item.input },
      ]
    default:
      return [added(index, { ...item, status: 'in_progress' })]
  }
}
