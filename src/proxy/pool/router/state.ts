// Which workers a router has, followed from one list to the next. Pure; actor.ts runs the effects.
import type { Settled } from '../../../kernel/actor.ts'
import type { Ask } from '../../../kernel/ask.ts'
import { unreachable } from '../../../kernel/unreachable.ts'
import type { RouterCommand, RouterStatus } from './protocol.ts'
import { type Worker, type WorkerList, workerKey } from './workers.ts'

/** A worker must be missing from this many lists in a row: a router that was restarted lists none until they have registered again. */
const MISSED_LISTS = 2

/** Of those that are passed over. */
const MAX_TOLD = 16

export type RouterState = {
  readonly everyMs: number
  /** By key, with how many lists in a row it is missing from. */
  readonly workers: ReadonlyMap<string, { readonly worker: Worker; readonly missed: number }>
  readonly status: RouterStatus
}

type RouterSignal = { readonly type: 'read-due' } | { readonly type: 'workers-read'; readonly result: Settled<WorkerList> }

export type RouterMessage = RouterCommand | RouterSignal

export type RouterEffect =
  | { readonly type: 'read' }
  | { readonly type: 'read-after'; readonly delayMs: number }
  | { readonly type: 'worker-joined'; readonly worker: Worker }
  | { readonly type: 'worker-left'; readonly worker: Worker }
  | { readonly type: 'show'; readonly ask: Ask<RouterStatus>; readonly status: RouterStatus }

type Step = readonly [RouterState, readonly RouterEffect[]]

export function openRouter(everyMs: number): Step {
  return [{ everyMs, workers: new Map(), status: { state: 'unprobed', detail: null } }, [{ type: 'read' }]]
}

export function step(state: RouterState, message: RouterMessage): Step {
  switch (message.type) {
    case 'read-due':
      return [state, [{ type: 'read' }]]
    case 'workers-read':
      return listed(state, message.result)
    case 'read-router':
      return [state, [{ type: 'show', ask: message.ask, status: state.status }]]
    default:
      return unreachable(message)
  }
}

function listed(state: RouterState, result: Settled<WorkerList>): Step {
  const again: RouterEffect = { type: 'read-after', delayMs: state.everyMs }
  if (!result.ok || result.value.type === 'unread') {
    const detail = result.ok ? (result.value.type === 'unread' ? result.value.detail : '') : result.error.message
    // Its workers are called directly: they serve without it.
    return [{ ...state, status: { state: 'down', detail } }, [again]]
  }
  const { workers: found, passed } = result.value
  const workers = new Map<string, { readonly worker: Worker; readonly missed: number }>()
  const effects: RouterEffect[] = []
  for (const worker of found) {
    const key = workerKey(worker)
    if (!state.workers.has(key)) effects.push({ type: 'worker-joined', worker })
    workers.set(key, { worker, missed: 0 })
  }
  for (const [key, { worker, missed }] of state.workers) {
    if (workers.has(key)) continue
    if (missed + 1 < MISSED_LISTS) workers.set(key, { worker, missed: missed + 1 })
    else effects.push({ type: 'worker-left', worker })
  }
  const detail = passed.length === 0 ? null : passed.slice(0, MAX_TOLD).join('; ')
  return [{ ...state, workers, status: { state: 'up', detail } }, [...effects, again]]
}
