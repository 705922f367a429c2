// Where each delivery is: under way, in line for its receiver, or kept after its end.
import type { TaskId } from '../../contract/ids.ts'
import { insert, lookUp, remove } from '../table.ts'
import { type Addressed, addressed, type Delivery, type Kept, originOf } from './delivery.ts'
import type { OutboxState, Step } from './state.ts'

/** At the end of its receiver's line, and under way at once if there is a place. */
export function line(state: OutboxState, delivery: Addressed): Step {
  const origin = originOf(delivery.url)
  const target = state.targets.get(origin) ?? { sending: 0, line: [] }
  const targets = new Map(state.targets).set(origin, { ...target, line: [...target.line, delivery.task] })
  return sendNext({ ...put(state, { ...delivery, phase: 'waiting' }), targets }, origin)
}

export function leaveLine(state: OutboxState, { task, url }: Addressed): OutboxState {
  const origin = originOf(url)
  const target = state.targets.get(origin)
  if (target === undefined) return state
  return withTarget(state, origin, { ...target, line: target.line.filter((other) => other !== task) })
}

/** A try has ended: the next in line may go. */
export function freePlace(state: OutboxState, origin: string): Step {
  const target = state.targets.get(origin)
  if (target === undefined) return [state, []]
  return sendNext(withTarget(state, origin, { ...target, sending: target.sending - 1 }), origin)
}

function sendNext(state: OutboxState, origin: string): Step {
  const target = state.targets.get(origin)
  const first = target?.line[0]
  if (target === undefined || first === undefined || target.sending >= state.limits.perTarget) return [state, []]
  const waiting = lookUp(state.deliveries, first)
  if (waiting === undefined) throw new Error(`task ${first} is in line without a delivery`)
  const { tries, stamp, url } = waiting
  const delivery: Delivery = { ...addressed(waiting, url), phase: 'sending', redirect: null, tries: tries + 1, stamp: stamp + 1 }
  const next = withTarget(put(state, delivery), origin, { sending: target.sending + 1, line: target.line.slice(1) })
  return [next, [{ type: 'send', delivery, deadlineMs: state.limits.deadlineMs }]]
}

function withTarget(
  state: OutboxState,
  origin: string,
  target: { readonly sending: number; readonly line: readonly TaskId[] },
): OutboxState {
  const targets = new Map(state.targets)
  if (target.sending === 0 && target.line.length === 0) targets.delete(origin)
  else targets.set(origin, target)
  return { ...state, targets }
}

export function put(state: OutboxState, delivery: Delivery): OutboxState {
  return { ...state, deliveries: insert(state.deliveries, delivery.task, delivery) }
}

/** Its end is known. Over the limit the oldest that its trainer has, or that has none, is forgotten, then the oldest dead letter. */
export function keep(state: OutboxState, kept: Kept): OutboxState {
  const { task } = kept
  const order = [...state.order, task]
  const next = { ...state, deliveries: remove(state.deliveries, task), kept: insert(state.kept, task, kept), order }
  if (order.length <= state.limits.maxKept) return next
  const victim = order.find((id) => lookUp(next.kept, id)?.state !== 'dead') ?? order[0]
  return victim === undefined ? next : takeKept(next, victim)
}

export function takeKept(state: OutboxState, task: TaskId): OutboxState {
  if (lookUp(state.kept, task) === undefined) return state
  return { ...state, kept: remove(state.kept, task), order: state.order.filter((other) => other !== task) }
}
