// Driving deliveries again: which ones, whether they may go where they are sent, and when the asker is told that none can be lost.
import { nameOfKey, type TaskId } from '../../contract/ids.ts'
import type { Ask } from '../../kernel/ask.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import { lookUp, values } from '../table.ts'
import { addressed, type Delivery, type Kept, originOf, stateOf } from './delivery.ts'
import { leaveLine, line, put, takeKept } from './lines.ts'
import type { CallbackCommand, RedriveReply } from './protocol.ts'
import { type OutboxEffect, type OutboxState, type Step, tell } from './state.ts'
import { checkTarget } from './target.ts'

/** One request: `left` are not yet recorded as pending. */
export type Redrive = {
  readonly ask: Ask<RedriveReply>
  readonly tasks: readonly TaskId[]
  readonly left: ReadonlySet<TaskId>
  readonly lost: readonly TaskId[]
}

const MAX_NAMED = 10
const REDRIVEN = 'driven again'

export function redrive(state: OutboxState, command: Extract<CallbackCommand, { type: 'redrive' }>, atMs: number): Step {
  const { url, ask } = command
  const forbidden = url === null ? null : checkTarget(url)
  if (forbidden !== null) return [state, [refusal(ask, 'target', forbidden)]]
  const chosen = choose(state, command)
  const unknown = (command.tasks ?? []).filter((task) => find(state, task) === undefined)
  if (unknown.length > 0) return [state, [refusal(ask, 'unknown', `no ended task or session ${named(unknown)}`)]]
  for (const delivery of url === null ? chosen : []) {
    const problem = delivery.url === null ? 'is not set: give one' : checkTarget(delivery.url)
    if (problem !== null) return [state, [refusal(ask, 'target', `the callback_url of ${nameOfKey(delivery.task)} ${problem}`)]]
  }
  let next = state
  const effects: OutboxEffect[] = []
  for (const { task } of chosen) {
    const [driven, more] = drive(next, task, url, atMs)
    next = driven
    effects.push(...more)
  }
  const tasks = chosen.map(({ task }) => task)
  const left = new Set(tasks.filter((task) => lookUp(next.deliveries, task)?.phase === 'telling'))
  const [told, replies] = answerDriven({ ...next, redrives: [...next.redrives, { ask, tasks, left, lost: [] }] })
  return [told, [...effects, ...replies]]
}

/** It is recorded as pending, or it cannot be: its results are gone. */
export function settleRedrives(state: OutboxState, task: TaskId, isLost: boolean): Step {
  const redrives = state.redrives.map((redriven) => {
    if (!redriven.left.has(task)) return redriven
    const left = new Set(redriven.left)
    left.delete(task)
    return { ...redriven, left, lost: isLost ? [...redriven.lost, task] : redriven.lost }
  })
  return answerDriven({ ...state, redrives })
}

function answerDriven(state: OutboxState): Step {
  const done = state.redrives.filter(({ left }) => left.size === 0)
  const replies = done.map(({ ask, tasks, lost }): OutboxEffect => {
    const value: RedriveReply = { type: 'redriven', tasks: tasks.filter((task) => !lost.includes(task)), lost }
    return { type: 'reply', ask, value }
  })
  return [{ ...state, redrives: state.redrives.filter(({ left }) => left.size > 0) }, replies]
}

/** In the order in which their tasks ended: that is the order in which they are sent. */
function choose(state: OutboxState, { tasks, states }: Extract<CallbackCommand, { type: 'redrive' }>): readonly (Delivery | Kept)[] {
  const chosen =
    tasks === null
      ? [...values(state.deliveries), ...values(state.kept)].filter((delivery) => states.includes(stateOf(delivery)))
      : [...new Set(tasks)].flatMap((task) => find(state, task) ?? [])
  return chosen.sort((a, b) => a.sequence - b.sequence)
}

function find(state: OutboxState, task: TaskId): Delivery | Kept | undefined {
  return lookUp(state.deliveries, task) ?? lookUp(state.kept, task)
}

function drive(state: OutboxState, task: TaskId, url: string | null, atMs: number): Step {
  const kept = lookUp(state.kept, task)
  if (kept !== undefined) {
    const to = url ?? kept.url
    if (to === null) throw new Error(`task ${task} is driven nowhere`)
    return tell(takeKept(state, task), { ...addressed(kept, to), tries: 0, trouble: null }, { state: 'pending', detail: REDRIVEN, atMs })
  }
  const delivery = lookUp(state.deliveries, task)
  if (delivery === undefined) throw new Error(`task ${task} is driven without a delivery`)
  const again = { ...addressed(delivery, url ?? delivery.url), stamp: delivery.stamp + 1, tries: 0 }
  switch (delivery.phase) {
    case 'waiting':
      return again.url === delivery.url ? [put(state, { ...again, phase: 'waiting' }), []] : line(leaveLine(state, delivery), again)
    case 'resting':
      return line(state, again)
    case 'sending': {
      const to = url ?? delivery.redirect ?? delivery.url
      // What is on its way there already is let finish, as the first of the new tries; never are there two.
      if (delivery.redirect === null && to === delivery.url) return [put(state, { ...delivery, tries: 1 }), []]
      return [put(state, { ...delivery, redirect: to }), [{ type: 'abort', task, reason: `redirected to ${originOf(to)}` }]]
    }
    case 'telling':
      return tell(state, { ...again, trouble: null }, { state: 'pending', detail: REDRIVEN, atMs })
    default:
      return unreachable(delivery)
  }
}

function refusal(ask: Ask<RedriveReply>, type: 'unknown' | 'target', detail: string): OutboxEffect {
  return { type: 'reply', ask, value: { type, detail } satisfies RedriveReply }
}

function named(tasks: readonly TaskId[]): string {
  const others = tasks.length > MAX_NAMED ? ` and ${tasks.length - MAX_NAMED} more` : ''
  return `${tasks.slice(0, MAX_NAMED).map(nameOfKey).join(', ')}${others}`
}
