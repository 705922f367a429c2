// Which call a result answers: by id, else by name and order among the calls of the turn before.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ChatMessage, ContentPart, ToolCall } from '../../chat.ts'
import { note } from '../../notes.ts'
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

/** The result of a call, which may come in pieces. */
type Answered = {
  readonly id: string
  readonly first: string
  readonly texts: string[]
  readonly images: ContentPart[]
}

export function openPairing(diagnostics: Diagnostic[]): Pairing {
  let open = openCalls([])
  /** Calls of earlier turns that have a result. */
  const earlier = new Set<string>()
  let orphans = 0
  let unpaired: string | null = null

  /** Counted under an id of its own; a generation is refused. */
  function orphan({ place, id }: Result): string {
    orphans += 1
    unpaired ??= place
    return id ?? `result_${orphans}`
  }

  return {
    ask(calls) {
      open = openCalls(calls)
    },
    answer(results) {
      const answered: Answered[] = []
      const byId = new Map<string | null, Answered>()
      /** By the name and the id that a result came with: another id under the same name answers another call. */
      const byKey = new Map<string, Answered>()
      for (const result of results) {
        const told = JSON.stringify([result.text, result.images])
        const key = JSON.stringify([result.name, result.id])
        // An open call wins: some clients use an id again in a later turn.
        const awaited = open.byId(result.id)
        const named = open.byName(result.name)
        const again = awaited === null ? (byId.get(result.id) ?? (named === null ? byKey.get(key) : undefined)) : undefined
        const isOld = awaited === null && again === undefined && result.id !== null && earlier.has(result.id)
        if (again?.first === told || isOld) {
          note('block-dropped', `${result.place}: the call has its result`, diagnostics)
        } else if (again !== undefined) {
          // Some clients repeat a result, others give it in several pieces.
          note('block-joined', `${result.place}: the call has a result already`, diagnostics)
          again.texts.push(result.text)
          for (const image of result.images) again.images.push(image)
        } else {
          const call = awaited ?? named
          if (call !== null) open.close(call)
          const one: Answered = { id: call?.id ?? orphan(result), first: told, texts: [result.text], images: [...result.images] }
          answered.push(one)
          byId.set(one.id, one)
          byKey.set(key, one)
        }
      }
      for (const { id } of answered) earlier.add(id)
      return answered.map(({ id, texts, images }) => ({ id, text: texts.join('\n'), images }))
    },
    unpaired: () => unpaired,
  }
}

/** Calls without a result, in the order in which they were asked. */
type OpenCalls = {
  byId(id: string | null): ToolCall | null
  byName(name: string | null): ToolCall | null
  close(call: ToolCall): void
}

function openCalls(calls: readonly ToolCall[]): OpenCalls {
  const open = new Set(calls)
  const lastFirst = calls.toReversed()
  const ids = Map.groupBy<string | null, ToolCall>(lastFirst, (call) => call.id)
  const names = Map.groupBy<string | null, ToolCall>(lastFirst, (call) => call.function.name)
  function first(queue: ToolCall[] | undefined): ToolCall | null {
    for (let call = queue?.at(-1); call !== undefined; call = queue?.at(-1)) {
      if (open.has(call)) return call
      queue?.pop()
    }
    return null
  }
  return {
    byId: (id) => first(ids.get(id)),
    byName: (name) => first(names.get(name)),
    close: (call) => open.delete(call),
  }
}

export function resultMessage({ id, text }: Paired): ChatMessage {
  return { role: 'tool', tool_call_id: id, content: text }
}
