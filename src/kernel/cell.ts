// One actor inside the kernel: its lanes, its receiver, and everything that ends with them.
import type { ActorSpec, Receiver } from './actor.ts'
import type { Address } from './address.ts'
import type { Ask } from './ask.ts'
import type { Timer } from './clock.ts'
import { type Mailbox, openMailbox } from './mailbox.ts'
import { openRestartBudget, type RestartBudget } from './restart-budget.ts'
import type { UserLane } from './user-lane.ts'

/** Answers, timers and finished work one actor may be waiting for. Half of it for asks: a refused ask also needs a place for its answer. */
const SYSTEM_PLACES = 131_072
export const ASKS_PER_ACTOR = SYSTEM_PLACES / 2

/** What belongs to one receiver; a restart begins a new life, and nothing of the old one reaches it. */
export type Life = {
  /** Thunks, because the message is made when it is delivered: an error in making it is the actor's own. */
  readonly system: Mailbox<() => unknown>
  readonly timers: Set<Timer>
  readonly waitingFor: Set<number>
  readonly children: Set<Cell>
}

export type Cell = {
  readonly spec: ActorSpec<unknown>
  readonly address: Address<unknown>
  readonly lane: UserLane<unknown>
  readonly parent: Life | null
  /** Asks this actor received, read or unread, and has not answered. */
  readonly asks: Map<string | number, Ask<unknown>>
  readonly budget: RestartBudget | null
  readonly turn: () => void
  receiver: Receiver<unknown> | null
  life: Life
  phase: 'running' | 'stopping' | 'ended'
  isScheduled: boolean
  /** In the middle of a turn: whoever ends it now must wait for the end of the current message. */
  isBusy: boolean
}

export function openLife(): Life {
  return { system: openMailbox(SYSTEM_PLACES), timers: new Set(), waitingFor: new Set(), children: new Set() }
}

export function openCell(
  spec: ActorSpec<unknown>,
  address: Address<unknown>,
  lane: UserLane<unknown>,
  parent: Life | null,
  turn: (cell: Cell) => void,
): Cell {
  const cell: Cell = {
    spec,
    address,
    lane,
    parent,
    asks: new Map(),
    budget: spec.restarts === undefined ? null : openRestartBudget(spec.restarts),
    turn: () => turn(cell),
    receiver: null,
    life: openLife(),
    phase: 'running',
    isScheduled: false,
    isBusy: false,
  }
  return cell
}
