// The control API on a real port: the event feed as a browser or a script follows it, and a close that lets go of everyone.
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { gatewayId, knownSessionId, taskId } from '../../src/contract/ids.ts'
import { type ControlApi, openControlApi } from '../../src/http/control-api.ts'
import { openControl, TOKEN, task } from './control-world.ts'

let control: Awaited<ReturnType<typeof openControl>>
let api: ControlApi
beforeEach(async () => {
  control = await openControl()
  api = await openControlApi(control.options)
})
afterEach(async () => {
  await api.close()
  await control.close()
})

const headers = { authorization: `Bearer ${TOKEN}` }

/** Reads the feed until `count` events came, then leaves. */
async function events(
  count: number,
  more: Readonly<Record<string, string>> = {},
  path = '/events',
): Promise<readonly { id: string; type: string; data: unknown }[]> {
  const controller = new AbortController()
  const response = await fetch(api.url + path, { headers: { ...headers, ...more }, signal: controller.signal })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
  let text = ''
  const found = () =>
    [...text.matchAll(/(?:id: (\S+)\n)?event: (\S+)\ndata: (.*)\n\n/g)].map(([, id, type, data]) => ({
      id: id!,
      type: type!,
      data: JSON.parse(data!),
    }))
  for await (const chunk of response.body!) {
    text += Buffer.from(chunk).toString()
    if (found().length >= count) break
  }
  controller.abort()
  return found()
}

function submit(id: string, overrides: Record<string, unknown> = {}) {
  return fetch(`${api.url}/rollout/task/submit`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(task(id, overrides)),
  })
}

it('a task whose results stop in the middle is cut off, never ended as if it were whole', async () => {
  await api.close()
  let reads = 0
  const readResult = async () => {
    reads += 1
    return reads === 1 ? ({ ok: true, json: Buffer.from('{}') } as const) : ({ ok: false, error: 'unavailable', detail: 'gone' } as const)
  }
  api = await openControlApi({ ...control.options, readResult })
  control.startGateway(2)
  await submit('t', { num_samples: 2 })
  await vi.waitFor(() => expect(control.held.size).toBe(2), { interval: 1, timeout: 20_000 })
  for (const session of [...control.held.keys()]) await control.finish(session, 'completed')
  await vi.waitFor(async () => expect((await control.call('GET', '/tasks')).body.tasks[0].status).toBe('completed'), {
    interval: 1,
    timeout: 20_000,
  })
  const response = await fetch(`${api.url}/rollout/task/t`, { headers })
  await expect(response.text()).rejects.toThrow()
})

describe('the event feed over HTTP', () => {
  it('tells what happens, and resumes after the last id seen', async () => {
    const following = events(1)
    await submit('a')
    const [first] = await following
    expect(first).toMatchObject({ type: 'task.created', data: { task_id: 'a', status: 'running' } })
    await submit('b')
    await submit('c')
    expect(await events(2, { 'last-event-id': first!.id })).toMatchObject([{ data: { task_id: 'b' } }, { data: { task_id: 'c' } }])
  })

  it('resumes after an id in the URL, for clients that cannot set the header, which counts more', async () => {
    const following = events(1)
    await submit('a')
    const [first] = await following
    await submit('b')
    expect(await events(1, {}, `/events?last_event_id=${first!.id}`)).toMatchObject([{ data: { task_id: 'b' } }])
    await submit('c')
    const [second] = await events(1, {}, `/events?last_event_id=${first!.id}`)
    expect(await events(1, { 'last-event-id': second!.id }, '/events?last_event_id=nonsense')).toMatchObject([{ data: { task_id: 'c' } }])
  })

  it('tells of a session from its dispatch to its end, and on which gateway', async () => {
    const following = events(5)
    control.startGateway(1)
    await submit('t')
    await vi.waitFor(() => expect(control.held.size).toBe(1), { interval: 1, timeout: 20_000 })
    const [session] = [...control.held.keys()]
    control.kernel.tell(control.server, { type: 'session-changed', session: session!, attempt: 1, status: 'RUNNING' })
    await control.finish(session!, 'completed')
    const seen = await following
    expect(seen.map(({ type, data }) => [type, (data as { readonly status: string }).status])).toEqual([
      ['task.created', 'running'],
      ['session.state_changed', 'DISPATCHING'],
      ['session.state_changed', 'RUNNING'],
      ['session.state_changed', 'COMPLETED'],
      ['task.updated', 'running'],
    ])
    expect(seen.slice(1, 4).map(({ data }) => data)).toMatchObject(
      Array(3).fill({ session_id: session, task_id: 't', node_id: 'g0', attempt: 1 }),
    )
  })

  it("tells a gateway's readers of its sessions only, and they resume as others do", async () => {
    control.startGateway(2)
    const following = events(1, {}, '/gateways/g0/events')
    await submit('a')
    const [first] = await following
    expect(first).toMatchObject({ type: 'session.state_changed', data: { task_id: 'a', status: 'DISPATCHING', node_id: 'g0' } })
    control.events.publish({
      type: 'session.state_changed',
      session: knownSessionId('of-another'),
      task: taskId('a'),
      gateway: gatewayId('g1'),
      status: 'RUNNING',
      attempt: 1,
      summary: null,
      atMs: 0,
    })
    await submit('b')
    await vi.waitFor(() => expect(control.held.size).toBe(2), { interval: 1, timeout: 20_000 })
    for (const headersOrNot of [{ 'last-event-id': first!.id }, {}] as const) {
      const path = 'last-event-id' in headersOrNot ? '/gateways/g0/events' : `/gateways/g0/events?last_event_id=${first!.id}`
      expect(await events(1, headersOrNot, path)).toMatchObject([{ data: { task_id: 'b', node_id: 'g0' } }])
    }
  })

  it('cuts off a reader that does not read, which resumes where it was', async () => {
    const port = Number(new URL(api.url).port)
    const slow = connect(port, '127.0.0.1')
    slow.write(`GET /events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKEN}\r\n\r\n`)
    let text = ''
    slow.on('data', (chunk) => {
      text += chunk.toString()
    })
    await submit('first')
    await vi.waitFor(() => expect(text).toContain('event: task.created'), { interval: 1, timeout: 20_000 })
    const [id] = /b-\d+/.exec(text) ?? []
    slow.pause()
    const gone = once(slow, 'close')
    // More than sockets hold: what is left of it is more than the feed keeps for anybody.
    for (let count = 0; count < 5_000; count += 1)
      control.events.publish({ type: 'task.updated', task: taskId('x'.repeat(5_000)), status: 'running', atMs: 0 })
    control.events.publish({ type: 'task.updated', task: taskId('last'), status: 'running', atMs: 0 })
    slow.resume()
    await gone
    expect(text).not.toContain('"task_id":"last"')
    const missed = await events(2, { 'last-event-id': id! })
    // Of so many, only the latest are kept; it is told so.
    expect(missed.map(({ type }) => type)).toEqual(expect.arrayContaining(['events.lost', 'task.updated']))
  })

  it('answers 503 to more readers than it serves', async () => {
    const controller = new AbortController()
    const open = () => fetch(`${api.url}/events`, { headers, signal: controller.signal })
    expect([(await open()).status, (await open()).status]).toEqual([200, 200])
    const third = await open()
    expect([third.status, await third.json()]).toEqual([503, { detail: expect.any(String) }])
    controller.abort()
  })

  it('ends with the API, which closes although somebody still reads', async () => {
    const response = await fetch(`${api.url}/events`, { headers })
    const reading = response.text()
    await api.close()
    await api.close()
    await expect(reading).rejects.toThrow()
    await expect(fetch(`${api.url}/health`)).rejects.toThrow()
  })
})
