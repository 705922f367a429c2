// The control API on a real port: the event feed as a browser or a script follows it, and a close that lets go of everyone.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
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
): Promise<readonly { id: string; type: string; data: unknown }[]> {
  const controller = new AbortController()
  const response = await fetch(`${api.url}/events`, { headers: { ...headers, ...more }, signal: controller.signal })
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
  await vi.waitFor(() => expect(control.held.size).toBe(2), { interval: 1 })
  for (const session of [...control.held.keys()]) await control.finish(session, 'completed')
  await vi.waitFor(async () => expect((await control.call('GET', '/tasks')).body.tasks[0].status).toBe('completed'), { interval: 1 })
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
