// Callbacks over HTTP: how each stands, and a trainer that moved gets what it missed.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openControl, task } from './control-world.ts'

const OLD = 'http://me:secret@127.0.0.1:9000/cb'
const NEW = 'http://127.0.0.1:9001/cb?run=2'

let control: Awaited<ReturnType<typeof openControl>>
beforeEach(async () => {
  control = await openControl()
  control.startGateway(20)
})
afterEach(() => control.close())

const list = async (query = '') => (await control.call('GET', `/callbacks${query}`)).body.callbacks
const redrive = (body: unknown) => control.call('POST', '/callbacks/redrive', body)
const deliveryOf = async (id: string) => (await control.call('GET', `/tasks/${id}/sessions`)).body.delivery

/** A task of one session that has ended, and whose callback is over if it has one. */
async function done(id: string, callback: string | null, status = 200): Promise<void> {
  control.trainer.status = status
  await control.call('POST', '/rollout/task/submit', task(id, callback === null ? {} : { callback_url: callback }))
  await vi.waitUntil(() => control.held.size > 0, { timeout: 20_000, interval: 1 })
  for (const session of control.held.keys()) await control.finish(session, 'completed')
  await vi.waitUntil(async () => (await list('?state=none')).length + (await settled()).length === submitted + 1, {
    timeout: 20_000,
    interval: 1,
  })
  submitted += 1
}
let submitted = 0
beforeEach(() => {
  submitted = 0
})
const settled = async () => [...(await list('?state=delivered')), ...(await list('?state=dead'))]

describe('GET /callbacks', () => {
  it('has the newest first and what became of each, and no secret of a URL', async () => {
    await done('a', OLD)
    await done('b', OLD, 404)
    await done('none', null)
    const row = (id: string, state: string, detail: string) => ({
      task_id: id,
      session_id: null,
      state,
      origin: 'http://127.0.0.1:9000',
      tries: 1,
      detail,
      ended_at: expect.any(Number),
    })
    const rows = [row('b', 'dead', 'answered 404 at attempt 1'), row('a', 'delivered', 'answered 200 at attempt 1')]
    expect(await list()).toEqual(rows)
    expect(await list('?limit=1')).toEqual(rows.slice(0, 1))
    expect(await list('?state=delivered')).toEqual(rows.slice(1))
    expect(await list('?state=pending')).toEqual([])
    expect(await list('?state=none')).toMatchObject([{ task_id: 'none', origin: null, ended_at: null }])
  })

  it.each([
    ['state', 'lost'],
    ['limit', '0'],
    ['limit', '1001'],
  ])('refuses %s=%s', async (name, value) => {
    const { status, body } = await control.call('GET', `/callbacks?${name}=${value}`)
    expect([status, body.detail[0].loc]).toEqual([422, ['query', name]])
  })
})

describe('POST /callbacks/redrive', () => {
  it('delivers what is dead, and nothing else, to another URL with the key and the body it had', async () => {
    await done('a', OLD)
    await done('b', OLD, 404)
    await done('c', OLD, 500)
    control.trainer.status = 200
    const before = control.delivered.splice(0)
    expect(await deliveryOf('b')).toBe('dead')
    const { status, body } = await redrive({ callback_url: NEW })
    expect([status, body]).toEqual([200, { redriven: ['b', 'c'], lost: [] }])
    await vi.waitUntil(async () => (await list('?state=delivered')).length === 3, { timeout: 20_000, interval: 1 })
    expect(control.delivered.map(({ url }) => url)).toEqual([NEW, NEW])
    for (const again of control.delivered) expect(before).toContainEqual({ ...again, url: OLD })
    await vi.waitUntil(async () => (await deliveryOf('b')) === 'delivered', { timeout: 20_000, interval: 1 })
  })

  it('delivers tasks that are named whatever became of them, also one that had no callback', async () => {
    await done('a', OLD)
    await done('none', null)
    expect(await deliveryOf('none')).toBe('none')
    control.delivered.splice(0)
    expect((await redrive({ task_ids: ['none', 'a'], callback_url: NEW })).body).toEqual({ redriven: ['a', 'none'], lost: [] })
    await vi.waitUntil(async () => (await list('?state=delivered')).length === 2, { timeout: 20_000, interval: 1 })
    for (const { body } of control.delivered) {
      const { task_id, status, results } = body as { task_id: string; status: string; results: unknown }
      const read = (await control.call('GET', `/rollout/task/${task_id}`)).body
      expect({ status, results }).toEqual({ status: read.status, results: read.results })
    }
    await vi.waitUntil(async () => (await deliveryOf('none')) === 'delivered', { timeout: 20_000, interval: 1 })
  })

  it('delivers what is in a state that is named, to where it was to go', async () => {
    await done('a', OLD)
    control.delivered.splice(0)
    expect((await redrive({ state: 'delivered' })).body).toEqual({ redriven: ['a'], lost: [] })
    await vi.waitUntil(() => control.delivered.length === 1, { timeout: 20_000, interval: 1 })
    expect(control.delivered[0]?.url).toBe(OLD)
  })

  it('without a body delivers what is not delivered', async () => {
    await done('a', OLD, 404)
    expect((await redrive(undefined)).body).toEqual({ redriven: ['a'], lost: [] })
  })

  it.each([
    ['an address that submits may not name either', { callback_url: 'http://169.254.169.254/' }, 422, ['body', 'callback_url']],
    ['an address that is none', { callback_url: 'here' }, 422, ['body', 'callback_url']],
    ['an id that is none', { task_ids: ['../a'] }, 422, ['body', 'task_ids', 0]],
    ['no ids', { task_ids: [] }, 422, ['body', 'task_ids']],
    ['ids and a state', { task_ids: ['a'], state: 'dead' }, 422, ['body', 'state']],
    ['a task that goes nowhere', { task_ids: ['none'] }, 422, ['body', 'callback_url']],
  ])('refuses %s, and delivers nothing', async (_, body, status, loc) => {
    await done('a', OLD, 404)
    await done('none', null)
    control.delivered.splice(0)
    const refused = await redrive(body)
    expect([refused.status, refused.body.detail[0].loc]).toEqual([status, loc])
    expect(await list('?state=dead')).toHaveLength(1)
    expect(control.delivered).toEqual([])
  })

  it('refuses all when one task is unknown', async () => {
    await done('a', OLD, 404)
    const refused = await redrive({ task_ids: ['a', 'b'], callback_url: NEW })
    expect([refused.status, refused.headers['x-polar-error'], refused.body]).toEqual([
      404,
      'task-unknown',
      { detail: 'no ended task or session b' },
    ])
    expect(await deliveryOf('a')).toBe('dead')
  })
})

describe('a session by itself', () => {
  it('is delivered as its own result, listed by its name, in the feed under the task it names, and driven again by its id', async () => {
    const body = { session_id: 's-1', task_id: 't', instruction: 'do it', agent: { harness: 'shell' }, remaining_timeout_seconds: 60 }
    expect((await control.call('POST', '/sessions', { ...body, callback_url: OLD })).status).toBe(200)
    await vi.waitUntil(() => control.held.size > 0, { timeout: 20_000, interval: 1 })
    for (const session of control.held.keys()) await control.finish(session, 'completed')
    await vi.waitUntil(async () => (await settled()).length === 1, { timeout: 20_000, interval: 1 })
    expect(await list()).toMatchObject([{ task_id: null, session_id: 's-1', state: 'delivered' }])
    const { entries } = (await control.call('GET', '/feed')).body
    expect(entries).toMatchObject([{ type: 'session', session_id: 's-1', task_id: 't', href: '/sessions/s-1/result' }])

    expect((await redrive({ session_ids: ['s-1'], callback_url: NEW })).body).toEqual({ redriven: ['s-1'], lost: [] })
    await vi.waitUntil(() => control.delivered.length === 2, { timeout: 20_000, interval: 1 })
    const result = (await control.call('GET', '/sessions/s-1/result')).body
    expect(control.delivered).toEqual([OLD, NEW].map((url) => ({ url, key: control.delivered[0]?.key, body: result })))
    expect((await redrive({ task_ids: ['t'] })).status).toBe(404)
  })
})
