// Which call a result answers: by id, else by name and order among the calls of the turn before.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ChatMessage, ContentPart, ToolCall } from '../../chat.ts'
import { note } from '../reading.ts'
import type { Result } from './parts.ts'

/** A result under the id of its call. */
export type Paired = { readonly id: string; readonly text: string; readonly images: readonly ContentPart[] }

export type Pairing = {
  /** The calls of a turn, which the results after it answer. */
  ask(calls: readonly ToolCall[]): void
  /** The results between two turns, each call's once. */
  answer(results: readonly Result[]): readonly Paired[]
  /** Where the first result stands that no call asked for; null when every result has its call. */
  unpaired(): string | null
}

type Answered = {
  readonly call: ToolCall
  /** The id the result came with: another one under the same name answers another call. */
  readonly given: string | null
  readonly first: string
  text: string
  images: readonly ContentPart[]
}

export function openPairing(diagnostics: Diagnostic[]): Pairing {
  let open: ToolCall[] = []
  /** Calls of earlier turns that have a result. */
  const earlier = new Set<string>()
  const orphans: string[] = []

  function take(result: Result): ToolCall | null {
    const byId = open.findIndex((call) => call.id === result.id)
    const index = byId === -1 ? open.findIndex((call) => call.function.name === result.name) : byId
    return open.splice(index, index === -1 ? 0 : 1)[0] ?? null
  }

  /** A call without an open one left is answered again: some clients repeat a result, others give it in several pieces. */
  function repeated(result: Result, answered: readonly Answered[]): Answered | null {
    const byId = answered.find(({ call }) => call.id === result.id)
    if (byId !== undefined || open.some((call) => call.function.name === result.name)) return byId ?? null
    return answered.findLast(({ call, given }) => call.function.name === result.name && given === result.id) ?? null
  }

  function answer(result: Result, answered: Answered[]): void {
    const told = JSON.stringify([result.text, result.images])
    // An open call wins: some clients use an id again in a later turn.
    const isAwaited = open.some((call) => call.id === result.id)
    const again = isAwaited ? null : repeated(result, answered)
    if (again?.first === told || (again === null && !isAwaited && result.id !== null && earlier.has(result.id))) {
      note('block-dropped', `${result.place}: the call has its result`, diagnostics)
      return
    }
    if (again !== null) {
      note('block-joined', `${result.place}: the call has a result already`, diagnostics)
      again.text += `\n${result.text}`
      again.images = [...again.images, ...result.images]
      return
    }
    const call = take(result) ?? orphan(result)
    answered.push({ call, given: result.id, first: told, text: result.text, images: result.images })
  }

  /** Counted under an id of its own; a generation is refused. */
  function orphan({ place, id, name }: Result): ToolCall {
    orphans.push(place)
    return { id: id ?? `result_${orphans.length}`, type: 'function', function: { name: name ?? '', arguments: '{}' } }
  }

  return {
    ask(calls) {
      open = [...calls]
    },
    answer(results) {
      const answered: Answered[] = []
      for (const result of results) answer(result, answered)
      for (const { call } of answered) earlier.add(call.id)
      return answered.map(({ call, text, images }) => ({ id: call.id, text, images }))
    },
    unpaired: () => orphans[0] ?? null,
  }
}

export function resultMessage({ id, text }: Paired): ChatMessage {
  return { role: 'tool', tool_call_id: id, content: text }
}
