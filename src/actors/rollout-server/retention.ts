// How long tasks that have ended are kept for reading, and who waits until nothing is owed any more.
import type { TaskId } from '../../contract/ids.ts'
import type { Ask } from '../../kernel/ask.ts'
import { itemsOf } from '../roster.ts'
import { insert, lookUp, remove } from '../table.ts'
import type { ServerState, TaskEntry } from './entries.ts'
import { reply, type Turn } from './turn.ts'

/** Makes a task and its sessions known. */
export function keep(state: ServerState, task: TaskEntry): ServerState {
  let { index } = state
  itemsOf(task.sessions).forEach(({ session }, sample) => {
    index = insert(index, session, { task: task.task, sample })
  })
  return { ...state, tasks: insert(state.tasks, task.task, task), index }
}

export function drop(state: ServerState, task: TaskEntry): ServerState {
  let { index } = state
  for (const { session } of itemsOf(task.sessions)) index = remove(index, session)
  return {
    ...state,
    tasks: remove(state.tasks, task.task),
    order: without(state.order, task.task),
    ended: without(state.ended, task.task),
    index,
  }
}

/** Drops ended tasks over the limit: the oldest whose result was taken or never had a taker, then the oldest dead letter; undelivered never. */
export function retire(turn: Turn) {
  while (turn.state.ended.length > turn.state.limits.maxKeptTasks) {
    const victim = oldestUnneeded(turn.state)
    if (victim === null) return
    turn.state = drop(turn.state, victim)
  }
}

function oldestUnneeded({ ended, tasks }: ServerState): TaskEntry | null {
  let dead: TaskEntry | null = null
  for (const id of ended) {
    const task = lookUp(tasks, id)
    if (task?.phase !== 'ended') continue
    if (task.delivery === 'delivered' || task.delivery === 'none') return task
    if (task.delivery === 'dead') dead ??= task
  }
  return dead
}

/** What is dropped is old, and stands near the front. */
function without(tasks: readonly TaskId[], task: TaskId): readonly TaskId[] {
  const at = tasks.indexOf(task)
  return at === -1 ? tasks : tasks.toSpliced(at, 1)
}

export function awaitDeliveries(turn: Turn, ask: Ask<void>) {
  turn.state = { ...turn.state, awaitingDeliveries: [...turn.state.awaitingDeliveries, ask] }
}

export function answerIfDelivered(turn: Turn) {
  const { awaitingDeliveries, openSessions, tasks, ended } = turn.state
  if (awaitingDeliveries.length === 0 || openSessions > 0 || ended.length < tasks.size) return
  for (const id of ended) {
    const task = lookUp(tasks, id)
    if (task?.phase === 'ended' && task.delivery === 'pending') return
  }
  turn.state = { ...turn.state, awaitingDeliveries: [] }
  for (const ask of awaitingDeliveries) reply(turn, ask, undefined)
}
