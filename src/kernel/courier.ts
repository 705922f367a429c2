// Messages that must arrive, in order: a full mailbox delays them instead of losing them.
import type { Address } from './address.ts'
import type { Kernel } from './kernel.ts'

/**
 * `taken` is called when the message is in the mailbox. A message to an actor that has stopped is dropped, as `tell` would drop it.
 * Whoever sends must be bounded in what it sends: the courier holds everything that is not taken yet.
 */
export type Courier = <M>(to: Address<M>, message: M, taken?: () => void) => void

const REOFFER_MS = 50

export function openCourier(kernel: Kernel): Courier {
  const waiting: (() => boolean)[] = []

  function flush(): void {
    while (waiting[0]?.() === true) waiting.shift()
    if (waiting.length > 0) kernel.scheduler.after(REOFFER_MS, flush)
  }
  return (to, message, taken) => {
    waiting.push(() => {
      const offer = kernel.tell(to, message)
      if (offer === 'accepted') taken?.()
      return offer !== 'full'
    })
    if (waiting.length === 1) flush()
  }
}
