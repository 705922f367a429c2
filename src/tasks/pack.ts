// The task that packs calls of a session that still runs; those of one that is built are packed by the build.
import { packCompletions as pack } from '../trajectory/completions.ts'
import type { TaskInput, TaskOutput } from './protocol.ts'

export function packCompletions(part: TaskInput<'packCompletions'>): TaskOutput<'packCompletions'> {
  return { packed: pack(part) }
}
