// What one receiver may do to the world: every call is bound to its life, and does nothing once that life is over.
import type { ActorContext, ActorSpec, Settled } from './actor.ts'
import type { Address, Offer } from './address.ts'
import type { Answer, Ask } from './ask.ts'
import { ASKS_PER_ACTOR, type Cell, type Life } from './cell.ts'
import type { Clock, Random, Scheduler, Timer } from './clock.ts'

/** The kernel as a context needs it. */
export type ContextHost = {
  readonly clock: Clock
  readonly random: Random
  readonly scheduler: Scheduler
  tell(to: Address<unknown>, message: unknown): Offer
  /** Settles exactly once, perhaps before it returns, unless `waitingFor` is forgotten first. */
  openAsk(
    to: Address<unknown>,
    make: (ask: Ask<unknown>) => unknown,
    deadlineMs: number,
    settle: (answer: Answer<unknown>) => void,
    waitingFor: Set<number>,
  ): void
  reply(ask: Ask<unknown>, value: unknown): void
  spawn(spec: ActorSpec<unknown>, parent: Life): Address<unknown>
  stop(cell: Cell): void
  schedule(cell: Cell): void
}

const NO_TIMER: Timer = { cancel() {} }

export function openContext(host: ContextHost, cell: Cell, life: Life): ActorContext<unknown> {
  const isAlive = () => cell.life === life && cell.phase !== 'ended'

  function reserve(what: string): void {
    if (!life.system.reserve())
      throw new Error(`actor ${cell.spec.name} has no place left for ${what}: ${life.system.capacity} are waiting`)
  }
  /** Into the place reserved before; a life that ended meanwhile hears nothing. */
  function deliver(make: () => unknown): void {
    if (!isAlive()) return
    life.system.put(make)
    host.schedule(cell)
  }

  function after(delayMs: number, message: unknown): Timer {
    if (!isAlive()) return NO_TIMER
    reserve('a timer')
    const make = () => message
    const timer = host.scheduler.after(delayMs, () => {
      life.timers.delete(timer)
      deliver(make)
    })
    life.timers.add(timer)
    return {
      cancel() {
        if (life.timers.delete(timer)) {
          timer.cancel()
          life.system.releaseReservation()
        } else {
          // It fired but was not read yet: after a cancel no message comes.
          life.system.remove((waiting) => waiting === make)
        }
      },
    }
  }

  function pipe(work: () => Promise<unknown>, settled: (outcome: Settled<unknown>) => unknown): void {
    if (!isAlive()) return
    reserve('the outcome of its work')
    startOf(work).then(
      (value) => deliver(() => settled({ ok: true, value })),
      (error: unknown) => deliver(() => settled({ ok: false, error: asError(error) })),
    )
  }

  function ask(
    to: Address<unknown>,
    make: (ask: Ask<unknown>) => unknown,
    deadlineMs: number,
    answered: (answer: Answer<unknown>) => unknown,
  ): void {
    if (!isAlive()) return
    const hasRoom = life.system.size + life.system.reserved < ASKS_PER_ACTOR
    reserve('an answer')
    if (!hasRoom) deliver(() => answered({ ok: false, error: 'full' }))
    else host.openAsk(to, make, deadlineMs, (answer) => deliver(() => answered(answer)), life.waitingFor)
  }

  // The host is untyped; each `M`, `R` and `T` of the interface exists for the compiler only.
  return {
    self: cell.address,
    name: cell.spec.name,
    clock: host.clock,
    random: host.random,
    tell: host.tell,
    ask: ask as ActorContext<unknown>['ask'],
    reply: host.reply,
    after,
    pipe: pipe as ActorContext<unknown>['pipe'],
    spawn(spec) {
      if (!isAlive()) throw new Error(`actor ${cell.spec.name} cannot start ${spec.name}: it has ended`)
      return host.spawn(spec as unknown as ActorSpec<unknown>, life)
    },
    stop() {
      if (isAlive()) host.stop(cell)
    },
  }
}

async function startOf(work: () => Promise<unknown>): Promise<unknown> {
  return work()
}

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
