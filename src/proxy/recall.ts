// The answers of one session, put back byte for byte when a client returns them in its own spelling.
import type { Diagnostic } from '../contract/call.ts'
import type { AnswerMessage, AssistantMessage, ChatMessage, Tool, ToolCall } from './chat.ts'
import { type ComparisonBudget, charsIn, openComparisonBudget } from './comparison-budget.ts'
import { canonicalText } from './json.ts'
import { note } from './notes.ts'
import { isRewordedCall, type ToolsByName, toolsByName } from './rewording.ts'
import { difference, fingerprint, isSameCall, isSpellingOf } from './spelling.ts'

type Recalled = { readonly messages: readonly ChatMessage[]; readonly diagnostics: readonly Diagnostic[] }

export type Recall = {
  /**
   * Keeps the answer, and gives it as the client is told it: with call ids that every dialect takes and that are unique in the session.
   * `echo` is the call as the client's dialect gives it back; `toldIds` are those by which the client knows its first calls already.
   */
  remember(call: string, message: AnswerMessage, echo: (call: ToolCall) => ToolCall, toldIds?: readonly string[]): AnswerMessage
  /** The id by which a client is told of a call before its answer is whole; no other call is given it, whatever becomes of that answer. */
  reserve(id: string): string
  /**
   * Puts back what an answer said, ids of calls and of their results included; what the client changed stays as it wrote it.
   * `tools` are those of the same request: a client fills in their defaults.
   */
  restore(messages: readonly ChatMessage[], tools?: readonly Tool[] | null): Recalled
}

type Answer = {
  readonly message: AnswerMessage
  /** By position, the ids that the client was told for its calls. */
  readonly toldIds: readonly string[]
  /** By call of the message, what a client that changed nothing gives back. */
  readonly echoes: ReadonlyMap<ToolCall, ToolCall>
  readonly key: string
  /** Its reasoning, as clients trim it. */
  readonly thought: string
  readonly chars: number
}

/** Answers that clients return in the same words. */
type Alike = { answers: readonly Answer[]; readonly byThought: Map<string, readonly Answer[]> }

/** A conversation that is being restored. */
type Restoring = {
  /** How its calls are named here, by the client's names. */
  readonly ids: Map<string, string>
  /** How often an answer of each fingerprint has come back so far. */
  readonly seen: Map<string, number>
  readonly same: SameCallOf
  readonly reworded: SameCallOf
  readonly budget: ComparisonBudget
  readonly diagnostics: Diagnostic[]
}

type SameCallOf = (answer: Answer) => (given: ToolCall, returned: ToolCall) => boolean

/** One call of an answer, found by the id the client was told. */
type ToldCall = { readonly answer: Answer; readonly call: ToolCall }

/** More than a session can have calls that matter: what is older came back long ago, or never will. */
const MAX_ANSWERS = 4_096
/** What Anthropic takes as an id, the narrowest of the dialects. */
const TELLABLE_ID = /^[A-Za-z0-9_-]{1,64}$/

/** `newId` gives the id of a call whose own one cannot be told. */
export function openRecall(newId: () => string): Recall {
  const answers = new Map<string, Answer>()
  /** By what a client can be expected to return, oldest first. */
  const alike = new Map<string, Alike>()
  const told = new Map<string, ToldCall>()
  const reserved = new Set<string>()

  function tell(id: string): string {
    const isFree = (each: string): boolean => !told.has(each) && !reserved.has(each)
    if (TELLABLE_ID.test(id) && isFree(id)) return id
    for (let fresh = newId(); ; fresh = newId()) if (isFree(fresh)) return fresh
  }

  function forget(): void {
    for (const [call, answer] of answers) {
      if (answers.size <= MAX_ANSWERS) return
      answers.delete(call)
      for (const id of answer.toldIds) told.delete(id)
      const same = alike.get(answer.key)
      if (same === undefined) continue
      same.answers = same.answers.filter((other) => other !== answer)
      const left = same.answers.filter(({ thought }) => thought === answer.thought)
      if (left.length === 0) same.byThought.delete(answer.thought)
      else same.byThought.set(answer.thought, left)
      if (same.answers.length === 0) alike.delete(answer.key)
    }
  }

  /** The answers that an assistant message says to be, by its signature and by the ids of its calls. */
  function claimed(message: AssistantMessage): readonly Answer[] {
    const signed = message.origin === undefined ? undefined : answers.get(message.origin)
    const named = (message.tool_calls ?? []).map((call) => told.get(call.id)?.answer)
    return [...new Set([signed, ...named])].filter((answer) => answer !== undefined)
  }

  /** The answers that it may be by its words, the likeliest first. */
  function spelt(message: AssistantMessage, key: string, { seen, budget }: Restoring): readonly Answer[] {
    const known = alike.get(key)
    if (known === undefined) return []
    const same = known.answers
    const thought = byReasoning(known, message.reasoning_content, budget)
    // Nothing but the words: answers that say the same come back in the order in which they were given.
    const inOrder = message.reasoning_content === undefined ? (same[seen.get(key) ?? 0] ?? same.at(-1)) : undefined
    return [thought, inOrder, ...same.slice(0, 1)].filter((answer) => answer !== undefined)
  }

  function restoreTurn(message: AssistantMessage, place: string, restoring: Restoring): AssistantMessage {
    const { ids, seen, same, reworded, budget, diagnostics } = restoring
    const key = fingerprint(message)
    const known = claimed(message)
    const possible = spelt(message, key, restoring)
    seen.set(key, (seen.get(key) ?? 0) + 1)
    const { origin: _origin, ...own } = message
    const ownChars = charsIn(message)
    if (![...known, ...possible].every(({ chars }) => budget.spend(chars + ownChars))) {
      note('history-unread', place, diagnostics)
      return own
    }
    // Only of an answer that is known to be this one may it be said what the client made of it.
    const answer =
      known.find((each) => isSpellingOf(message, each.message, reworded(each))) ??
      possible.find((each) => isSpellingOf(message, each.message, same(each)))
    if (answer !== undefined) {
      for (const [position, call] of (own.tool_calls ?? []).entries()) {
        ids.set(call.id, answer.message.tool_calls?.[position]?.id ?? call.id)
      }
      if (canonicalText(own) !== canonicalText(answer.message)) note('history-restored', place, diagnostics)
      return own.name === undefined ? answer.message : { ...answer.message, name: own.name }
    }
    const [changed] = [...known, ...possible]
    if (changed === undefined) return own
    note('history-changed', `${place}: ${difference(own, changed.message, reworded(changed))}`, diagnostics)
    return withOwnCalls(own, restoring)
  }

  /** In a message that was changed, a call that was not keeps its own text; every known id is the engine's again. */
  function withOwnCalls(message: AssistantMessage, { ids, reworded, budget }: Restoring): AssistantMessage {
    if (message.tool_calls === undefined) return message
    const calls = message.tool_calls.map((call) => {
      const known = told.get(call.id)
      if (known === undefined) return call
      ids.set(call.id, known.call.id)
      const isRead = budget.spend(known.call.function.arguments.length + call.function.arguments.length)
      return isRead && reworded(known.answer)(known.call, call) ? known.call : { ...call, id: known.call.id }
    })
    return { ...message, tool_calls: calls }
  }

  return {
    reserve(id) {
      const given = tell(id)
      reserved.add(given)
      return given
    },

    remember(call, message, echo, reservedIds = []) {
      const calls = message.tool_calls ?? []
      const echoes = new Map(calls.map((each) => [each, echo(each)]))
      const key = fingerprint({ ...message, tool_calls: [...echoes.values()] })
      const toldIds: string[] = []
      const thought = (message.reasoning_content ?? '').trim()
      const answer: Answer = { message, toldIds, echoes, key, thought, chars: charsIn(message) }
      for (const [position, each] of calls.entries()) {
        const id = reservedIds[position] ?? tell(each.id)
        reserved.delete(id)
        toldIds.push(id)
        told.set(id, { answer, call: each })
      }
      answers.set(call, answer)
      const same = alike.get(key) ?? { answers: [], byThought: new Map() }
      same.answers = [...same.answers, answer]
      same.byThought.set(thought, [...(same.byThought.get(thought) ?? []), answer])
      alike.set(key, same)
      forget()
      return calls.length === 0
        ? message
        : { ...message, tool_calls: calls.map((each, index) => ({ ...each, id: toldIds[index] ?? each.id })) }
    },

    restore(messages, tools) {
      const diagnostics: Diagnostic[] = []
      const ids = new Map<string, string>()
      const restoring: Restoring = {
        ids,
        seen: new Map(),
        same: sameCall(null),
        reworded: sameCall(toolsByName(tools ?? [])),
        budget: openComparisonBudget(),
        diagnostics,
      }

      const restored = messages.map((message, index): ChatMessage => {
        if (message.role === 'tool') {
          const id = ids.get(message.tool_call_id) ?? told.get(message.tool_call_id)?.call.id
          return id === undefined || id === message.tool_call_id ? message : { ...message, tool_call_id: id }
        }
        return message.role === 'assistant' ? restoreTurn(message, `messages[${index}]`, restoring) : message
      })
      return { messages: restored, diagnostics }
    },
  }
}

/** Whether a call of the answer came back unchanged; with `tools`, also whether an agent cleaned it up. */
function sameCall(tools: ToolsByName | null): SameCallOf {
  return ({ echoes }) =>
    (given, returned) =>
      isSameCall(given, returned) ||
      isSameCall(echoes.get(given) ?? given, returned) ||
      (tools !== null && isRewordedCall(given, returned, tools))
}

function byReasoning({ answers, byThought }: Alike, reasoning: string | undefined, budget: ComparisonBudget): Answer | undefined {
  if (reasoning === undefined) return undefined
  const thought = reasoning.trim()
  const trimmed = byThought.get(thought)
  if (trimmed === undefined) return answers.find((answer) => budget.spend(answer.chars) && answer.thought.endsWith(thought))
  return (budget.spend(trimmed.length) ? trimmed.find(({ message }) => message.reasoning_content === reasoning) : undefined) ?? trimmed[0]
}
