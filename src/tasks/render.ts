// The tasks that write packed results as JSON.
import { renderSession as sessionPieces, renderTask as taskPieces, toBytes } from '../trajectory/render.ts'
import type { TaskInput, TaskOutput } from './protocol.ts'

export function renderSession({ payload }: TaskInput<'renderSession'>): TaskOutput<'renderSession'> {
  return { bytes: toBytes(sessionPieces(payload)) }
}

export function renderTask({ head, payloads }: TaskInput<'renderTask'>): TaskOutput<'renderTask'> {
  return { bytes: toBytes(taskPieces(head, payloads)) }
}
