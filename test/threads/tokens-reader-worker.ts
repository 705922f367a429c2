// A reading thread that reads one reference again and again until the owner says its blocks were recycled, and judges each read.
import { parentPort } from 'node:worker_threads'
import { readCalls } from '../../src/tokens/reader.ts'
import type { SlabReference } from '../../src/tokens/reference.ts'

/** Words of the control buffer: reads finished, and how far the owner is. */
export const READS = 0
export const PHASE = 1
export const LEASED = 0
export const RELEASING = 1
export const RECYCLED = 2

export type ReadOrder = {
  readonly reference: SlabReference
  /** Every token of the reference's calls is this one, every logprob its negative. */
  readonly marker: number
  readonly control: Int32Array
}

export type ReadReport = Readonly<Record<'exact' | 'stale' | 'wrong' | 'staleWhileLeased' | 'exactAfterRecycling', number>>

const MAX_READS = 20_000

function readOnce(order: ReadOrder): 'exact' | 'stale' | 'wrong' {
  try {
    const calls = readCalls(order.reference)
    const isExact = calls.every(
      ({ promptIds, sampledIds, logprobs }) =>
        promptIds.every((id) => id === order.marker) &&
        sampledIds.every((id) => id === order.marker) &&
        logprobs?.every((logprob) => logprob === -order.marker),
    )
    return isExact && calls.length === order.reference.calls.length ? 'exact' : 'wrong'
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'stale-segment') return 'stale'
    throw error
  }
}

parentPort?.on('message', (order: ReadOrder) => {
  const report = { exact: 0, stale: 0, wrong: 0, staleWhileLeased: 0, exactAfterRecycling: 0 }
  for (let read = 0; read < MAX_READS; read++) {
    const phaseBefore = Atomics.load(order.control, PHASE)
    const outcome = readOnce(order)
    const phaseAfter = Atomics.load(order.control, PHASE)
    report[outcome]++
    if (phaseAfter === LEASED && outcome === 'stale') report.staleWhileLeased++
    if (phaseBefore === RECYCLED && outcome === 'exact') report.exactAfterRecycling++
    Atomics.add(order.control, READS, 1)
    Atomics.notify(order.control, READS)
    if (phaseBefore === RECYCLED) break
  }
  parentPort?.postMessage(report)
})
