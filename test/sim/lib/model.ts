// The simulated policy: made-up token ids that belong to exactly one session, and a log of everything it ever sampled.
import type { Random } from '../../../src/kernel/clock.ts'

/** One generation, as the engine made it. `isSound`: its ids and logprobs were reported as they are. */
export type Emission = {
  /** `<session>#<attempt>`, as the agent wrote it into its prompt. */
  readonly owner: string
  readonly promptIds: readonly number[]
  readonly sampledIds: readonly number[]
  readonly logprobs: readonly number[]
  readonly content: string
}

export type ChatMessage = { readonly role: string; readonly content: string }

export type Model = {
  sample(messages: readonly ChatMessage[]): Emission
  readonly emissions: readonly Emission[]
  /** By its first sampled id, which no other emission has. */
  emissionOf(firstId: number): Emission | undefined
  /** Whose prompt or answer an id stands in; no id belongs to two. */
  ownerOfId(id: number): string | undefined
}

const OWNER = /\[(\S+#\d+)\]/

/** The mark by which every message of an attempt names its owner. */
export const ownerMark = (session: string, attempt: number | string): string => `[${session}#${attempt}]`

function ownerOf(messages: readonly ChatMessage[]): string {
  const owner = OWNER.exec(messages.map((message) => message.content).join('\n'))?.[1]
  if (owner === undefined) throw new Error('a prompt without an owner reached the simulated engine')
  return owner
}

export function openModel(random: Random): Model {
  const emissions: Emission[] = []
  const byFirstId = new Map<number, Emission>()
  /** Ids of a message's text as a prompt shows it: the same text of the same owner is always the same ids. */
  const known = new Map<string, readonly number[]>()
  /** By id. */
  const owners: string[] = []

  const fresh = (owner: string, count: number): readonly number[] => Array.from({ length: count }, () => owners.push(owner) - 1)

  function idsOf(owner: string, text: string, count: number): readonly number[] {
    const key = `${owner} ${text}`
    const ids = known.get(key) ?? fresh(owner, count)
    known.set(key, ids)
    return ids
  }

  return {
    emissions,
    ownerOfId: (id) => owners[id],
    emissionOf: (firstId) => byFirstId.get(firstId),
    sample(messages) {
      const owner = ownerOf(messages)
      const header = idsOf(owner, 'header', 2)
      const promptIds = [
        ...messages.flatMap(({ role, content }) =>
          role === 'assistant' ? [...header, ...idsOf(owner, `sampled ${content}`, 3)] : idsOf(owner, `${role} ${content}`, 3),
        ),
        ...header,
      ]
      const sampledIds = fresh(owner, 1 + Math.floor(random.next() * 6))
      const content = `[${owner}] said ${sampledIds.join(' ')}`
      // History repeats what was sampled, id for id: the next prompt extends this one.
      known.set(`${owner} sampled ${content}`, sampledIds)
      const logprobs = sampledIds.map(() => -Math.fround(random.next() * 3))
      const emission: Emission = { owner, promptIds, sampledIds, logprobs, content }
      emissions.push(emission)
      byFirstId.set(sampledIds[0] ?? -1, emission)
      return emission
    },
  }
}
