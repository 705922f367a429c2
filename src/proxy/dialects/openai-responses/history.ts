// The conversation that input items tell → the pivot's messages: one assistant message for one turn, its results right after it.
import type { Diagnostic } from '../../../contract/call.ts'
import { unreachable } from '../../../kernel/unreachable.ts'
import type { ChatMessage, ContentPart, ToolCall } from '../../chat.ts'
import { note } from '../../notes.ts'
import { assistantMessage } from '../assistant-message.ts'
import { contentOf } from '../content.ts'
import { refuse } from '../reading.ts'
import type { Piece, Said } from './items.ts'
import type { ToolOutput } from './tool-output.ts'

type Turn = {
  origin: string | null
  readonly reasoning: string[]
  /** Null until a message item has been seen. */
  parts: ContentPart[] | null
  readonly calls: ToolCall[]
  /** By call id, in the order of arrival. */
  readonly results: Map<string, ToolOutput>
}

type Block =
  | { readonly type: 'turn'; readonly turn: Turn }
  | { readonly type: 'message'; readonly message: ChatMessage }
  /** Parts without a message around them: the user's. */
  | { readonly type: 'loose'; readonly parts: ContentPart[] }

export type HistoryContext = {
  /** True when earlier calls may be part of a response that is named only. */
  readonly isContinued: boolean
  readonly diagnostics: Diagnostic[]
}

export function arrange(pieces: readonly Piece[], context: HistoryContext): readonly ChatMessage[] {
  const blocks = openBlocks(context)
  for (const piece of pieces) {
    switch (piece.type) {
      case 'said':
        blocks.say(piece)
        break
      case 'result':
        blocks.answer(piece)
        break
      case 'message':
        blocks.follow({ type: 'message', message: piece.message })
        break
      case 'part':
        blocks.gather(piece.part)
        break
      case 'tools':
        break
      default:
        unreachable(piece)
    }
  }
  return blocks.found.flatMap(messagesOf)
}

type PieceOf<Type extends Piece['type']> = Extract<Piece, { readonly type: Type }>

/** The blocks of a conversation as its pieces arrive. */
function openBlocks({ isContinued, diagnostics }: HistoryContext) {
  const found: Block[] = []
  /** Calls by their own ids and by those of their items; the last one of an id that clients use again. */
  const asked = new Map<string, { readonly id: string; readonly by: Turn }>()
  const answered = new Set<string>()
  let turn: Turn | null = null
  /** True when something else has followed the turn. */
  let isOver = false

  function open(): Turn {
    const opened: Turn = { origin: null, reasoning: [], parts: null, calls: [], results: new Map() }
    found.push({ type: 'turn', turn: opened })
    isOver = false
    return opened
  }
  /** Items of one answer name it; where they do not, a turn ends with its first result or with somebody else's word. */
  function goesOn(known: Turn, origin: string | null): boolean {
    if (known.origin !== null && origin !== null) return known.origin === origin
    return !isOver && known.results.size === 0
  }
  function follow(block: Block): void {
    found.push(block)
    isOver = true
  }

  return {
    found,
    follow,
    say({ origin, what, place }: PieceOf<'said'>): void {
      if (turn === null || !goesOn(turn, origin)) turn = open()
      else if (isOver) note('order-approximated', place, diagnostics)
      turn.origin ??= origin
      add(turn, what)
      if (what.type !== 'call') return
      const { call, itemId } = what
      for (const name of itemId === null ? [call.id] : [itemId, call.id]) asked.set(name, { id: call.id, by: turn })
      answered.delete(call.id)
    },
    answer({ of, output, place }: PieceOf<'result'>): void {
      const call = asked.get(of)
      const id = call?.id ?? of
      if (call === undefined && !isContinued) refuse(`${place}.call_id`, `no tool call before it has the id ${JSON.stringify(id)}`)
      if (answered.has(id)) {
        note('block-dropped', `${place}: a second result of one call`, diagnostics)
        return
      }
      answered.add(id)
      if (turn === null || (isOver && call?.by !== turn)) turn = open()
      else if (isOver) note('order-approximated', place, diagnostics)
      if (output.images.length > 0) note('order-approximated', `${place}: images follow the results`, diagnostics)
      turn.results.set(id, output)
    },
    gather(part: ContentPart): void {
      const last = found.at(-1)
      if (last?.type === 'loose') last.parts.push(part)
      else follow({ type: 'loose', parts: [part] })
    },
  }
}

function add(turn: Turn, what: Said): void {
  switch (what.type) {
    case 'reasoning':
      if (what.text !== '') turn.reasoning.push(what.text)
      return
    case 'text':
      turn.parts ??= []
      for (const part of what.parts) turn.parts.push(part)
      return
    case 'call':
      turn.calls.push(what.call)
      return
    default:
      unreachable(what)
  }
}

function messagesOf(block: Block): readonly ChatMessage[] {
  switch (block.type) {
    case 'turn':
      return spoken(block.turn)
    case 'message':
      return [block.message]
    case 'loose':
      return [{ role: 'user', content: contentOf(block.parts) }]
    default:
      return unreachable(block)
  }
}

function spoken({ origin, reasoning, parts, calls, results }: Turn): readonly ChatMessage[] {
  const message = assistantMessage({ content: contentOf(parts ?? []), reasoning: reasoning.join('\n'), calls, origin })
  const own = calls.filter((call) => results.has(call.id)).map((call) => call.id)
  const ids = new Set([...own, ...results.keys()])
  const told = [...ids].flatMap((id): readonly ChatMessage[] => {
    const output = results.get(id)
    return output === undefined ? [] : [{ role: 'tool', tool_call_id: id, content: output.text }]
  })
  // A tool message of a chat engine holds text alone, and nothing may stand between results: images come after all of them.
  const images = [...ids].flatMap((id) => results.get(id)?.images ?? [])
  const shown: readonly ChatMessage[] = images.length === 0 ? [] : [{ role: 'user', content: images }]
  // Results that came back after later turns have no words before them.
  const isEmpty = origin === null && reasoning.length === 0 && parts === null && calls.length === 0
  return [...(isEmpty ? [] : [message]), ...told, ...shown]
}
