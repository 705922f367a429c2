// Polar's word for where a task stands.
import type { TaskStatus } from '../../contract/task.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { TaskEntry } from './entries.ts'

export function taskStatus(entry: TaskEntry): TaskStatus {
  switch (entry.phase) {
    case 'recording':
      return entry.cancelled === null ? 'running' : 'cancelling'
    case 'active':
    case 'ending':
      return entry.stop === 'cancelled by the trainer' ? 'cancelling' : 'running'
    case 'ended':
      return entry.final
    default:
      return unreachable(entry)
  }
}
