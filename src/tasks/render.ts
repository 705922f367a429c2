// The tasks that write packed results and packed calls in the forms in which they are told.
import { renderSession as sessionPieces, renderTask as taskPieces, toBytes } from '../trajectory/render.ts'
import { renderCompletions as completionParts } from '../trajectory/render-completions.ts'
import { renderResult as resultPieces, renderTraces as tracePieces } from '../trajectory/render-result.ts'
import type { TaskInput, TaskOutput } from './protocol.ts'

export function renderSession({ payload, results }: TaskInput<'renderSession'>): TaskOutput<'renderSession'> {
  return { bytes: toBytes(sessionPieces(payload, results)) }
}

export function renderResult({ payload, form }: TaskInput<'renderResult'>): TaskOutput<'renderResult'> {
  return { bytes: toBytes(resultPieces(payload, form)) }
}

export function renderTraces({ payload, form, wish }: TaskInput<'renderTraces'>): TaskOutput<'renderTraces'> {
  return { bytes: toBytes(tracePieces(payload, form, wish)) }
}

export function renderTask({ head, payloads }: TaskInput<'renderTask'>): TaskOutput<'renderTask'> {
  return { bytes: toBytes(taskPieces(head, payloads)) }
}

export function renderCompletions({ packed, wish }: TaskInput<'renderCompletions'>): TaskOutput<'renderCompletions'> {
  return { ...completionParts(packed, wish), packed }
}
