// The trainer's end of callbacks: takes results, sometimes says it did not, sometimes takes them and never says so.
import type { CallbackTransport } from '../../../src/actors/callback/transport.ts'
import type { Random, Scheduler } from '../../../src/kernel/clock.ts'
import { sleep } from './time.ts'

export type Arrival = { readonly url: string; readonly key: string; readonly body: string }

export type Receiver = {
  readonly transport: CallbackTransport
  /** Everything whose bytes reached the trainer, answered or not. */
  readonly arrivals: readonly Arrival[]
}

export function openReceiver(options: { readonly scheduler: Scheduler; readonly random: Random; readonly faultRate: number }): Receiver {
  const { scheduler, random, faultRate } = options
  const arrivals: Arrival[] = []
  return {
    arrivals,
    transport: {
      async post(url, headers, body, signal) {
        const isFaulty = random.next() < faultRate
        const kind = isFaulty ? Math.floor(random.next() * 5) : -1
        await sleep(scheduler, random.next() * (kind === 0 ? 30_000 : 200), signal)
        signal.throwIfAborted()
        if (kind === 1) return { status: 503, retryAfter: random.next() < 0.5 ? '2' : null }
        if (kind === 2) throw new Error('ECONNREFUSED')
        if (kind === 4 && random.next() < 0.2) return { status: 404, retryAfter: null }
        arrivals.push({ url, key: headers['idempotency-key'] ?? '', body: Buffer.from(body).toString() })
        // The trainer has it, and its answer is lost.
        if (kind === 3) {
          await sleep(scheduler, 1_000_000, signal)
          signal.throwIfAborted()
        }
        return { status: 200, retryAfter: null }
      },
      close: async () => {},
    },
  }
}
