// The embedded engine as its generations know it.
import type { Scheduler } from '../../kernel/clock.ts'
import type { Reader } from '../serve/asked.ts'
import type { Batch } from '../serve/batch.ts'
import type { Tally } from '../serve/metrics.ts'
import type { WireShape } from '../wire/shape.ts'
import type { Weights } from './weights.ts'

export type GeneratingEngine = {
  readonly shape: WireShape
  readonly model: string
  readonly seed: number
  readonly logprobMode: 'raw' | 'processed'
  readonly batch: Batch
  readonly tally: Tally
  readonly scheduler: Scheduler
  /** Null while the first weights are loaded. */
  weights(): Weights | null
  readerOf(weights: Weights): Reader
}
