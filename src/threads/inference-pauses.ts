// Whose model calls are held: pauses of one gateway or of several as one, kept for a gateway's thread that starts again.
import type { AskGateway, InferenceStatus, PauseReply } from '../actors/gateway/protocol.ts'
import type { GatewayId } from '../contract/ids.ts'

/** `silent`: it did not answer, as a thread that is gone does not. */
type PauseRefusal = { readonly gateway: GatewayId; readonly error: 'timed-out' | 'resumed' | 'silent' }

type PausedOrNot = { readonly ok: true; readonly statuses: readonly InferenceStatus[] } | ({ readonly ok: false } & PauseRefusal)

export type InferencePauses = {
  /** Every gateway of this node. */
  readonly gateways: readonly GatewayId[]
  /** Whether one whose thread starts now holds its calls from the start. */
  holds(gateway: GatewayId): boolean
  /** Its thread has started: a resume that found none is made up for. */
  started(gateway: GatewayId): void
  /** Null when it does not answer. */
  read(gateway: GatewayId): Promise<InferenceStatus | null>
  /**
   * Holds the calls of all of them, or changes nothing: those that were paused before stay so, all others go on as soon as one has
   * failed. A resume ends every pause that was asked for before it, also those that still wait.
   */
  pause(gateways: readonly GatewayId[], timeoutMs: number): Promise<PausedOrNot>
  /** Null for one that does not answer: its calls are not held when it starts again. */
  resume(gateways: readonly GatewayId[]): Promise<readonly (InferenceStatus | null)[]>
}

/** Who wants a gateway's calls held: somebody whose pause was granted, and those who still wait for theirs. */
type Hold = { isGranted: boolean; readonly pending: Set<symbol> }

/** For the answer after the last call has ended, or has not in time. */
const ANSWER_MS = 5_000

export function openInferencePauses(gateways: readonly GatewayId[], askGateway: AskGateway): InferencePauses {
  const holds = new Map<GatewayId, Hold>()

  function holdOf(gateway: GatewayId): Hold {
    const known = holds.get(gateway) ?? { isGranted: false, pending: new Set() }
    holds.set(gateway, known)
    return known
  }

  function isHeld(gateway: GatewayId): boolean {
    const { isGranted, pending } = holdOf(gateway)
    return isGranted || pending.size > 0
  }

  async function resumeOne(gateway: GatewayId): Promise<InferenceStatus | null> {
    const answer = await askGateway<InferenceStatus>(gateway, (ask) => ({ type: 'resume-inference', ask }))
    return answer.ok ? answer.value : null
  }

  /** A resume may have ended this claim already, and what is held now is held for others. */
  async function giveUp(gateway: GatewayId, claim: symbol): Promise<void> {
    if (holdOf(gateway).pending.delete(claim) && !isHeld(gateway)) await resumeOne(gateway)
  }

  async function pauseOne(gateway: GatewayId, timeoutMs: number): Promise<InferenceStatus | PauseRefusal> {
    const answer = await askGateway<PauseReply>(gateway, (ask) => ({ type: 'pause-inference', timeoutMs, ask }), timeoutMs + ANSWER_MS)
    if (!answer.ok) return { gateway, error: 'silent' }
    const { type, status } = answer.value
    return type === 'paused' ? status : { gateway, error: type }
  }

  return {
    gateways,
    holds: isHeld,
    started(gateway) {
      if (!isHeld(gateway)) void resumeOne(gateway)
    },
    async read(gateway) {
      const answer = await askGateway<InferenceStatus>(gateway, (ask) => ({ type: 'read-inference', ask }))
      return answer.ok ? answer.value : null
    },
    async pause(wanted, timeoutMs) {
      const claim = Symbol('pause')
      for (const gateway of wanted) holdOf(gateway).pending.add(claim)
      const refusals: PauseRefusal[] = []
      const refuse = async (refusal: PauseRefusal): Promise<void> => {
        refusals.push(refusal)
        await Promise.all(wanted.map((gateway) => giveUp(gateway, claim)))
      }
      const replies = await Promise.all(
        wanted.map(async (gateway) => {
          const reply = await pauseOne(gateway, timeoutMs)
          if ('error' in reply) await refuse(reply)
          return reply
        }),
      )
      // One may have been resumed while another was still draining.
      const lost = wanted.find((gateway) => !holdOf(gateway).pending.has(claim))
      if (refusals.length === 0 && lost !== undefined) await refuse({ gateway: lost, error: 'resumed' })
      const [first] = refusals
      if (first !== undefined) return { ok: false, ...first }
      for (const gateway of wanted) {
        const hold = holdOf(gateway)
        hold.pending.delete(claim)
        hold.isGranted = true
      }
      return { ok: true, statuses: replies.filter((reply): reply is InferenceStatus => !('error' in reply)) }
    },
    resume(wanted) {
      for (const gateway of wanted) holds.delete(gateway)
      return Promise.all(wanted.map(resumeOne))
    },
  }
}
