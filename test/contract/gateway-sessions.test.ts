// Polar's promises of a gateway about sessions: dispatched by a rollout server, or only captured; read, listed, deleted; their completions.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { PolarGateway } from './client.ts'
import { type ContractNode, openContractNode, openTrainer, type Trainer, WAIT } from './contract-node.ts'
import { SESSION_STATUSES, TERMINAL_STATUSES } from './schemas.ts'

let node: ContractNode
let gateway: PolarGateway
let trainer: Trainer

beforeAll(async () => {
  node = await openContractNode({ nodes: [{ id: 'g', max_init_workers: 4, max_run_workers: 4 }] })
  gateway = await node.gateway('g')
  trainer = await openTrainer()
})
afterAll(async () => {
  await node?.close()
  await trainer?.close()
})

const refusal = (status: number) => expect.objectContaining({ status })
const statusOf = async (id: string): Promise<string> => (await gateway.session(id)).status
const ended = (id: string) =>
  vi.waitUntil(async () => {
    const view = await gateway.session(id)
    return TERMINAL_STATUSES.some((status) => status === view.status) && view.result !== undefined ? view : null
  }, WAIT)

/** SessionDispatchRequest: what a rollout server sends to a gateway. */
function dispatch(session: string, work: Parameters<ContractNode['task']>[1] = {}) {
  const { num_samples: _, ...task } = node.task('of-a-server', work)
  return { session_id: session, remaining_timeout_seconds: 60, callback_url: trainer.sessionUrl, metadata: {}, ...task, ...work.keys }
}

describe('a dispatched session', () => {
  it('is registered at once, runs, and its SessionResult is sent to the callback URL', async () => {
    const sent = dispatch('s-1', { gate: 's-1', keys: { metadata: { group_id: 'g-1' }, dispatch_priority: 100 } })
    expect(await gateway.dispatch(sent)).toMatchObject({ session_id: 's-1', task_id: 'of-a-server', status: 'REGISTERED', node_id: 'g' })
    await vi.waitUntil(async () => (await gateway.session('s-1')).completion_count === 1, WAIT)
    expect(await gateway.session('s-1')).toMatchObject({ session_id: 's-1', task_id: 'of-a-server', status: 'RUNNING' })
    expect(await gateway.session('s-1')).not.toHaveProperty('result')
    node.openGate('s-1')
    const view = await ended('s-1')
    expect(view).toMatchObject({ status: 'COMPLETED', completion_count: 1 })
    expect(view.result).toMatchObject({
      session_id: 's-1',
      task_id: 'of-a-server',
      status: 'COMPLETED',
      node_id: 'g',
      metadata: { group_id: 'g-1' },
    })
    const received = await vi.waitUntil(() => trainer.sessions.find(({ session_id }) => session_id === 's-1'), WAIT)
    expect(received).toEqual(view.result)
  })

  it('may share its task id with others', async () => {
    for (const id of ['s-2', 's-3']) await gateway.dispatch(dispatch(id))
    for (const id of ['s-2', 's-3']) expect((await ended(id)).result).toMatchObject({ session_id: id, task_id: 'of-a-server' })
  })

  it('is refused with 409 when its id is taken by another one', async () => {
    await gateway.dispatch(dispatch('s-4'))
    await ended('s-4')
    await expect(gateway.dispatch(dispatch('s-4', { keys: { instruction: 'other' } }))).rejects.toEqual(refusal(409))
  })

  it('has remaining_timeout_seconds for its budget', async () => {
    await gateway.dispatch(dispatch('s-5', { gate: 'never', keys: { remaining_timeout_seconds: 1 } }))
    expect(await ended('s-5')).toMatchObject({ status: 'TIMEOUT', result: { status: 'TIMEOUT', trajectory: { status: 'TIMEOUT' } } })
  })

  it.each<readonly [string, Readonly<Record<string, unknown>>, readonly number[]]>([
    ['an id that leads out of a folder', { session_id: '../x' }, [400, 422]],
    ['an id of 129 characters', { session_id: 'x'.repeat(129) }, [400, 422]],
    ['no instruction', { instruction: undefined }, [400, 422]],
    ['no time left', { remaining_timeout_seconds: 0 }, [400, 409, 422]],
    ['an unknown harness', { agent: { harness: 'no-such-harness' } }, [400, 409, 422]],
    ['an unknown runtime', { runtime: { backend: 'no-such-backend' } }, [400, 409, 422]],
  ])('is refused for %s', async (_what, keys, statuses) => {
    const error = await gateway.dispatch(dispatch('s-bad', { keys })).catch((refused) => refused)
    expect(statuses).toContain(error.status)
    await expect(gateway.session('s-bad')).rejects.toEqual(refusal(404))
  })

  it('ignores unknown keys', async () => {
    await gateway.dispatch(dispatch('s-6', { keys: { a_key_of_tomorrow: { x: 1 } } }))
    expect((await ended('s-6')).status).toBe('COMPLETED')
  })

  it('that is deleted while it runs ends as ERROR with the error of a cancelled one', async () => {
    await gateway.dispatch(dispatch('s-7', { gate: 'never' }))
    await vi.waitUntil(async () => (await statusOf('s-7')) === 'RUNNING', WAIT)
    expect(await gateway.remove('s-7')).toMatchObject({ session_id: 's-7', deleted: true })
    const received = await vi.waitUntil(() => trainer.sessions.find(({ session_id }) => session_id === 's-7'), WAIT)
    expect(received).toMatchObject({ status: 'ERROR', error: expect.stringMatching(/^session cancelled/) })
    expect(received.trajectory.traces.flatMap(({ loss_mask }) => loss_mask)).not.toContain(1)
  })
})

describe('a capture-only session', () => {
  it('counts and keeps the calls of an agent that was started elsewhere, and is built when it is deleted', async () => {
    const opened = await gateway.capture({ task_id: 'elsewhere', session_id: 'c-1' })
    expect(opened).toMatchObject({ session_id: 'c-1', task_id: 'elsewhere', completion_count: 0 })
    const { url, key } = accessOf(opened)
    for (const content of ['one', 'two']) {
      const answered = await fetch(`${url}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'asked-for', messages: [{ role: 'user', content }] }),
      })
      expect(answered.status).toBe(200)
    }
    expect(await gateway.session('c-1')).toMatchObject({ session_id: 'c-1', task_id: 'elsewhere', completion_count: 2 })
    expect((await gateway.completions('c-1')).completions.map(({ request }) => request.messages)).toEqual([
      [{ role: 'user', content: 'one' }],
      [{ role: 'user', content: 'two' }],
    ])
    expect(await gateway.remove('c-1')).toMatchObject({ session_id: 'c-1', deleted: true })
    // A delete is answered at once, and what is in flight until it is done is cut off.
    const { result } = await ended('c-1')
    expect(result).toMatchObject({ status: 'ERROR', trajectory: { traces: expect.any(Array), metadata: { record_count: 2 } } })
    expect(result?.trajectory.traces.flatMap(({ loss_mask }) => loss_mask)).not.toContain(1)
    const refused = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'asked-for', messages: [{ role: 'user', content: 'three' }] }),
    })
    expect(refused.status).toBeGreaterThanOrEqual(400)
  })

  it('gets an id and a task id when it names none', async () => {
    const one = await gateway.capture({})
    const other = await gateway.capture({})
    expect(one.session_id).not.toBe(other.session_id)
    for (const { session_id } of [one, other]) await gateway.remove(session_id)
  })

  it.each(['../x', '.hidden', 'a b', 'x'.repeat(129), ''])('is refused for the id %j', async (id) => {
    const error = await gateway.capture({ session_id: id }).catch((refused) => refused)
    expect([400, 422]).toContain(error.status)
  })

  it('is refused with 409 when its id is taken', async () => {
    await gateway.capture({ session_id: 'c-2', task_id: 'elsewhere' })
    await expect(gateway.capture({ session_id: 'c-2', task_id: 'another' })).rejects.toEqual(refusal(409))
    await gateway.remove('c-2')
  })
})

describe('the sessions of a gateway', () => {
  it('lists the active ones with status, ages and counts, by status, task and limit', async () => {
    await node.client.submit(node.task('active', { gate: 'active', keys: { num_samples: 3 } }))
    const mine = await vi.waitUntil(async () => {
      const { sessions } = await gateway.sessions({ task_id: 'active', status: 'RUNNING' })
      return sessions.length === 3 && sessions.every(({ completion_count }) => completion_count === 1) ? sessions : null
    }, WAIT)
    for (const session of mine) expect(session).toMatchObject({ task_id: 'active', status: 'RUNNING', node_id: 'g' })
    expect((await gateway.sessions()).node_id).toBe('g')
    expect((await gateway.sessions({ limit: 2 })).sessions.length).toBe(2)
    expect((await gateway.sessions({ task_id: 'nothing' })).sessions).toEqual([])
    expect((await gateway.sessions({ task_id: 'active', status: 'INITIALIZING' })).sessions).toEqual([])
    node.openGate('active')
    await node.finished('active')
    const active = (await gateway.sessions({ task_id: 'active' })).sessions
    expect(active.filter(({ status }) => SESSION_STATUSES.some((known) => known === status))).toEqual([])
  })

  it.each<readonly [string, string | number]>([
    ['limit', 0],
    ['limit', 1_001],
    ['limit', 'many'],
  ])('answers 422 to %s=%s', async (key, value) => {
    await expect(gateway.sessions({ [key]: value })).rejects.toEqual(refusal(422))
  })

  it('answers 404 for an unknown session, and 400 for an id that is none', async () => {
    await expect(gateway.session('nothing')).rejects.toEqual(refusal(404))
    await expect(gateway.session('.hidden')).rejects.toEqual(refusal(400))
    await expect(gateway.session('x'.repeat(129))).rejects.toEqual(refusal(400))
  })

  it('answers a delete of an unknown session without claiming to have deleted it', async () => {
    const answer = await gateway.remove('nothing').catch((refused) => refused)
    expect(answer.status === 404 || answer.deleted === false).toBe(true)
  })

  it('has the sessions of a task as a trainer submitted it, too', async () => {
    await node.client.submit(node.task('whole', { exitCode: 0 }))
    const { results } = await node.finished('whole')
    const [result] = results
    expect(await gateway.session(result?.session_id ?? '')).toMatchObject({
      task_id: 'whole',
      status: 'COMPLETED',
      completion_count: 1,
      result,
    })
  })
})

describe('completions', () => {
  it('are the records of the session’s calls in order, while it runs and after it has ended', async () => {
    await node.client.submit(node.task('calls', { calls: 3, gate: 'calls', keys: { metadata: { group_id: 'g-9' } } }))
    const session = await vi.waitUntil(async () => {
      const [row] = (await gateway.sessions({ task_id: 'calls' })).sessions
      return row?.completion_count === 3 ? row : null
    }, WAIT)
    const during = await gateway.completions(session.session_id)
    node.openGate('calls')
    await node.finished('calls')
    const after = await gateway.completions(session.session_id)
    for (const { completions, ...head } of [during, after]) {
      expect(head).toMatchObject({ session_id: session.session_id, node_id: 'g' })
      expect(completions.map(({ request }) => request.messages)).toEqual(
        [1, 2, 3].map((call) => [{ role: 'user', content: `call ${call} of ${session.session_id}` }]),
      )
      for (const record of completions) {
        expect(record.metadata).toMatchObject({ session_id: session.session_id, task_id: 'calls', group_id: 'g-9' })
        expect(record.original_request).toMatchObject({ model: 'asked-for', max_tokens: 8 })
        expect(record.response).toMatchObject({ choices: [{ message: { role: 'assistant', content: expect.any(String) } }] })
        // Before the flags that make an engine tell its tokens.
        for (const key of ['return_token_ids', 'return_prompt_token_ids', 'return_meta_info'])
          expect(record.request).not.toHaveProperty(key)
      }
      expect(new Set(completions.map(({ completion_id }) => completion_id)).size).toBe(3)
      const order = completions.map(({ timestamp, completion_id }) => [timestamp ?? '', completion_id] as const)
      expect(order.map(([timestamp]) => timestamp)).toEqual(order.map(([timestamp]) => timestamp).toSorted())
    }
    expect(after.completions.map(({ completion_id }) => completion_id)).toEqual(
      during.completions.map(({ completion_id }) => completion_id),
    )
  })

  it('of an unknown session are an empty list and no error', async () => {
    expect((await gateway.completions('nothing')).completions).toEqual([])
  })
})

/** Where a capture's agent finds its model: told beside Polar's own keys. */
function accessOf(opened: unknown): { readonly url: string; readonly key: string } {
  const { metadata } = opened as {
    readonly metadata: { readonly polar_node: { readonly base_urls: { readonly openai: string }; readonly api_key: string } }
  } // ours
  return { url: metadata.polar_node.base_urls.openai, key: metadata.polar_node.api_key }
}
