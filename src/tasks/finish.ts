// The task that turns a built trajectory and the facts of its session into a packed result.
import { finishResult } from '../trajectory/result.ts'
import type { TaskInput, TaskOutput } from './protocol.ts'

export function finishSession({ payload, facts }: TaskInput<'finishSession'>): TaskOutput<'finishSession'> {
  return finishResult(payload, facts)
}
