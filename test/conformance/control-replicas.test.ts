// The replica routes of the control API, from the request to a gateway's pool: shapes, statuses, and who has what after each.
import { Buffer } from 'node:buffer'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { GatewayCommand, GatewaySnapshot } from '../../src/actors/gateway/protocol.ts'
import { type GatewayId, gatewayId, replicaId } from '../../src/contract/ids.ts'
import type { Address } from '../../src/kernel/address.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { vllm } from '../../src/proxy/engines/vllm.ts'
import { openPool } from '../../src/proxy/pool/pool.ts'
import { openReplicaSet } from '../../src/proxy/pool/replica-set.ts'
import { openProfiles } from '../../src/proxy/profiles/profile.ts'
import { openInferencePauses } from '../../src/threads/inference-pauses.ts'
import { openReplicaSets, type ReplicaSets } from '../../src/threads/replica-sets.ts'
import { completionBody } from '../lib/proxy-fixture.ts'
import { LIMITS, ROUTER_READ_MS } from '../lib/replica-fixture.ts'
import { openControl } from './control-world.ts'

const METRICS = {
  initQueueDepth: 0,
  initInflight: 0,
  readyDepth: 0,
  runInflight: 0,
  postrunQueueDepth: 0,
  postrunInflight: 0,
  arena: { allocatedBlocks: 0, freeBlocks: 0, leasedBlocks: 0, pressure: false },
}
const GATEWAY_LIMITS = {
  maxReadySessions: 8,
  maxInitWorkers: 4,
  maxRunWorkers: 2,
  maxPostrunWorkers: 4,
  maxGraderSandboxes: 2,
  maxCaptures: 4,
}

/** A gateway with nothing but its replicas; engines answer at once, those named `dead` not at all. */
function spawnGateway(kernel: Kernel, gateway: GatewayId): { readonly address: Address<GatewayCommand>; close(): Promise<void> } {
  const pool = openPool({
    kernel,
    model: '',
    profileOf: openProfiles([]),
    acquireDeadlineMs: 1_000,
    probeDeadlineMs: 1_000,
    onServing: () => {},
  })
  const set = openReplicaSet({
    kernel,
    pool,
    maxResponseBytes: 2 ** 20,
    engineOf: () => vllm,
    limits: LIMITS,
    routerReadMs: ROUTER_READ_MS,
    report: () => {},
    transport: (url) => ({
      async send({ path, body }) {
        if (url.includes('dead')) return { ok: false, error: 'refused', detail: 'ECONNREFUSED' }
        const ids = [21, 22].slice(0, body === null ? 0 : JSON.parse(body).max_tokens)
        const usage = { prompt_tokens: 2, completion_tokens: ids.length, total_tokens: 2 + ids.length }
        const answers: Readonly<Record<string, object>> = {
          '/v1/models': { data: [{ id: 'policy', max_model_len: 4_096 }] },
          '/v1/chat/completions': completionBody({ ids: url.includes('eval') ? undefined : ids, logprobs: ids.map(() => -0.5), usage }),
          '/workers': { workers: [{ url: 'http://worker-1' }, { url: 'http://worker-2' }] },
        }
        return { ok: true, response: { status: 200, headers: {}, body: Buffer.from(JSON.stringify(answers[path] ?? {})) } }
      },
      close: async () => {},
    }),
  })
  const address = kernel.spawn<GatewayCommand>({
    name: `gateway ${gateway}`,
    capacity: 64,
    create: (context) => ({
      receive(command) {
        if (command.type === 'add-replica') context.reply(command.ask, set.add(command.replica))
        if (command.type === 'remove-replica') context.reply(command.ask, set.remove(command.replica))
        if (command.type !== 'read-gateway') return
        const { ask } = command
        const snapshot = { gateway, modelPort: 1, limits: GATEWAY_LIMITS, metrics: METRICS, sessions: [] }
        void set.views().then((replicas) => context.reply(ask, { ...snapshot, replicas }))
      },
    }),
  })
  return { address, close: () => set.close() }
}

let control: Awaited<ReturnType<typeof openControl>>
let sets: ReplicaSets
const gateways = new Map<GatewayId, ReturnType<typeof spawnGateway>>()
const [g0, g1] = [gatewayId('g0'), gatewayId('g1')]

beforeEach(async () => {
  control = await openControl({
    replicas: {
      add: (...change) => sets.add(...change),
      remove: (...change) => sets.remove(...change),
    },
    inference: openInferencePauses([g0, g1], async () => ({ ok: false, error: 'stopped' })),
    async readGateway(gateway) {
      const address = gateways.get(gateway)?.address
      if (address === undefined) return null
      const answer = await control.kernel.ask<GatewayCommand, GatewaySnapshot>(address, (ask) => ({ type: 'read-gateway', ask }), 20_000)
      return answer.ok ? answer.value : null
    },
  })
  sets = openReplicaSets(
    control.kernel,
    [
      { gateway: g0, replicas: [] },
      { gateway: g1, replicas: [] },
    ],
    (id) => gateways.get(id)?.address,
  )
  for (const gateway of [g0, g1]) {
    const { address, close } = spawnGateway(control.kernel, gateway)
    gateways.set(gateway, { address, close })
    control.kernel.tell(control.server, { type: 'gateway-started', gateway, address, url: 'http://g', limits: GATEWAY_LIMITS })
  }
})
afterEach(async () => {
  for (const gateway of gateways.values()) await gateway.close()
  gateways.clear()
  await control.close()
})

type Row = Readonly<Record<string, unknown>>

/** What every gateway has, as soon as every probe is answered. */
async function rows(): Promise<Readonly<Record<string, readonly Row[]>>> {
  return vi.waitFor(
    async () => {
      const { body } = await control.call('GET', '/replicas')
      const listed = body.gateways as readonly { readonly gateway_id: string; readonly replicas: readonly Row[] }[]
      for (const row of listed.flatMap(({ replicas }) => replicas)) expect(row.state).not.toBe('unprobed')
      return Object.fromEntries(listed.map(({ gateway_id, replicas }) => [gateway_id, replicas]))
    },
    { interval: 1, timeout: 20_000 },
  )
}
const ids = async (): Promise<unknown> =>
  Object.fromEntries(Object.entries(await rows()).map(([gateway, replicas]) => [gateway, replicas.map(({ id }) => id)]))

describe('one gateway', () => {
  it('gets a replica, which is probed and then shown with all that is known of it', async () => {
    const added = await control.call('POST', '/gateways/g0/replicas', {
      id: 'gpu',
      url: 'http://h:8000/v1/',
      engine: 'vllm',
      max_in_flight: 3,
    })
    expect(added).toMatchObject({ status: 201, body: { id: 'gpu', url: 'http://h:8000', gateways: ['g0'] } })
    await rows()
    expect((await control.call('GET', '/gateways/g0/replicas')).body).toEqual({
      gateway_id: 'g0',
      healthy: true,
      replicas: [
        {
          id: 'gpu',
          role: 'engine',
          url: 'http://h:8000',
          embedded: false,
          data_parallel_rank: null,
          state: 'up',
          tier: 'train',
          detail: null,
          logprob_mode: expect.stringMatching(/^(raw|processed|unknown)$/),
          in_flight: 0,
          max_in_flight: 3,
          waiting: 0,
          weight_version: null,
          max_model_len: 4_096,
        },
      ],
    })
    expect(await ids()).toEqual({ g0: ['gpu'], g1: [] })
    // Its share is its own: nobody else was asked to serve from it.
    expect(sets.of(g0)).toMatchObject([{ id: 'gpu', inFlight: 3 }])
  })

  it.each([
    ['http://dead:1', { state: 'down', tier: 'unknown', detail: expect.stringContaining('ECONNREFUSED') }],
    ['http://eval:1', { state: 'up', tier: 'eval', detail: expect.stringContaining('ids-missing') }],
  ])('is told what is wrong with %s', async (url, row) => {
    await control.call('POST', '/gateways/g0/replicas', { url, engine: 'vllm' })
    expect((await rows()).g0).toMatchObject([row])
  })

  it('gets ranks and the workers of a router by one entry each', async () => {
    await control.call('POST', '/gateways/g1/replicas', { id: 'dp', url: 'http://dp', engine: 'vllm', data_parallel_ranks: 2 })
    await control.call('POST', '/gateways/g1/replicas', { id: 'fleet', url: 'http://router', engine: 'sglang', router: true })
    expect((await rows()).g1?.map(({ id, role, data_parallel_rank }) => [id, role, data_parallel_rank])).toEqual([
      ['fleet', 'router', null],
      ['dp@0', 'engine', 0],
      ['dp@1', 'engine', 1],
      ['fleet/worker-1', 'engine', null],
      ['fleet/worker-2', 'engine', null],
    ])
  })

  it('loses a replica, and may get it again', async () => {
    await control.call('POST', '/gateways/g0/replicas', { id: 'gpu', url: 'http://h', engine: 'vllm' })
    expect(await control.call('DELETE', '/gateways/g0/replicas/gpu')).toMatchObject({
      status: 202,
      body: { id: 'gpu', state: 'removing', gateways: ['g0'] },
    })
    expect(await ids()).toEqual({ g0: [], g1: [] })
    expect(sets.of(g0)).toEqual([])
    expect((await control.call('POST', '/gateways/g0/replicas', { id: 'gpu', url: 'http://h', engine: 'vllm' })).status).toBe(201)
    expect(await ids()).toEqual({ g0: ['gpu'], g1: [] })
  })

  it.each([
    ['POST', '/gateways/nowhere/replicas', 404, 'node-unknown', 'no gateway nowhere; there are g0, g1'],
    ['GET', '/gateways/nowhere/replicas', 404, 'node-unknown', 'no gateway nowhere; there are g0, g1'],
    ['DELETE', '/gateways/nowhere/replicas/gpu', 404, 'node-unknown', 'no gateway nowhere; there are g0, g1'],
    ['DELETE', '/gateways/g0/replicas/nothing', 404, 'replica-unknown', 'g0: there is no replica nothing'],
    ['DELETE', '/replicas/nothing', 404, 'replica-unknown', 'g0: there is no replica nothing'],
    ['DELETE', '/gateways/g0/replicas/dp%401', 409, 'replica-conflict', 'g0: dp@1 is a part of replica dp: remove that'],
    ['POST', '/gateways/g0/replicas', 409, 'replica-conflict', 'g0: http://dp is replica dp already'],
  ] as const)('%s %s is %i, in words', async (method, url, status, code, detail) => {
    await control.call('POST', '/gateways/g0/replicas', { id: 'dp', url: 'http://dp', engine: 'vllm', data_parallel_ranks: 2 })
    const reply = await control.call(method, url, method === 'POST' ? { id: 'other', url: 'http://dp', engine: 'vllm' } : undefined)
    expect(reply).toMatchObject({ status, headers: { 'x-polar-error': code }, body: { detail } })
  })

  it.each([
    [{}, ['body', 'engine']],
    [{ engine: 'vllm' }, ['body', 'url']],
    [{ url: 'h:8000', engine: 'vllm' }, ['body', 'url']],
    [{ url: 'ftp://h', engine: 'vllm' }, ['body', 'url']],
    [{ url: 'http://me:secret@h', engine: 'vllm' }, ['body', 'url']],
    [{ url: 'http://h/v1?key=secret', engine: 'vllm' }, ['body', 'url']],
    [{ url: 'http://h/#secret', engine: 'vllm' }, ['body', 'url']],
    [{ url: `http://h${'/'.repeat(2_048)}x`, engine: 'vllm' }, ['body', 'url']],
    [{ url: 'http://h', engine: 'tgi' }, ['body', 'engine']],
    [{ url: 'http://h', engine: 'vllm', id: '../x' }, ['body', 'id']],
    [{ url: 'http://h', engine: 'vllm', max_in_flight: 0 }, ['body', 'max_in_flight']],
    [{ url: 'http://h', engine: 'vllm', max_waiting: '3' }, ['body', 'max_waiting']],
    [{ url: 'http://h', engine: 'vllm', router: 'yes' }, ['body', 'router']],
    [{ url: 'http://h', engine: 'sglang', router: true, data_parallel_ranks: 2 }, ['body', 'data_parallel_ranks']],
    [{ url: 'http://h', engine: 'vllm', max_inflight: 3 }, ['body']],
    [[], ['body']],
    [null, ['body']],
  ])('is not given what is none: %j', async (body, loc) => {
    for (const url of ['/gateways/g0/replicas', '/replicas']) {
      const headers = { authorization: 'Bearer a-token-of-the-test', 'content-type': 'application/json' }
      const reply = await control.app.inject({ method: 'POST', url, headers, payload: JSON.stringify(body) })
      expect(reply.statusCode).toBe(422)
      expect(reply.json().detail).toContainEqual({ loc, msg: expect.any(String), type: expect.any(String) })
      expect(reply.body).not.toContain('secret')
    }
    expect(await ids()).toEqual({ g0: [], g1: [] })
  })

  it.each([
    [{ url: 'http://127.0.0.1:8000/v1' }, '127.0.0.1-8000'],
    [{ url: 'http://[::1]:8000' }, '1-8000'],
    [{ url: 'https://GPU.example/a/b' }, 'gpu.example-a-b'],
  ])('names %j by its address', async (entry, id) => {
    expect((await control.call('POST', '/gateways/g0/replicas', { ...entry, engine: 'vllm' })).body.id).toBe(id)
    expect(await control.call('DELETE', `/gateways/g0/replicas/${id}`)).toMatchObject({ status: 202 })
  })
})

describe('all gateways', () => {
  it('get a replica together, its cap divided among them and its line not', async () => {
    const added = await control.call('POST', '/replicas', { id: 'gpu', url: 'http://h', engine: 'vllm', max_in_flight: 7, max_waiting: 5 })
    expect(added).toMatchObject({ status: 201, body: { id: 'gpu', gateways: ['g0', 'g1'] } })
    expect(await ids()).toEqual({ g0: ['gpu'], g1: ['gpu'] })
    for (const gateway of [g0, g1]) expect(sets.of(gateway)).toEqual([{ id: 'gpu', url: 'http://h', engine: 'vllm', inFlight: 3, line: 5 }])
    expect(await control.call('DELETE', '/replicas/gpu')).toMatchObject({ status: 202, body: { gateways: ['g0', 'g1'] } })
    expect(await ids()).toEqual({ g0: [], g1: [] })
  })

  it('get it all or none of them', async () => {
    await control.call('POST', '/gateways/g1/replicas', { id: 'gpu', url: 'http://other', engine: 'vllm' })
    expect(await control.call('POST', '/replicas', { id: 'gpu', url: 'http://h', engine: 'vllm' })).toMatchObject({
      status: 409,
      body: { detail: 'g1: there is a replica gpu already' },
    })
    expect(await ids()).toEqual({ g0: [], g1: ['gpu'] })
    expect((await rows()).g1).toMatchObject([{ url: 'http://other' }])
  })

  it('that have drained get and lose it with the others: they may take sessions again', async () => {
    expect((await control.call('DELETE', '/nodes/g1')).status).toBe(200)
    expect((await control.call('GET', '/nodes')).body).toMatchObject([{ node_id: 'g0' }])
    await control.call('POST', '/replicas', { id: 'gpu', url: 'http://h', engine: 'vllm', max_in_flight: 8 })
    expect(await ids()).toEqual({ g0: ['gpu'], g1: ['gpu'] })
    expect(sets.of(g0)).toMatchObject([{ inFlight: 4 }])
    expect(await control.call('DELETE', '/replicas/gpu')).toMatchObject({ status: 202, body: { gateways: ['g0', 'g1'] } })
    expect(await ids()).toEqual({ g0: [], g1: [] })
  })

  it('lose it where they have it', async () => {
    await control.call('POST', '/gateways/g1/replicas', { id: 'gpu', url: 'http://h', engine: 'vllm' })
    expect(await control.call('DELETE', '/replicas/gpu')).toMatchObject({ status: 202, body: { gateways: ['g1'] } })
    expect(await ids()).toEqual({ g0: [], g1: [] })
  })

  it('that do not answer are named; what the others did can be asked again', async () => {
    await control.call('POST', '/replicas', { id: 'old', url: 'http://old', engine: 'vllm' })
    const lost = gateways.get(g1)
    gateways.delete(g1)
    const silent = { status: 503, body: { detail: 'gateway g1 does not answer; it may be starting again' } }
    expect(await control.call('POST', '/replicas', { id: 'gpu', url: 'http://h', engine: 'vllm' })).toMatchObject(silent)
    expect(await control.call('GET', '/gateways/g1/replicas')).toMatchObject(silent)
    expect(await control.call('POST', '/gateways/g1/replicas', { url: 'http://h', engine: 'vllm' })).toMatchObject(silent)
    expect((await control.call('GET', '/replicas')).body).toMatchObject({
      gateways: [
        { gateway_id: 'g0', healthy: true, replicas: [{ id: 'old' }] },
        { gateway_id: 'g1', healthy: false, replicas: [] },
      ],
    })
    expect(await control.call('DELETE', '/replicas/old')).toMatchObject(silent)
    expect(sets.of(g0)).toEqual([])
    if (lost !== undefined) gateways.set(g1, lost)
    expect(await control.call('DELETE', '/replicas/old')).toMatchObject({ status: 202, body: { gateways: ['g1'] } })
    expect(sets.of(g1)).toEqual([])
  })
})

it.each(['POST', 'DELETE'] as const)('%s says so when no gateway answers', async (method) => {
  await control.kernel.close()
  const url = method === 'DELETE' ? '/replicas/gpu' : '/replicas'
  const body = method === 'POST' ? { url: 'http://h', engine: 'vllm' } : undefined
  expect((await control.call(method, url, body)).status).toBe(503)
})

describe('a gateway whose thread starts again', () => {
  it('is given what it had last, not what it began with', async () => {
    const begun = { id: replicaId('first'), url: 'http://first', engine: 'vllm' } as const
    const changed = openReplicaSets(control.kernel, [{ gateway: g0, replicas: [begun] }], (id) => gateways.get(id)?.address)
    expect(changed.of(g0)).toEqual([begun])
    const spec = { url: 'http://h', engine: 'vllm', maxInFlight: 4, maxWaiting: 5, dataParallelRanks: 2, isRouter: false } as const
    await changed.add([g0], { ...spec, id: replicaId('gpu') })
    // Refused, so it is not part of it.
    await changed.add([g0], { ...spec, id: replicaId('again') })
    await changed.remove([g0], replicaId('nothing'))
    expect(changed.of(g0)).toEqual([begun, { id: 'gpu', url: 'http://h', engine: 'vllm', inFlight: 4, line: 5, ranks: 2 }])
    expect(changed.of(g1)).toEqual([])
  })
})
