// The module a piscina worker runs: the same tasks as inline, with the buffers of every answer moved instead of copied.
import { move, transferableSymbol, valueSymbol } from 'piscina'
import { buildTrajectory as build } from './build.ts'
import { finishSession as finish } from './finish.ts'
import type { TaskInput } from './protocol.ts'
import { renderSession as session, renderTask as task } from './render.ts'

export const buildTrajectory = async (input: TaskInput<'buildTrajectory'>): Promise<unknown> => {
  const answer = await build(input)
  return answer.ok ? moving(answer, answer.payload) : answer
}

export const finishSession = (input: TaskInput<'finishSession'>): unknown => {
  const answer = finish(input)
  return moving(answer, answer.payload)
}

export const renderSession = (input: TaskInput<'renderSession'>): unknown => {
  const answer = session(input)
  return moving(answer, answer.bytes)
}

export const renderTask = (input: TaskInput<'renderTask'>): unknown => {
  const answer = task(input)
  return moving(answer, answer.bytes)
}

/** Piscina takes the wrapping off: the asker gets `answer`. */
function moving(answer: object, buffer: ArrayBuffer): unknown {
  return move({ [transferableSymbol]: [buffer], [valueSymbol]: answer })
}
