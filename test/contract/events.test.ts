// Polar's promises of its event feeds: what happens to tasks and sessions, in order, with a heartbeat, and taken up where a reader left off.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { authentication } from './client.ts'
import { type ContractNode, openContractNode } from './contract-node.ts'
import { type EventStream, openEventStream, type SentEvent } from './event-stream.ts'
import { SESSION_STATUSES, sessionEvent, TERMINAL_STATUSES, taskEvent } from './schemas.ts'
import { parse } from './shape.ts'

let node: ContractNode
/** Opened before anything happens, and left alone. */
let idle: EventStream
const opened: EventStream[] = []

beforeAll(async () => {
  node = await openContractNode({ nodes: [{ id: 'g', max_run_workers: 4 }, { id: 'other' }] })
  idle = await follow(`${node.client.base}/events`)
})
afterAll(async () => {
  for (const stream of opened) await stream.close()
  await node?.close()
})

async function follow(url: string, headers: Readonly<Record<string, string>> = {}): Promise<EventStream> {
  const stream = await openEventStream(url, { ...authentication(node.serving.token, 'bearer'), ...headers })
  opened.push(stream)
  return stream
}

const ofTask = (events: readonly SentEvent[], task: string) =>
  events.filter(({ data }) => typeof data === 'object' && data !== null && 'task_id' in data && data.task_id === task)
const statusesOf = (events: readonly SentEvent[]): readonly string[] =>
  events.filter(({ type }) => type === 'session.state_changed').map(({ data }) => parse(sessionEvent, data, 'event').status)
/** Polar tells a session's first status to some, and an event of the dispatch that is no status. */
const passed = (statuses: readonly string[]) => statuses.filter((status) => status !== 'DISPATCHING' && status !== 'REGISTERED')
const LIFE = [...SESSION_STATUSES.slice(1), 'COMPLETED']
const isOver = (task: string) => (events: readonly SentEvent[]) => ofTask(events, task).some(({ type }) => type === 'task.completed')

describe('the server’s feed', () => {
  it('tells a task and each status of its session in order, each once', async () => {
    await node.client.submit(node.task('told'))
    const events = ofTask(await idle.until(isOver('told')), 'told')
    expect(idle.response.headers.get('content-type')).toMatch(/^text\/event-stream/)
    const types = events.map(({ type }) => type)
    expect(types[0]).toBe('task.created')
    expect(types.at(-1)).toBe('task.completed')
    const known = ['task.created', 'task.updated', 'task.completed', 'session.state_changed']
    expect(types.filter((type) => !known.includes(type))).toEqual([])
    expect(passed(statusesOf(events))).toEqual(LIFE)
    const [[session] = []] = [(await node.client.task('told')).results]
    expect(session?.trajectory.metadata.agent_result).toMatchObject({ return_code: 0 })
    const tasks = events.filter(({ type }) => type.startsWith('task.')).map(({ data }) => parse(taskEvent, data, 'event').status)
    expect(tasks.at(-1)).toBe('completed')
  })

  it.each<readonly [string, Parameters<ContractNode['task']>[1], string, string]>([
    ['of an agent that runs out of time', { gate: 'never', keys: { metadata: { agent_timeout: 1 } } }, 'TIMEOUT', 'completed'],
    [
      'of a session that cannot be prepared',
      { keys: { runtime: { backend: 'local', prepare: [{ type: 'exec', command: 'exit 1' }] } } },
      'ERROR',
      'failed',
    ],
  ])('tells the end %s', async (_what, work, status, task) => {
    await node.client.submit(node.task(`ends-${status}`, work))
    const events = ofTask(await idle.until(isOver(`ends-${status}`)), `ends-${status}`)
    const statuses = passed(statusesOf(events))
    expect(statuses.at(-1)).toBe(status)
    expect(statuses.filter((each) => TERMINAL_STATUSES.some((terminal) => terminal === each)).length).toBe(1)
    const order = statuses.slice(0, -1).map((each) => SESSION_STATUSES.indexOf(each as (typeof SESSION_STATUSES)[number])) // as the shape has checked
    expect(order).toEqual(order.toSorted((one, other) => one - other))
    expect(parse(taskEvent, events.at(-1)?.data, 'event').status).toBe(task)
  })

  it('tells a cancel: the task is cancelling or cancelled, its session an error', async () => {
    await node.client.submit(node.task('cancelled', { gate: 'never' }))
    await idle.until((events) => statusesOf(ofTask(events, 'cancelled')).includes('RUNNING'))
    await node.client.cancel('cancelled')
    const events = ofTask(await idle.until(isOver('cancelled')), 'cancelled')
    expect(statusesOf(events).at(-1)).toBe('ERROR')
    expect(parse(taskEvent, events.at(-1)?.data, 'event').status).toBe('cancelled')
  })

  it('goes on after Last-Event-ID: nothing lost, nothing twice', async () => {
    const first = await follow(`${node.client.base}/events`)
    await node.client.submit(node.task('resumed', { gate: 'resumed' }))
    const seen = await first.until((events) => statusesOf(ofTask(events, 'resumed')).includes('RUNNING'))
    await first.close()
    node.openGate('resumed')
    await idle.until(isOver('resumed'))
    const second = await follow(`${node.client.base}/events`, { 'last-event-id': seen.at(-1)?.id ?? '' })
    const missed = await second.until(isOver('resumed'))
    expect([...seen, ...missed].filter(({ id }) => id !== '').map(({ id }) => id)).toEqual(
      idle.events.slice(-(seen.length + missed.length)).map(({ id }) => id),
    )
    expect(passed(statusesOf(ofTask([...seen, ...missed], 'resumed')))).toEqual(LIFE)
  })

  it('tells a reader whose Last-Event-ID is of another life that it has missed something', async () => {
    const stream = await follow(`${node.client.base}/events`, { 'last-event-id': 'an-id-of-another-life' })
    const [first] = await stream.until((events) => events.length > 0)
    expect(first?.type).toBe('events.lost')
  })
})

describe('a gateway’s feed', () => {
  it('tells the sessions of that gateway only', async () => {
    const gateway = await node.gateway('g')
    const [mine, others] = await Promise.all([follow(`${gateway.url}/events`), follow(`${(await node.gateway('other')).url}/events`)])
    await gateway.dispatch({ ...node.task('at-g'), session_id: 'session-at-g', remaining_timeout_seconds: 60 })
    const events = await mine.until((all) => statusesOf(all).includes('COMPLETED'))
    expect(new Set(events.map(({ type }) => type))).toEqual(new Set(['session.state_changed']))
    for (const { data } of events) expect(data).toMatchObject({ session_id: 'session-at-g', task_id: 'at-g' })
    expect(others.events).toEqual([])
  })
})

describe('heartbeats', () => {
  it('come while nothing happens', async () => {
    // Every 15 seconds on both feeds; that of the server was opened first of all.
    const feed = await follow(`${(await node.gateway('other')).url}/events`)
    const [greetings, ofServer] = [feed.comments.length, idle.comments.length]
    await feed.until(() => feed.comments.length > greetings && idle.comments.length > ofServer, { timeout: 60_000, interval: 100 })
  })
})
