// The open questions of one thread: those its own code waits on, and those its actors still owe an answer to.
import type { ThreadId } from './address.ts'
import type { Answer, Ask } from './ask.ts'
import type { Timer } from './clock.ts'

type PendingAsk = {
  readonly target: ThreadId
  readonly timer: Timer
  readonly settle: (answer: Answer<unknown>) => void
  /** The asker's own list of what it waits for. */
  readonly waitingFor: Set<number>
}

/** Questions asked here. Each settles exactly once: whoever comes second finds nothing. */
export class PendingAsks {
  readonly #pending = new Map<number, PendingAsk>()
  #last = 0

  get size(): number {
    return this.#pending.size
  }

  nextId(): number {
    return ++this.#last
  }

  add(id: number, ask: PendingAsk): void {
    this.#pending.set(id, ask)
    ask.waitingFor.add(id)
  }

  has(id: number): boolean {
    return this.#pending.has(id)
  }

  targetOf(id: number): ThreadId | undefined {
    return this.#pending.get(id)?.target
  }

  /** False when the ask was already settled, or never was. */
  settle(id: number, answer: Answer<unknown>): boolean {
    const ask = this.#pending.get(id)
    if (ask === undefined) return false
    this.forget(id)
    ask.settle(answer)
    return true
  }

  /** The asker is gone; nobody wants the answer. */
  forget(id: number): void {
    const ask = this.#pending.get(id)
    if (ask === undefined) return
    this.#pending.delete(id)
    ask.waitingFor.delete(id)
    ask.timer.cancel()
  }

  /** The ids of all asks, or of those that went to `target`. */
  ids(target?: ThreadId): number[] {
    const ids: number[] = []
    for (const [id, ask] of this.#pending) if (target === undefined || ask.target === target) ids.push(id)
    return ids
  }
}

type Holder = { readonly asks: Map<string | number, Ask<unknown>> }

/** Questions asked of actors here. When an actor ends, what it still holds must be answered `stopped`. */
export class HeldAsks<H extends Holder> {
  readonly #holders = new Map<string | number, H>()
  readonly #thread: ThreadId
  readonly #incarnation: number

  constructor(thread: ThreadId, incarnation: number) {
    this.#thread = thread
    this.#incarnation = incarnation
  }

  /** `holder` owes the answer from now on; an ask that was forwarded moves. */
  hold(ask: Ask<unknown>, holder: H): void {
    const key = this.#keyOf(ask)
    this.#holders.get(key)?.asks.delete(key)
    this.#holders.set(key, holder)
    holder.asks.set(key, ask)
  }

  release(ask: Ask<unknown>): void {
    const key = this.#keyOf(ask)
    this.#holders.get(key)?.asks.delete(key)
    this.#holders.delete(key)
  }

  /** The asking thread died; nobody wants these answers. */
  releaseThread(thread: ThreadId): void {
    for (const holder of new Set(this.#holders.values())) {
      for (const ask of [...holder.asks.values()]) if (ask.thread === thread) this.release(ask)
    }
  }

  // Local ids are plain numbers: a string per local ask would cost more than the ask.
  #keyOf(ask: Ask<unknown>): string | number {
    return ask.thread === this.#thread && ask.incarnation === this.#incarnation ? ask.ask : `${ask.thread}/${ask.incarnation}/${ask.ask}`
  }
}

/** The ask a message carries in its `ask` field, if it does. */
export function askIn(message: unknown): Ask<unknown> | undefined {
  // The kernel knows no protocol; the field is looked at, not trusted.
  const ask = (message as { readonly ask?: unknown } | null | undefined)?.ask
  if (typeof ask !== 'object' || ask === null) return undefined
  const candidate = ask as { readonly thread?: unknown; readonly ask?: unknown }
  return typeof candidate.ask === 'number' && typeof candidate.thread === 'string' ? (ask as Ask<unknown>) : undefined
}
