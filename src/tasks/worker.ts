// The module a piscina worker runs: the same tasks as inline, with the buffers of every answer moved instead of copied.
import { move, transferableSymbol, valueSymbol } from 'piscina'
import { buildTrajectory as build } from './build.ts'
import { finishSession as finish } from './finish.ts'
import { packCompletions as pack } from './pack.ts'
import type { TaskInput } from './protocol.ts'
import {
  renderCompletions as completions,
  renderResult as result,
  renderSession as session,
  renderTask as task,
  renderTraces as traces,
} from './render.ts'

export const buildTrajectory = async (input: TaskInput<'buildTrajectory'>): Promise<unknown> => {
  const answer = await build(input)
  return moving(answer, ...(answer.ok ? [answer.payload] : []), ...(answer.completions === null ? [] : [answer.completions]))
}

export const finishSession = (input: TaskInput<'finishSession'>): unknown => {
  const answer = finish(input)
  return moving(answer, answer.payload)
}

export const renderSession = (input: TaskInput<'renderSession'>): unknown => {
  const answer = session(input)
  return moving(answer, answer.bytes)
}

export const renderResult = (input: TaskInput<'renderResult'>): unknown => {
  const answer = result(input)
  return moving(answer, answer.bytes)
}

export const renderTraces = (input: TaskInput<'renderTraces'>): unknown => {
  const answer = traces(input)
  return moving(answer, answer.bytes)
}

export const packCompletions = (input: TaskInput<'packCompletions'>): unknown => {
  const answer = pack(input)
  return moving(answer, answer.packed)
}

export const renderCompletions = (input: TaskInput<'renderCompletions'>): unknown => {
  const answer = completions(input)
  return moving(answer, answer.packed, answer.answered, answer.failed)
}

export const renderTask = (input: TaskInput<'renderTask'>): unknown => {
  const answer = task(input)
  return moving(answer, answer.bytes)
}

/** Piscina takes the wrapping off: the asker gets `answer`. */
function moving(answer: object, ...buffers: readonly ArrayBuffer[]): unknown {
  return move({ [transferableSymbol]: [...buffers], [valueSymbol]: answer })
}
