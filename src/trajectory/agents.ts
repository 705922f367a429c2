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

/** Of answers, given in sequence, the one that most likely spawned a sub-agent. */
export function likelySpawner(calls: readonly BuilderCall[], answers: readonly number[]): number | null {
  return answers.findLast((at) => calls[at]?.record.finishReason === 'tool_calls') ?? answers.at(-1) ?? null
}

export type Spawns = {
  /** The parent's answer that spawned the agent whose first call this is; null where it cannot be told. */
  spawnerOf(index: number): number | null
}

/** What an agent asked of tools, and what it was told: by the id of each call. */
type ToolUse = { readonly asked: ReadonlyMap<string, number>; readonly results: readonly { readonly id: string; readonly text: string }[] }

/**
 * A parent that goes on while its sub-agent works is told the sub-agent's name by the result of the call that spawned it. One that was told
 * nothing yet spawned it with its latest call.
 */
export function openSpawns(calls: readonly BuilderCall[], conversation: Conversation): Spawns {
  const uses = new Map<string, ToolUse>()

  function useOf(agent: string): ToolUse {
    const known = uses.get(agent)
    if (known !== undefined) return known
    const asked = new Map<string, number>()
    const told = new Set<number>()
    for (const [index, { record }] of calls.entries()) {
      if (record.lineage?.agent !== agent) continue
      for (const message of record.promptMessages) told.add(message)
      if (record.responseMessage !== null) for (const id of callIdsIn(conversation, record.responseMessage)) asked.set(id, index)
    }
    const results = [...told].flatMap((message) => {
      const id = conversation.message(message).tool_call_id
      return typeof id === 'string' ? [{ id, text: conversation.text(message) }] : []
    })
    const use = { asked, results }
    uses.set(agent, use)
    return use
  }

  return {
    spawnerOf(index) {
      const lineage = calls[index]?.record.lineage ?? null
      if (lineage === null || lineage.parent === null) return null
      const { agent, parent } = lineage
      const { asked, results } = useOf(parent)
      const naming = results.find(({ text }) => text.includes(agent))
      const named = naming === undefined ? undefined : asked.get(naming.id)
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
