// The order in which tasks with pending sessions are served.
//
// Order: one point of `dispatch_priority` is worth ten seconds of waiting. Every session ages alike, so the order of two tasks never
// changes once both are queued, and nobody starves: a task waits at most for those admitted before it, and for those of a higher priority
// admitted within ten seconds per point after it. A session that is attempted again keeps its task's place.
import type { TaskId } from '../../contract/ids.ts'
import type { QueuedTask, TaskEntry } from './entries.ts'

export const PRIORITY_WORTH_MS = 10_000

export function enqueue(queue: readonly QueuedTask[], task: TaskEntry): readonly QueuedTask[] {
  if (task.waiting.length === 0) return queue
  const item: QueuedTask = {
    task: task.task,
    turn: task.admittedAtMs - task.request.dispatch_priority * PRIORITY_WORTH_MS,
    sequence: task.sequence,
  }
  let low = 0
  let high = queue.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const other = queue[middle]
    if (other !== undefined && comesBefore(other, item)) low = middle + 1
    else high = middle
  }
  if (queue[low]?.task === item.task) return queue
  return [...queue.slice(0, low), item, ...queue.slice(low)]
}

export function dequeue(queue: readonly QueuedTask[], task: TaskId): readonly QueuedTask[] {
  return queue.filter((item) => item.task !== task)
}

function comesBefore(a: QueuedTask, b: QueuedTask): boolean {
  return a.turn === b.turn ? a.sequence < b.sequence : a.turn < b.turn
}
