// The pivot → a complete Responses stream: created, in_progress, each item from added to done, and how the response ended.
import type { ChatAnswer } from '../../chat.ts'
import type { AnswerIdentity, ReplyStream } from '../dialect.ts'
import { pieces } from '../pieces.ts'
import { streamedError } from './error.ts'
import { type MessageItem, type OutputItem, outputText, type ReasoningItem, writeOutput } from './output.ts'
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

  return {
    open: () => lifecycle('response.created', { status: 'in_progress' }) + inProgress(),
    beat: inProgress,
    *answer(answer: ChatAnswer) {
      const output = writeOutput(answer, identity, wishes.faces)
      for (const [index, item] of output.entries()) for (const event of eventsOf(item, index)) yield frame(event)
      const type = incompleteReason(answer) === null ? 'response.completed' : 'response.incomplete'
      yield lifecycle(type, { status: 'answered', answer, output })
    },
    failure: (failure) => lifecycle('response.failed', { status: 'failed', error: streamedError(failure) }),
  }
}

/** Every item begins with what is known of it before its text, and ends with all of it. */
function* eventsOf(item: OutputItem, index: number): Iterable<Event> {
  const at = { item_id: item.id, output_index: index }
  const added = (begun: object): Event => ({ type: 'response.output_item.added', output_index: index, item: begun })
  switch (item.type) {
    case 'reasoning':
      yield added({ id: item.id, type: item.type, summary: [] })
      yield* summaryEvents(item, at)
      break
    case 'message':
      yield added({ ...item, status: 'in_progress', content: [] })
      yield* textEvents(item, at)
      break
    case 'function_call':
      yield added({ ...item, status: 'in_progress', arguments: '' })
      for (const delta of pieces(item.arguments)) yield { type: 'response.function_call_arguments.delta', ...at, delta }
      yield { type: 'response.function_call_arguments.done', ...at, name: item.name, arguments: item.arguments }
      break
    case 'custom_tool_call':
      yield added({ ...item, status: 'in_progress', input: '' })
      for (const delta of pieces(item.input)) yield { type: 'response.custom_tool_call_input.delta', ...at, delta }
      yield { type: 'response.custom_tool_call_input.done', ...at, input: item.input }
      break
    default:
      yield added({ ...item, status: 'in_progress' })
  }
  yield { type: 'response.output_item.done', output_index: index, item }
}

type Place = { readonly item_id: string; readonly output_index: number }

function* summaryEvents(item: ReasoningItem, at: Place): Iterable<Event> {
  for (const [index, part] of item.summary.entries()) {
    const here = { ...at, summary_index: index }
    yield { type: 'response.reasoning_summary_part.added', ...here, part: { ...part, text: '' } }
    for (const delta of pieces(part.text)) yield { type: 'response.reasoning_summary_text.delta', ...here, delta }
    yield { type: 'response.reasoning_summary_text.done', ...here, text: part.text }
    yield { type: 'response.reasoning_summary_part.done', ...here, part }
  }
}

function* textEvents(item: MessageItem, at: Place): Iterable<Event> {
  for (const [index, part] of item.content.entries()) {
    const here = { ...at, content_index: index }
    yield { type: 'response.content_part.added', ...here, part: outputText('') }
    for (const delta of pieces(part.text)) yield { type: 'response.output_text.delta', ...here, delta, logprobs: [] }
    yield { type: 'response.output_text.done', ...here, text: part.text, logprobs: [] }
    yield { type: 'response.content_part.done', ...here, part }
  }
}
