// The conversation that input items tell → the pivot's messages: one assistant message for one turn, its results right after it.
import type { Diagnostic } from '../../../contract/call.ts'
import { unreachable } from '../../../kernel/unreachable.ts'
import type { AssistantMessage, ChatMessage, ContentPart, ToolCall } from '../../chat.ts'
import { note, refuse } from '../reading.ts'
import { contentOf, type ToolOutput, textOf } from './content.ts'
import type { Piece, Said } from './items.ts'

type Turn = {
  origin: string | null
  readonly reasoning: string[]
  /** Null until a message item has been seen. */
  content: ContentPart[] | null
  readonly calls: ToolCall[]
  /** By call id, in the order of arrival. */
  readonly results: Map<string, ToolOutput>
  /** False for results that came back after later turns. */
  readonly isSpoken: boolean
}

type Block = { readonly type: 'turn'; readonly turn: Turn } | { readonly type: 'message'; readonly message: ChatMessage }

export type HistoryContext = {
  /** True when earlier calls may be part of a response that is named only. */
  readonly isContinued: boolean
  readonly diagnostics: Diagnostic[]
}

export function arrange(pieces: readonly Piece[], { isContinued, diagnostics }: HistoryContext): readonly ChatMessage[] {
  const blocks: Block[] = []
  /** Calls by their own ids and by those of their items; the last one of an id that clients use again. */
  const asked = new Map<string, { readonly id: string; readonly by: Turn }>()
  const answered = new Set<string>()
  let turn: Turn | null = null
  /** True when something else has followed the turn. */
  let isOver = false
  let loose: ContentPart[] | null = null

  function open(isSpoken: boolean): Turn {
    const opened: Turn = { origin: null, reasoning: [], content: null, calls: [], results: new Map(), isSpoken }
    blocks.push({ type: 'turn', turn: opened })
    isOver = false
    return opened
  }
  /** Items of one answer name it; where they do not, a turn ends with its first result or with somebody else's word. */
  function goesOn(known: Turn, origin: string | null): boolean {
    if (known.origin !== null && origin !== null) return known.origin === origin
    return !isOver && known.results.size === 0
  }

  for (const piece of pieces) {
    if (piece.type !== 'part' && piece.type !== 'tools') loose = null
    switch (piece.type) {
      case 'said':
        if (turn === null || !goesOn(turn, piece.origin)) turn = open(true)
        else if (isOver) note('order-approximated', piece.place, diagnostics)
        turn.origin ??= piece.origin
        add(turn, piece.what)
        if (piece.what.type === 'call') {
          const { call, itemId } = piece.what
          for (const name of itemId === null ? [call.id] : [itemId, call.id]) asked.set(name, { id: call.id, by: turn })
          answered.delete(call.id)
        }
        break
      case 'result': {
        const call = asked.get(piece.of)
        const id = call?.id ?? piece.of
        if (call === undefined && !isContinued) refuse(`${piece.place}.call_id`, `no tool call before it has the id ${JSON.stringify(id)}`)
        if (answered.has(id)) {
          note('block-dropped', `${piece.place}: a second result of one call`, diagnostics)
          break
        }
        answered.add(id)
        if (turn === null || (isOver && call?.by !== turn)) turn = open(false)
        else if (isOver) note('order-approximated', piece.place, diagnostics)
        if (piece.output.images.length > 0) note('order-approximated', `${piece.place}: images follow the results`, diagnostics)
        turn.results.set(id, piece.output)
        break
      }
      case 'message':
        blocks.push({ type: 'message', message: piece.message })
        isOver = true
        break
      case 'part':
        if (loose === null) {
          loose = []
          blocks.push({ type: 'message', message: { role: 'user', content: loose } })
          isOver = true
        }
        loose.push(piece.part)
        break
      case 'tools':
        break
      default:
        unreachable(piece)
    }
  }
  return blocks.flatMap((block) => (block.type === 'turn' ? spoken(block.turn) : [block.message])).map(collapsed)
}

function add(turn: Turn, what: Said): void {
  switch (what.type) {
    case 'reasoning':
      if (what.text !== '') turn.reasoning.push(what.text)
      return
    case 'text':
      turn.content ??= []
      for (const part of what.parts) turn.content.push(part)
      return
    case 'call':
      turn.calls.push(what.call)
      return
    default:
      unreachable(what)
  }
}

function spoken(turn: Turn): readonly ChatMessage[] {
  const { origin, reasoning, content, calls, results, isSpoken } = turn
  const message: AssistantMessage = {
    role: 'assistant',
    content: content === null && calls.length > 0 ? null : contentOf(content ?? []),
    ...(reasoning.length === 0 ? {} : { reasoning_content: reasoning.join('\n') }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(origin === null ? {} : { origin }),
  }
  const own = calls.filter((call) => results.has(call.id)).map((call) => call.id)
  const ids = new Set([...own, ...results.keys()])
  const told = [...ids].flatMap((id): readonly ChatMessage[] => {
    const output = results.get(id)
    return output === undefined ? [] : [{ role: 'tool', tool_call_id: id, content: output.text }]
  })
  // A tool message of a chat engine holds text alone, and nothing may stand between results: images come after all of them.
  const images = [...ids].flatMap((id) => results.get(id)?.images ?? [])
  const shown: readonly ChatMessage[] = images.length === 0 ? [] : [{ role: 'user', content: images }]
  const isEmpty = origin === null && reasoning.length === 0 && content === null && calls.length === 0
  return [...(isSpoken && !isEmpty ? [message] : []), ...told, ...shown]
}

/** Loose parts are gathered as parts; texts alone become a string like any other message's. */
function collapsed(message: ChatMessage): ChatMessage {
  if (message.role !== 'user' || typeof message.content === 'string') return message
  return message.content.every((part) => part.type === 'text') ? { ...message, content: textOf(message.content) } : message
}
