// A trainer that updates weights: it pauses inference now and then, of one gateway or of all, and leaves nothing paused behind.
import type { GatewayId } from '../../../src/contract/ids.ts'
import type { World } from '../../../src/kernel/world.ts'
import type { InferencePauses } from '../../../src/threads/inference-pauses.ts'
import type { Engine } from './engine.ts'
import { sleep } from './time.ts'

export type PausePlan = {
  readonly atMs: number
  /** From the question, not from its answer: some are resumed while they still wait. */
  readonly lastsMs: number
  readonly timeoutMs: number
  /** Null: all. */
  readonly gateway: GatewayId | null
}

type Place = {
  readonly world: World
  readonly inference: InferencePauses
  readonly engine: Engine
  /** Told what must not happen. */
  readonly fault: (detail: string) => void
}

/** Resolves after the last resume, with how each pause ended. */
export async function updateWeights(plans: readonly PausePlan[], { world, inference, engine, fault }: Place): Promise<readonly string[]> {
  const endings: string[] = []
  /** How often engines had been asked when all gateways were known to be paused; null: they are not. */
  let askedBefore: number | null = null

  function expectSilence(): void {
    if (askedBefore !== null && engine.asked() !== askedBefore) fault(`${engine.asked() - askedBefore} generations were begun in a pause`)
    askedBefore = null
  }

  async function update({ atMs, lastsMs, timeoutMs, gateway }: PausePlan): Promise<void> {
    await sleep(world, atMs)
    const wanted = gateway === null ? inference.gateways : [gateway]
    const pausing = inference.pause(wanted, timeoutMs).then((paused) => {
      endings.push(paused.ok ? 'paused' : paused.error)
      if (paused.ok && gateway === null) askedBefore ??= engine.asked()
    })
    await sleep(world, lastsMs)
    expectSilence()
    await Promise.all([pausing, inference.resume(wanted)])
  }

  await Promise.all(plans.map(update))
  // A gateway whose thread was gone has not heard it.
  await inference.resume(inference.gateways)
  return endings
}
