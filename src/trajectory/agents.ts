// Whose calls they are, where the client says it: sub-agents, which have conversations of their own, and the answer that spawned each.
import type { BuilderCall } from './builder.ts'
import { type Conversation, isObject } from './conversation.ts'

/** The name of the sub-agent that made the call; null for calls of the main line, and of a client that names none. */
export function subagentOf({ record: { lineage } }: BuilderCall): string | null {
  return lineage === null || lineage.parent === null ? null : lineage.agent
}

/** Agents that a session began with count as one: a CLI that is started again goes on with a conversation under another name. */
export function areOfOneAgent(one: BuilderCall | undefined, other: BuilderCall | undefined): boolean {
  return one !== undefined && other !== undefined && subagentOf(one) === subagentOf(other)
}

/** Of answers, given in sequence, the one that most likely spawned a sub-agent: the latest that asked for a tool. */
export function likelySpawner(calls: readonly BuilderCall[], answers: readonly number[]): number | null {
  return answers.findLast((at) => calls[at]?.record.finishReason === 'tool_calls') ?? answers.at(-1) ?? null
}

/** Between a spawning call and the first one of its sub-agent other agents may ask for tools, but not without end. */
const SENDERS_LOOKED_AT = 64

/** The latest of these answers that sent somebody with the words that this call begins with; null where none did. */
export function senderOf(
  calls: readonly BuilderCall[],
  conversation: Conversation,
  answers: readonly number[],
  { record }: BuilderCall,
): number | null {
  const head = conversation.systemOf(record).length
  const turn = record.promptMessages.findIndex((message) => conversation.role(message) === 'assistant')
  const opening = record.promptMessages.slice(head, turn === -1 ? undefined : turn).flatMap((message) => conversation.texts(message))
  const senders = answers.filter((at) => calls[at]?.record.finishReason === 'tool_calls').slice(-SENDERS_LOOKED_AT)
  return senders.findLast((at) => sends(conversation, calls[at]?.record.responseMessage ?? null, opening)) ?? null
}

/** An agent may put a few words of its own around an errand, but a command that a long text mentions is none. */
function sends(conversation: Conversation, message: number | null, opening: readonly string[]): boolean {
  if (message === null) return false
  const { tool_calls: made } = conversation.message(message)
  if (!Array.isArray(made)) return false
  return made.some((call: unknown) => {
    if (!isObject(call) || !isObject(call.function) || typeof call.function.arguments !== 'string') return false
    const errands = textsIn(call.function.arguments)
    return opening.some((text) => errands.some((errand) => errand.length * 2 >= text.length && text.includes(errand)))
  })
}

function textsIn(argument: string): readonly string[] {
  try {
    const parsed: unknown = JSON.parse(argument)
    const values = isObject(parsed) ? Object.values(parsed) : []
    return values.flatMap((value) => (typeof value === 'string' && value.trim() !== '' ? [value.trim()] : []))
  } catch {
    // What a model sampled need not be JSON.
    return []
  }
}

export type Spawns = {
  /** The parent's answer that spawned the agent whose first call this is; null where it cannot be told. */
  spawnerOf(index: number): number | null
}

/**
 * A parent that goes on while its sub-agent works is told the sub-agent's name by the result of the call that spawned it. One that was told
 * nothing yet spawned it with its latest call.
 */
export function openSpawns(calls: readonly BuilderCall[], conversation: Conversation): Spawns {
  const known = new Map<string, ReadonlyMap<string, number>>()

  /** Of each sub-agent the answer whose tool call was first answered with its name. */
  function namesToldTo(parent: string): ReadonlyMap<string, number> {
    const names = new Set(calls.flatMap(({ record: { lineage } }) => (lineage?.parent === parent ? [lineage.agent] : [])))
    const asked = new Map<string, number>()
    const messages = new Set<number>()
    for (const [index, { record }] of calls.entries()) {
      if (record.lineage?.agent !== parent) continue
      for (const message of record.promptMessages) messages.add(message)
      if (record.responseMessage !== null) for (const id of callIdsIn(conversation, record.responseMessage)) asked.set(id, index)
    }
    const told = new Map<string, number>()
    for (const message of messages) {
      const { tool_call_id: id } = conversation.message(message)
      const by = typeof id === 'string' ? asked.get(id) : undefined
      if (by === undefined) continue
      for (const [word] of conversation.text(message).matchAll(/[\w-]+/g)) if (names.has(word) && !told.has(word)) told.set(word, by)
    }
    return told
  }

  return {
    spawnerOf(index) {
      const lineage = calls[index]?.record.lineage ?? null
      if (lineage === null || lineage.parent === null) return null
      const { agent, parent } = lineage
      const told = known.get(parent) ?? namesToldTo(parent)
      known.set(parent, told)
      const named = told.get(agent)
      if (named !== undefined && named < index) return named
      const answers = calls
        .slice(0, index)
        .flatMap(({ record }, at) => (record.lineage?.agent === parent && record.status === 'ok' ? [at] : []))
      return likelySpawner(calls, answers)
    },
  }
}

function callIdsIn(conversation: Conversation, message: number): readonly string[] {
  const { tool_calls: made } = conversation.message(message)
  if (!Array.isArray(made)) return []
  return made.flatMap((call: unknown) => (isObject(call) && typeof call.id === 'string' ? [call.id] : []))
}
