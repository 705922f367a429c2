// Sessions by themselves on the wire: dispatched, captured, listed, read, deleted and finished, at the root and under their gateway.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { knownSessionId } from '../../src/contract/ids.ts'
import { openControl } from './control-world.ts'

type Control = Awaited<ReturnType<typeof openControl>>

let control: Control
beforeEach(async () => {
  control = await openControl()
  control.startGateway(8)
  await vi.waitUntil(async () => (await control.call('GET', '/nodes')).body.length === 1, { timeout: 20_000 })
})
afterEach(() => control.close())

const dispatch = (id: string, changes: Readonly<Record<string, unknown>> = {}): Record<string, unknown> => ({
  session_id: id,
  task_id: 't',
  instruction: 'do it',
  remaining_timeout_seconds: 30,
  agent: { harness: 'shell' },
  ...changes,
})

const PLACES = [['the root', ''] as const, ['its gateway', '/gateways/g0'] as const]

const holds = (session: string) =>
  vi
    .waitUntil(() => control.held.get(knownSessionId(session)), { timeout: 20_000 })
    .then((spec) => {
      if (spec === undefined) throw new Error(`${session} was not opened`)
      return spec
    })
const ended = (session: string) =>
  vi.waitUntil(
    async () => {
      const { body } = await control.call('GET', `/sessions/${session}`)
      return body.result === undefined ? null : body
    },
    { timeout: 20_000 },
  )

describe.each(PLACES)('a dispatched session, at %s', (_, place) => {
  it('is run as Polar asks for it, and answered as Polar answers', async () => {
    const url = 'http://trainer:9000/callbacks/session_result'
    const { status, body } = await control.call(
      'POST',
      `${place}/sessions`,
      dispatch('sk-1', { callback_url: url, metadata: { group_id: 'g' } }),
    )
    expect({ status, body }).toEqual({
      status: 200,
      body: { session_id: 'sk-1', task_id: 't', status: 'REGISTERED', node_id: expect.toSatisfy((id) => id === null || id === 'g0') },
    })
    const { kind, task, request } = await holds('sk-1')
    expect([kind, task, request.timeout_seconds, request.builder.strategy, request.num_samples, request.metadata]).toEqual([
      'agent',
      't',
      30,
      'per_request',
      1,
      { group_id: 'g' },
    ])
    await control.finish(knownSessionId('sk-1'), 'completed')
    await vi.waitUntil(() => control.delivered.length > 0, { timeout: 20_000 })
    // Its callback is a SessionResult, not a task's.
    expect(control.delivered).toMatchObject([{ url, body: { session_id: 'sk-1', task_id: 't', status: 'COMPLETED', node_id: 'g0' } }])
    expect(await ended('sk-1')).toMatchObject({ completion_count: 3, status: 'COMPLETED', result: { session_id: 'sk-1' } })
  })

  it('is one session however often it is asked for, and a conflict with another body', async () => {
    const once = await control.call('POST', `${place}/sessions`, dispatch('sk-1'))
    const again = await control.call('POST', `${place}/sessions`, dispatch('sk-1'))
    const other = await control.call('POST', `${place}/sessions`, dispatch('sk-1', { instruction: 'something else' }))
    expect([once.status, again.status, other.status]).toEqual([200, 200, 409])
    expect(again.body).toMatchObject({ session_id: 'sk-1', task_id: 't' })
    expect(other.headers['x-polar-error']).toBe('session-conflict')
    expect(control.held.size).toBe(1)
  })

  it.each([
    ['an unknown harness', { agent: { harness: 'nosuch' } }, 'unknown harness nosuch'],
    ['no time', { remaining_timeout_seconds: 0 }, 'remaining_timeout_seconds'],
    ['no instruction', { instruction: undefined }, 'body.instruction: Field required'],
    ['an id that is no id', { session_id: '../etc' }, 'session_id'],
    ['a callback that is no URL', { callback_url: 'nowhere' }, 'callback_url'],
  ])('is refused with 400 and a sentence for %s', async (_, changes, said) => {
    const { status, body } = await control.call('POST', `${place}/sessions`, dispatch('sk-1', changes))
    expect([status, typeof body.detail]).toEqual([400, 'string'])
    expect(body.detail).toContain(said)
    expect(control.held.size).toBe(0)
  })
})

describe.each(PLACES)('a capture, at %s', (_, place) => {
  it('gives a base URL per vendor and a key, and the same again while it is open', async () => {
    const asked = { session_id: 'c-1', task_id: 't', metadata: { who: 'me' } }
    const { status, body } = await control.call('POST', `${place}/sessions`, asked)
    const base = 'http://g0.example:8081/s/c-1'
    const polar_node = { node_id: 'g0', api_key: 'key of c-1', base_urls: { openai: `${base}/v1`, anthropic: base, google: base } }
    expect([status, body]).toEqual([
      200,
      {
        session_id: 'c-1',
        task_id: 't',
        created_at: expect.any(Number),
        completion_count: expect.any(Number),
        status: 'RUNNING',
        metadata: { polar_node },
      },
    ])
    expect((await control.call('POST', `${place}/sessions`, asked)).body.metadata).toEqual({ polar_node })
    expect((await control.call('POST', `${place}/sessions`, { ...asked, task_id: 'u' })).status).toBe(409)
    expect(control.held.size).toBe(1)
    const { kind, request } = await holds('c-1')
    expect([kind, request.metadata, request.builder.strategy, request.timeout_seconds]).toEqual([
      'capture',
      { who: 'me' },
      'per_request',
      86_400,
    ])
  })

  it('needs nothing: it gets an id, and its result names that as its task', async () => {
    for (const body of [undefined, {}, { task_id: null, agent: { harness: 'shell' } }, { session_id: null }]) {
      const opened = await control.call('POST', `${place}/sessions`, body)
      expect(opened.status).toBe(200)
      expect(opened.body.session_id).toMatch(/^sk-polar-[0-9a-f-]{36}$/)
      expect(opened.body.task_id).toBe(opened.body.session_id)
    }
    expect(control.held.size).toBe(4)
  })

  it('ends when it is finished, and its key with it', async () => {
    await control.call('POST', `${place}/sessions`, { session_id: 'c-1' })
    const finish = await control.call('POST', `${place}/sessions/c-1/finish`, { reward: 0.5 })
    expect(finish).toMatchObject({ status: 200, body: { session_id: 'c-1', task_id: 'c-1', status: 'POST_RUN', finished: true } })
    expect(await ended('c-1')).toMatchObject({ status: 'COMPLETED', result: { status: 'COMPLETED' } })
    expect((await control.call('POST', `${place}/sessions/c-1/finish`)).body).toMatchObject({ status: 'COMPLETED', finished: false })
    expect((await control.call('POST', `${place}/sessions`, { session_id: 'c-1' })).body).toMatchObject({
      status: 'COMPLETED',
      completion_count: 3,
      metadata: { polar_node: { api_key: null, base_urls: null } },
    })
  })

  it.each([
    ['builder', { builder: { strategy: 7 } }, 'builder.strategy'],
    ['timeout', { timeout_seconds: -1 }, 'timeout_seconds'],
    ['session id', { session_id: 'a b' }, 'session_id'],
    ['agent_timeout', { metadata: { agent_timeout: true } }, 'agent_timeout'],
  ])('is refused with 400 for a wrong %s', async (_, body, said) => {
    const refused = await control.call('POST', `${place}/sessions`, body)
    expect(refused.status).toBe(400)
    expect(refused.body.detail).toContain(said)
  })

  it('is refused while its gateway has as many as it may, and opened when one has ended', async () => {
    for (const index of [1, 2, 3, 4]) await control.call('POST', `${place}/sessions`, { session_id: `c-${index}` })
    const refused = await control.call('POST', `${place}/sessions`, { session_id: 'c-5' })
    expect([refused.status, Number(refused.headers['retry-after']) > 0]).toEqual([429, true])
    expect(refused.body.detail).toBe('no gateway takes a capture now: each is full, drained or not healthy')
    await control.call('POST', `${place}/sessions/c-1/finish`)
    await ended('c-1')
    expect((await control.call('POST', `${place}/sessions`, { session_id: 'c-5' })).status).toBe(200)
  })

  it('takes no reward that is not a number', async () => {
    await control.call('POST', `${place}/sessions`, { session_id: 'c-1' })
    for (const reward of [true, '1', [1]]) {
      expect((await control.call('POST', `${place}/sessions/c-1/finish`, { reward })).status).toBe(422)
    }
    expect(control.held.size).toBe(1)
  })
})

describe.each(PLACES)('sessions at %s', (_, place) => {
  it('are listed while they run and when they have ended', async () => {
    await control.call('POST', '/sessions', { session_id: 'c-1', task_id: 't' })
    await control.call('POST', '/sessions', { session_id: 'c-2', task_id: 'u' })
    await control.call('POST', '/sessions/c-1/finish')
    await ended('c-1')
    const list = async (query: string) => {
      const { body } = await control.call('GET', `${place}/sessions${query}`)
      return body.sessions.map((row: { session_id: string }) => row.session_id)
    }
    expect(await list('')).toEqual(['c-2', 'c-1'])
    expect(await list('?status=active')).toEqual(['c-2'])
    expect(await list('?status=COMPLETED')).toEqual(['c-1'])
    expect(await list('?task_id=t')).toEqual(['c-1'])
    expect(await list('?limit=1')).toEqual(['c-2'])
    const { body } = await control.call('GET', `${place}/sessions?task_id=u`)
    expect(body).toEqual({
      sessions: [
        {
          session_id: 'c-2',
          task_id: 'u',
          status: 'RUNNING',
          age_seconds: expect.any(Number),
          idle_seconds: expect.any(Number),
          completion_count: 7,
          model_requested: 'gpt-5',
          model_used: 'policy',
          api_type: 'openai_chat',
          created_at: expect.any(Number),
          node_id: 'g0',
        },
      ],
      node_id: place === '' ? null : 'g0',
    })
    for (const query of ['?limit=0', '?limit=1001', '?status=nosuch']) {
      expect((await control.call('GET', `${place}/sessions${query}`)).status).toBe(422)
    }
  })

  it('are deleted at once; one that has ended keeps its result and says so', async () => {
    await control.call('POST', `${place}/sessions`, dispatch('sk-1'))
    await holds('sk-1')
    const live = await control.call('DELETE', `${place}/sessions/sk-1`)
    expect(live).toMatchObject({ status: 200, body: { session_id: 'sk-1', deleted: true, messages_deleted: 0 } })
    expect(await ended('sk-1')).toMatchObject({ status: 'ERROR' })
    expect((await control.call('DELETE', `${place}/sessions/sk-1`)).body).toEqual({
      session_id: 'sk-1',
      deleted: false,
      messages_deleted: 0,
    })
    expect(await ended('sk-1')).toMatchObject({ status: 'ERROR' })
  })

  it('that nobody knows are 404, and ids that are none 400', async () => {
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/finish'],
    ] as const) {
      expect((await control.call(method, `${place}/sessions/nosuch${path}`)).status).toBe(404)
      expect((await control.call(method, `${place}/sessions/%20${path}`)).status).toBe(400)
    }
  })

  it('with an agent of this node are not finished from outside', async () => {
    await control.call('POST', `${place}/sessions`, dispatch('sk-1'))
    await holds('sk-1')
    expect((await control.call('POST', `${place}/sessions/sk-1/finish`)).status).toBe(409)
    expect(control.held.size).toBe(1)
  })
})

describe('under a gateway', () => {
  it('only its own sessions are found', async () => {
    await control.call('POST', '/sessions', { session_id: 'c-1' })
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/finish'],
    ] as const) {
      expect((await control.call(method, `/gateways/other/sessions/c-1${path}`)).status).toBe(404)
    }
    expect(control.held.size).toBe(1)
  })

  it('that is none nothing is opened or listed', async () => {
    expect((await control.call('POST', '/gateways/other/sessions', dispatch('sk-1'))).status).toBe(404)
    expect((await control.call('POST', '/gateways/other/sessions', {})).status).toBe(404)
    expect((await control.call('GET', '/gateways/other/sessions')).status).toBe(404)
  })
})
