// What must hold after every day, whatever went wrong in it. Each check gives sentences about what does not.
import type { GatewayLimits } from '../../../src/actors/gateway/protocol.ts'
import type { CallRecord } from '../../../src/contract/call.ts'
import type { CallId } from '../../../src/contract/ids.ts'
import { OUTCOMES } from '../../../src/contract/outcome.ts'
import type { Trace } from '../../../src/contract/result.ts'
import { budgetsHold } from './budgets.ts'
import { everyCaptureEndsOnce } from './capture-endings.ts'
import { feedHasEveryEndOnce } from './feed-reader.ts'
import type { Emission } from './model.ts'
import type { Day, StoredSession } from './simulation.ts'

type Check = (day: Day) => readonly string[]

const CHECKS: readonly Check[] = [
  faultless,
  everyTaskEndsOnce,
  everyCaptureEndsOnce,
  everyResultIsDelivered,
  feedHasEveryEndOnce,
  limitsHold,
  arenaIsWhole,
  tracesAreWhatWasSampled,
  whatWasSeenIsAccountedFor,
  turnsAreRecordedOnce,
  budgetsHold,
  sessionsAreApart,
  nothingIsLeft,
]

/** Empty when everything holds. */
export function findViolations(day: Day): readonly string[] {
  return CHECKS.flatMap((check) => check(day).map((violation) => `${check.name}: ${violation}`))
}

function faultless({ faults }: Day): readonly string[] {
  return faults
}

function everyTaskEndsOnce({ schedule, accepted, views, results, events }: Day): readonly string[] {
  const found: string[] = []
  if (accepted.length !== schedule.tasks.length) found.push(`${accepted.length} of ${schedule.tasks.length} tasks were accepted`)
  for (const task of accepted) {
    const view = views.get(task)
    const request = schedule.tasks.find((plan) => plan.request.task_id === task)?.request
    const ends = events.filter((event) => event.type === 'task.completed' && event.task === task).length
    if (ends !== 1) found.push(`task ${task} ended ${ends} times`)
    if (view === undefined || view.status === 'running' || view.status === 'cancelling') {
      found.push(`task ${task} is ${view?.status ?? 'unknown'}`)
      continue
    }
    if (view.sessions.length !== request?.num_samples) found.push(`task ${task} has ${view.sessions.length} sessions`)
    for (const { session, attempt, status, summary } of view.sessions) {
      const terminal = events.filter(
        (event) => event.type === 'session.state_changed' && event.session === session && event.summary !== null,
      ).length
      if (terminal !== 1) found.push(`session ${session} has ${terminal} terminal results`)
      const stored = results.get(session)
      if (stored === undefined) found.push(`session ${session} has no result in the ledger`)
      else if (stored.attempt !== attempt || stored.result.status !== status || summary?.status !== status) {
        found.push(
          `session ${session} is ${status} in attempt ${attempt}; the ledger has ${stored.result.status} of attempt ${stored.attempt}`,
        )
      }
      if (attempt > schedule.setup.control.server.maxAttempts) found.push(`session ${session} had ${attempt} attempts`)
    }
  }
  return found
}

function everyResultIsDelivered({ schedule, accepted, views, results, arrivals }: Day): readonly string[] {
  const found: string[] = []
  for (const task of accepted) {
    const request = schedule.tasks.find((plan) => plan.request.task_id === task)?.request
    const view = views.get(task)
    const bodies = arrivals.filter(({ body }) => JSON.parse(body).task_id === task)
    if (request?.callback_url == null) {
      if (bodies.length > 0) found.push(`task ${task} was delivered without being asked for`)
      continue
    }
    if (view?.delivery === 'delivered' && bodies.length === 0) found.push(`task ${task} is said to be delivered and never arrived`)
    if (view?.delivery !== 'delivered' && view?.delivery !== 'dead') found.push(`the delivery of task ${task} is ${view?.delivery}`)
    if (view?.delivery === 'dead' && schedule.receiverFaultRate === 0) found.push(`task ${task} is a dead letter of a sound trainer`)
    if (new Set(bodies.map(({ key }) => key)).size > 1) found.push(`task ${task} was delivered under several keys`)
    if (new Set(bodies.map(({ body }) => body)).size > 1) found.push(`task ${task} was delivered with different content`)
    for (const { url, body } of bodies.slice(0, 1)) {
      if (url !== request.callback_url) found.push(`task ${task} was delivered to ${url}`)
      const told: readonly { readonly session_id: string; readonly status: string }[] = JSON.parse(body).results
      const known = view?.sessions.map(({ session }) => `${session} ${results.get(session)?.result.status}`) ?? []
      if (told.map(({ session_id, status }) => `${session_id} ${status}`).join() !== known.join()) {
        found.push(`task ${task} was delivered with other results than the ledger's`)
      }
    }
  }
  return found
}

function limitsHold({ schedule, snapshots, peaks }: Day): readonly string[] {
  const found: string[] = []
  const over = (gateway: string, what: string, is: number, may: number): void => {
    if (is > may) found.push(`${gateway}: ${is} ${what}, at most ${may} allowed`)
  }
  for (const { gateway, limits, metrics } of snapshots) {
    over(gateway, 'sessions in INIT and READY', metrics.initQueueDepth + metrics.initInflight + metrics.readyDepth, limits.maxReadySessions)
    over(gateway, 'sessions in INIT', metrics.initInflight, limits.maxInitWorkers)
    over(gateway, 'sessions in RUNNING', metrics.runInflight, limits.maxRunWorkers)
    over(gateway, 'sessions in POSTRUN', metrics.postrunInflight, limits.maxPostrunWorkers)
  }
  for (const { gateway, limits } of schedule.setup.gateways) {
    // A thread that died leaves sandboxes that are still being stopped when the next one starts its own.
    if (schedule.deaths.length > 0) continue
    const peak = peaks.get(gateway)
    over(gateway, 'agent sandboxes', peak?.agents ?? 0, maxAgentSandboxes(limits))
    over(gateway, 'grader sandboxes', peak?.graders ?? 0, limits.maxGraderSandboxes)
    // A machine so slow that a kill outlasts its deadline gives the slot on before the process is gone.
    if (schedule.impatience === 0) over(gateway, 'agent processes', peak?.running ?? 0, limits.maxRunWorkers)
  }
  return found
}

/** READY's places, the run slots, POSTRUN, and the line before POSTRUN, which stops run slots from being given once it is as long. */
function maxAgentSandboxes({ maxReadySessions, maxRunWorkers, maxPostrunWorkers }: GatewayLimits): number {
  return maxReadySessions + maxRunWorkers + 2 * maxPostrunWorkers - 1
}

function arenaIsWhole({ snapshots, rest }: Day): readonly string[] {
  const found: string[] = []
  for (const snapshot of [...snapshots, ...rest.gateways]) {
    if (snapshot === null) continue
    const { allocatedBlocks, freeBlocks, leasedBlocks } = snapshot.metrics.arena
    if (allocatedBlocks !== freeBlocks + leasedBlocks)
      found.push(`${snapshot.gateway}: ${allocatedBlocks} ≠ ${freeBlocks} + ${leasedBlocks}`)
  }
  for (const snapshot of rest.gateways) {
    if (snapshot !== null && snapshot.metrics.arena.leasedBlocks !== 0) {
      found.push(`${snapshot.gateway}: ${snapshot.metrics.arena.leasedBlocks} blocks leased at rest`)
    }
  }
  return found
}

type TrainedRun = { readonly trace: Trace; readonly start: number; readonly end: number }

/** Maximal runs of mask 1. Context stands between any two sampled turns, so each is one turn. */
function* trainedRuns(trace: Trace): Generator<TrainedRun> {
  const mask = trace.loss_mask
  for (let start = mask.indexOf(1); start !== -1; ) {
    const after = mask.indexOf(0, start)
    const end = after === -1 ? mask.length : after
    yield { trace, start, end }
    start = mask.indexOf(1, end)
  }
}

function tracesAreWhatWasSampled({ results, model, engine }: Day): readonly string[] {
  const found: string[] = []
  const trained = new Set<Emission>()
  for (const [session, { attempt, result }] of results) {
    const owner = `${session}#${attempt}`
    for (const { trace, start, end } of result.trajectory.traces.flatMap((trace) => [...trainedRuns(trace)])) {
      const emission = model.emissionOf(trace.response_ids[start] ?? -1)
      if (emission === undefined) {
        found.push(`${owner} trains ids from ${trace.response_ids[start]} on that begin no sampled turn`)
        continue
      }
      if (emission.owner !== owner) found.push(`${owner} trains what ${emission.owner} sampled`)
      if (!engine.sound.has(emission)) found.push(`${owner} trains an answer that was not sound: ${emission.content}`)
      if (trained.has(emission)) found.push(`${owner} trains a turn twice: ${emission.content}`)
      trained.add(emission)
      if (!isSame(trace.response_ids.subarray(start, end), emission.sampledIds)) found.push(`${owner}: other ids than sampled`)
      if (!isSame(trace.response_logprobs?.subarray(start, end) ?? [], emission.logprobs))
        found.push(`${owner}: other logprobs than sampled`)
      if (!isSame([...trace.prompt_ids, ...trace.response_ids.subarray(0, start)], emission.promptIds)) {
        found.push(`${owner}: a context that the engine was not given`)
      }
    }
  }
  return found
}

function isSame(left: ArrayLike<number>, right: ArrayLike<number>): boolean {
  return left.length === right.length && Array.from(left).every((value, at) => value === right[at])
}

/** Of a session whose outcome trains, every answer that reached the agent is trained, or named with the reason why it is not. */
function whatWasSeenIsAccountedFor({ results, model, engine, agents, schedule }: Day): readonly string[] {
  const found: string[] = []
  const byContent = new Map(model.emissions.map((emission) => [emission.content, emission]))
  // Of several answers to one turn the agent goes on with the last.
  const lastOfItsTurn = new Map<string, Emission>()
  for (const { content } of agents.seen) {
    const emission = byContent.get(content)
    if (emission !== undefined) lastOfItsTurn.set(String(emission.promptIds), emission)
  }
  for (const [session, stored] of results) {
    if (!trains(stored)) continue
    const trained = new Set(stored.result.trajectory.traces.flatMap((trace) => [...trainedRuns(trace)].map(firstIdOf)))
    const untrained = reasonsOf(stored)
    for (const { owner, call, content } of agents.seen) {
      if (owner !== `[${session}#${stored.attempt}]`) continue
      const emission = byContent.get(content)
      if (emission === undefined || !content.startsWith(owner))
        found.push(`the agent ${owner} was told what nobody sampled for it: ${content}`)
      else if (!trained.has(emission.sampledIds[0])) {
        const reason = untrained.get(call)
        if (reason === undefined) found.push(`the agent ${owner} saw ${content}; it is neither trained nor accounted for`)
        else if (reason === 'retry_abandoned' && lastOfItsTurn.get(String(emission.promptIds)) !== emission) continue
        else if (engine.sound.has(emission) && schedule.engine.rate === 0 && reason !== 'arena_full') {
          found.push(`the agent ${owner} saw ${content} on a day without faults, and it is not trained: ${reason}`)
        }
      }
    }
  }
  return found
}

function trains({ result }: StoredSession): boolean {
  const { outcome } = result.trajectory.metadata
  return Object.entries(OUTCOMES).some(([name, rule]) => name === outcome && rule.trained)
}

function firstIdOf({ trace, start }: TrainedRun): number | undefined {
  return trace.response_ids[start]
}

function reasonsOf({ result }: StoredSession): ReadonlyMap<string, string> {
  const { untrained } = result.trajectory.metadata
  return new Map(Array.isArray(untrained) ? untrained.map(({ call_id, reason }) => [call_id, reason]) : [])
}

function turnsAreRecordedOnce({ schedule, records, agents }: Day): readonly string[] {
  const found: string[] = []
  // A later record of a call mends its delivery.
  const last = new Map<CallId, CallRecord>(records.map((record) => [record.id, record]))
  const seen = new Map(agents.seen.map((answer) => [answer.call, answer]))
  if (seen.size !== agents.seen.length) found.push(`${agents.seen.length} answers under ${seen.size} ids`)
  for (const { owner, call } of agents.seen) {
    const record = [...last.values()].find(({ id }) => id === call)
    if (record === undefined) found.push(`the agent ${owner} saw the answer of ${call}, which has no record`)
    else if (`[${record.session}#${record.attempt}]` !== owner) found.push(`the agent ${owner} saw an answer of ${record.session}`)
    else if (record.status !== 'ok' || record.delivery !== 'yes')
      found.push(`${call}: seen, and ${record.status} with delivery ${record.delivery}`)
  }
  const turns = new Map<string, CallRecord[]>()
  for (const record of last.values()) {
    // A record is written before its answer leaves: a thread that dies in between cannot mend what it says of the delivery.
    const isForecast = schedule.deaths.length > 0
    if (record.status === 'ok' && record.delivery === 'yes' && !seen.has(record.id) && !isForecast)
      found.push(`${record.id} was delivered to nobody`)
    const turn = `${record.session}#${record.attempt} ${record.digest}`
    turns.set(turn, [...(turns.get(turn) ?? []), record])
  }
  // Agents are back within the linger: whatever was answered is what they get, unless they have it and ask for another.
  for (const [turn, calls] of turns) {
    const answered = calls.filter(({ status }) => status === 'ok')
    const taken = answered.filter(({ id }) => seen.has(id))
    if (answered.length > taken.length + (taken.length === calls.length ? 0 : 1)) {
      found.push(`${turn} was answered ${answered.length} times and taken ${taken.length} times`)
    }
  }
  return found
}

function sessionsAreApart({ results, model }: Day): readonly string[] {
  const found: string[] = []
  for (const [session, { attempt, result }] of results) {
    const owner = `${session}#${attempt}`
    for (const { prompt_ids, response_ids, prompt_messages, response_messages } of result.trajectory.traces) {
      const strangers = [...prompt_ids, ...response_ids].filter((id) => model.ownerOfId(id) !== owner)
      if (strangers.length > 0) found.push(`${owner} holds ${strangers.length} token ids of ${model.ownerOfId(strangers[0] ?? -1)}`)
      const named = JSON.stringify([prompt_messages, response_messages]).matchAll(/\[(sk-polar-[^\]]+)\]/g)
      for (const [, name] of named) if (name !== owner) found.push(`${owner} holds a message of ${name}`)
    }
  }
  return found
}

function nothingIsLeft({ rest, actorsAfterClose, schedule }: Day): readonly string[] {
  const found: string[] = []
  if (!rest.isDrained) found.push('the drain did not end')
  if (rest.timers > 0) found.push(`${rest.timers} timers`)
  if (rest.sandboxes > 0) found.push(`${rest.sandboxes} sandboxes`)
  if (rest.processes > 0) found.push(`${rest.processes} processes`)
  if (actorsAfterClose > 0) found.push(`${actorsAfterClose} actors after close`)
  for (const stats of rest.kernels) {
    if (stats.pendingAsks > 0) found.push(`${stats.thread}: ${stats.pendingAsks} asks`)
    if (stats.pendingTimers > 0) found.push(`${stats.thread}: ${stats.pendingTimers} actor timers`)
    for (const { name, user, system } of stats.mailboxes) {
      if (user + system > 0) found.push(`${stats.thread}: ${user + system} messages for ${name}`)
      if (name.startsWith('session/')) found.push(`${stats.thread}: the actor ${name}`)
    }
  }
  for (const snapshot of rest.gateways) {
    if (snapshot === null) found.push('a gateway does not answer')
    else if (snapshot.sessions.length > 0) found.push(`${snapshot.gateway}: ${snapshot.sessions.length} sessions`)
    for (const { id, inFlight, waiting } of snapshot?.replicas ?? []) {
      if (inFlight + waiting > 0) found.push(`${snapshot?.gateway}: replica ${id} has ${inFlight} calls in flight and ${waiting} waiting`)
    }
  }
  for (const calls of rest.calls) if (calls > 0) found.push(`${calls} places in generation`)
  const permanent = 3 + 1 + schedule.setup.gateways.reduce((sum, { replicas }) => sum + 3 + replicas.length, 0)
  const actors = rest.kernels.reduce((sum, stats) => sum + stats.actors, 0)
  if (actors !== permanent) found.push(`${actors} actors, of which ${permanent} are permanent`)
  return found
}
