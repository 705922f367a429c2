// The calls of a session as a Polar client lists them: while it runs, afterwards, in parts, and where there are none.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { CallRecord } from '../../src/contract/call.ts'
import { gatewayId, type SessionId, taskId } from '../../src/contract/ids.ts'
import { sessionCompletions } from '../../src/contract/wire/completions.ts'
import { openInferencePauses } from '../../src/threads/inference-pauses.ts'
import { type CompletionsPart, packCompletions, sealedPart } from '../../src/trajectory/completions.ts'
import { toyCall } from '../unit/trajectory-calls.ts'
import { GATEWAY, openControl, task } from './control-world.ts'

let control: Awaited<ReturnType<typeof openControl>>
beforeEach(async () => {
  control = await openControl({
    inference: openInferencePauses([GATEWAY, gatewayId('g1')], async () => ({ ok: false, error: 'stopped' })),
  })
  control.startGateway(8)
})
afterEach(async () => {
  await control.close()
  expect(control.reports).toEqual([])
})

const TEXTS = [JSON.stringify({ role: 'user', content: 'Grüße' }), JSON.stringify({ role: 'assistant', content: 'x'.repeat(500) }), '{}']

function call(sequence: number, more: Partial<CallRecord> = {}): CallRecord {
  return toyCall({ p: [], r: [], record: { promptMessages: [0], responseMessage: 1, parameters: 2, ...more } }, sequence).record
}

function packed(session: SessionId, calls: readonly CallRecord[], more: Partial<CompletionsPart> = {}): ArrayBuffer {
  return packCompletions({ ...sealedPart({ session, task: taskId('t'), taskMetadata: {}, calls, messages: TEXTS }), ...more })
}

async function running(id = 't'): Promise<SessionId> {
  const before = new Set(control.held.keys())
  await control.call('POST', '/rollout/task/submit', task(id))
  await vi.waitFor(() => expect(control.held.size).toBe(before.size + 1), { interval: 1, timeout: 20_000 })
  return [...control.held.keys()].find((session) => !before.has(session))!
}

async function finish(session: SessionId, completions: ArrayBuffer | null): Promise<void> {
  await control.finish(session, 'completed', completions === null ? {} : { completions })
  const isEnded = async () => (await control.call('GET', `/sessions/${session}`)).body.status === 'COMPLETED'
  await vi.waitFor(async () => expect(await isEnded()).toBe(true), { interval: 1, timeout: 20_000 })
}

async function list(session: string, query = '') {
  const { status, body } = await control.call('GET', `/sessions/${session}/completions${query}`)
  expect(status).toBe(200)
  expect(sessionCompletions.safeParse(body).error).toBeUndefined()
  const sequenceOf = ({ metadata }: { metadata: { polar_node: { sequence: number } } }): number => metadata.polar_node.sequence
  return { ...body, sequences: body.completions.map(sequenceOf), failures: body.polar_node.failed.map(sequenceOf) }
}

describe('the calls of a session that has ended', () => {
  it('are listed in order, those without an answer by themselves', async () => {
    const session = await running()
    await finish(session, packed(session, [call(2), call(1, { status: 'failed', responseMessage: null, error: 'gone' }), call(0)]))
    const told = await list(session)
    expect(told).toMatchObject({ session_id: session, node_id: GATEWAY, sequences: [0, 2], failures: [1] })
    expect(told.polar_node).toMatchObject({ total: 3, offset: 0, next_offset: null, failed: [{ error: 'gone' }] })
    expect(told.completions[0]).toMatchObject({
      request: { messages: [JSON.parse(TEXTS[0]!)] },
      metadata: { session_id: session, task_id: 't' },
    })
  })

  it.each([
    ['?limit=2', [0, 1], 2],
    ['?offset=2&limit=2', [2, 3], 4],
    ['?offset=8', [8, 9], null],
    ['?offset=10', [], null],
    ['?offset=900&limit=1', [], null],
    // More than is rendered in one go.
    ['', [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], null],
  ] as const)('are listed in parts: %s', async (query, expected, next) => {
    const session = await running()
    await finish(
      session,
      packed(
        session,
        Array.from({ length: 10 }, (_, at) => call(at)),
      ),
    )
    const told = await list(session, query)
    expect([told.sequences, told.polar_node.next_offset, told.polar_node.total]).toEqual([expected, next, 10])
  })

  it.each(['?offset=-1', '?limit=0', '?limit=x'])('are not listed by %s: 422', async (query) => {
    expect((await control.call('GET', `/sessions/sk-polar-none/completions${query}`)).status).toBe(422)
  })
})

describe('the calls of a session that runs', () => {
  it('are those that its gateway tells, and grow', async () => {
    const session = await running()
    expect((await list(session)).sequences).toEqual([])
    control.running.set(session, packed(session, [call(0)]))
    expect((await list(session)).sequences).toEqual([0])
    control.running.set(session, packed(session, [call(0), call(2)], { total: 4, until: 4 }))
    const told = await list(session)
    expect([told.sequences, told.polar_node.total, told.polar_node.next_offset]).toEqual([[0, 2], 4, null])
  })

  it('are asked for part by part', async () => {
    const session = await running()
    await control.close()
    const calls = Array.from({ length: 10 }, (_, at) => call(at))
    const asked: number[] = []
    control = await openControl({
      askGateway: (_, make) => {
        const command = make({ thread: 'x', incarnation: 1, ask: 1 } as never)
        if (command.type !== 'read-completions') throw new Error(command.type)
        const { from } = command
        asked.push(from)
        const until = Math.min(from + 3, 10)
        const part = packed(session, calls.slice(from, until), { from, until, total: 10 })
        return Promise.resolve({ ok: true, value: { type: 'packed', packed: part } as never })
      },
    })
    control.startGateway(8)
    const told = await list(await running())
    expect(told.sequences).toEqual(calls.map(({ sequence }) => sequence))
    expect(asked).toEqual([0, 3, 6, 9])
  })

  it('are read from the ledger when it ends in between', async () => {
    const session = await running()
    let parts = 0
    await control.close()
    control = await openControl({
      async askGateway(_, make) {
        const command = make({ thread: 'x', incarnation: 1, ask: 1 } as never)
        if (command.type !== 'read-completions') throw new Error(command.type)
        parts += 1
        if (parts === 1) {
          const part = packed(session, [call(0)], { until: 1, total: 3 })
          return { ok: true, value: { type: 'packed', packed: part } as never }
        }
        await finish(command.session, packed(session, [call(0), call(1), call(2)]))
        return { ok: true, value: { type: 'none' } as never }
      },
    })
    control.startGateway(8)
    expect((await list(await running())).sequences).toEqual([0, 1, 2])
  })

  it.each<[string, () => Promise<unknown>]>([
    ['does not answer', async () => ({ ok: false, error: 'deadline' })],
    ['fails to pack them', async () => ({ ok: true, value: { type: 'failed', detail: 'queue-full' } })],
  ])('are 503 when the gateway %s', async (_, answer) => {
    await control.close()
    control = await openControl({ askGateway: answer as never })
    control.startGateway(8)
    const session = await running()
    expect((await control.call('GET', `/sessions/${session}/completions`)).status).toBe(503)
  })

  it('are none when the gateway was lost with them', async () => {
    await control.close()
    control = await openControl({ askGateway: async () => ({ ok: false, error: 'stopped' }) })
    control.startGateway(8)
    expect((await list(await running())).sequences).toEqual([])
  })
})

describe('no calls', () => {
  it.each(['sk-polar-none', 'anything'])('of the unknown session %s are an empty list, as in Polar', async (session) => {
    expect(await list(session)).toMatchObject({ session_id: session, completions: [], node_id: null })
  })

  it('are kept of a session without any', async () => {
    const session = await running()
    await finish(session, null)
    expect(await list(session)).toMatchObject({ completions: [], node_id: GATEWAY, polar_node: { total: 0 } })
  })
})

describe('under a gateway', () => {
  it('are the calls of its own sessions', async () => {
    const session = await running()
    await finish(session, packed(session, [call(0)]))
    const { body } = await control.call('GET', `/gateways/${GATEWAY}/sessions/${session}/completions`)
    expect(body).toEqual((await control.call('GET', `/sessions/${session}/completions`)).body)
    expect(body.completions).toHaveLength(1)
  })

  it('are there also when it has drained', async () => {
    const session = await running()
    await finish(session, packed(session, [call(0)]))
    await control.call('DELETE', `/nodes/${GATEWAY}`)
    expect((await control.call('GET', '/nodes')).body).toEqual([])
    expect((await control.call('GET', `/gateways/${GATEWAY}/sessions/${session}/completions`)).body.completions).toHaveLength(1)
  })

  it('are none of another one’s, and none of a gateway that is not there', async () => {
    const session = await running()
    await finish(session, packed(session, [call(0)]))
    const other = await control.call('GET', `/gateways/g1/sessions/${session}/completions`)
    expect([other.status, other.body.completions, other.body.node_id]).toEqual([200, [], 'g1'])
    expect((await control.call('GET', `/gateways/g9/sessions/${session}/completions`)).status).toBe(404)
  })
})
