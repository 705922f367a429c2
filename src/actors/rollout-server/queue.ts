// The order in which tasks with pending sessions are served.
//
// Order: one point of `dispatch_priority` is worth ten seconds of waiting. Every session ages alike, so the order of two tasks never
// changes once both are queued, and nobody starves: a task waits at most for those admitted before it, and for those of a higher priority
// admitted within ten seconds per point after it. A session that is attempted again keeps its task's place.
//
// A session by itself that names a gateway stands in that one's line, in the same order: of all that stand first somewhere and may go now,
// the earliest goes. So it waits for its gateway's room, and nobody waits for it.
import type { Line, QueuedTask, TaskEntry } from './entries.ts'

export const PRIORITY_WORTH_MS = 10_000

export function enqueue(line: Line, task: TaskEntry): Line {
  const item = placeOf(task)
  const at = positionOf(line, item)
  return line[at]?.task === item.task ? line : line.toSpliced(at, 0, item)
}

export function dequeue(line: Line, task: TaskEntry): Line {
  const at = positionOf(line, placeOf(task))
  return line[at]?.task === task.task ? line.toSpliced(at, 1) : line
}

export function comesBefore(a: QueuedTask, b: QueuedTask): boolean {
  return a.turn === b.turn ? a.sequence < b.sequence : a.turn < b.turn
}

function placeOf({ task, admittedAtMs, request, sequence }: TaskEntry): QueuedTask {
  return { task, turn: admittedAtMs - request.dispatch_priority * PRIORITY_WORTH_MS, sequence }
}

/** Of the item, or where it would stand. */
function positionOf(line: Line, item: QueuedTask): number {
  let low = 0
  let high = line.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const other = line[middle]
    if (other !== undefined && comesBefore(other, item)) low = middle + 1
    else high = middle
  }
  return low
}
