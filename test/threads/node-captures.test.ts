// Captures on real threads: what becomes of them when their gateway dies, when nobody calls, and when the node drains.
import { afterEach, expect, it } from 'vitest'
import type { GatewayCommand, SessionAccess } from '../../src/actors/gateway/protocol.ts'
import type { RolloutServerCommand, SessionView, SubmitSessionReply } from '../../src/actors/rollout-server/protocol.ts'
import { type GatewayId, gatewayId, knownSessionId, type SessionId } from '../../src/contract/ids.ts'
import type { SessionSummary } from '../../src/contract/result.ts'
import { capturedTask, captureSchema } from '../../src/contract/session.ts'
import type { Ask } from '../../src/kernel/ask.ts'
import { openTestNode, type TestNode } from './fixtures/threaded-node.ts'

let bench: TestNode | null = null

afterEach(async () => {
  await bench?.close()
  bench = null
})

async function askServer<R>({ node }: TestNode, make: (ask: Ask<R>) => RolloutServerCommand): Promise<R> {
  const answer = await node.kernel.ask<RolloutServerCommand, R>(node.rolloutServer, make, 60_000)
  if (!answer.ok) throw new Error(`the rollout server gave ${answer.error}`)
  return answer.value
}

async function askGateway<R>({ node }: TestNode, gateway: GatewayId, make: (ask: Ask<R>) => GatewayCommand): Promise<R> {
  const answer = await node.askGateway<R>(gateway, make, 60_000)
  if (!answer.ok) throw new Error(`the gateway gave ${answer.error}`)
  return answer.value
}

async function capture(running: TestNode, name: string, gateway: GatewayId): Promise<SessionId> {
  const session = knownSessionId(name)
  const request = capturedTask(session, captureSchema.parse({}))
  const opened = await askServer<SubmitSessionReply>(running, (ask) => ({
    type: 'submit-session',
    kind: 'capture',
    gateway,
    session,
    request,
    resultUrl: null,
    ask,
  }))
  expect(opened.type).toBe('opened')
  return session
}

async function accessTo(running: TestNode, session: SessionId, gateway: GatewayId): Promise<SessionAccess> {
  const access = await askGateway<SessionAccess | null>(running, gateway, (ask) => ({ type: 'read-access', session, ask }))
  if (access === null) throw new Error(`${session} has no door`)
  return access
}

async function call({ key, basePath, modelPort }: SessionAccess): Promise<number> {
  const reply = await fetch(`http://127.0.0.1:${modelPort}${basePath}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'any', messages: [{ role: 'user', content: 'hello' }] }),
  })
  await reply.text()
  return reply.status
}

const endsOf = ({ events }: TestNode, session: SessionId): readonly SessionSummary[] =>
  events.flatMap((event) => (event.type === 'session.state_changed' && event.session === session ? (event.summary ?? []) : []))

const read = (running: TestNode, session: SessionId) =>
  askServer<SessionView | null>(running, (ask) => ({ type: 'read-session', session, ask }))

it('is interrupted once when its gateway dies, with a key that opens nothing any more, and another gateway’s goes on', async () => {
  bench = await openTestNode({ gateways: 2, maxAttempts: 3 })
  const running = bench
  const [first, second] = [gatewayId('gateway-0'), gatewayId('gateway-1')]
  const lost = await capture(running, 'lost', first)
  const kept = await capture(running, 'kept', second)
  const lostAccess = await accessTo(running, lost, first)
  const keptAccess = await accessTo(running, kept, second)
  expect([await call(lostAccess), await call(keptAccess)]).toEqual([200, 200])

  void running.node.inject(first, 'exit')
  await running.until(() => endsOf(running, lost).length > 0)
  // Started elsewhere, its agent cannot be started again: there is no second attempt.
  expect(await read(running, lost)).toMatchObject({ attempt: 1, status: 'ERROR', summary: { outcome: 'interrupted' } })
  await running.open()
  await expect.poll(() => call(lostAccess).catch(() => 0), { timeout: 60_000 }).toBe(401)

  expect(await call(keptAccess)).toBe(200)
  expect(await askGateway<boolean>(running, second, (ask) => ({ type: 'finish-capture', session: kept, reward: 1, ask }))).toBe(true)
  await running.until(() => endsOf(running, kept).length > 0)
  expect(endsOf(running, kept)).toMatchObject([{ outcome: 'completed', reward: 1, calls: 2 }])
  expect(endsOf(running, lost)).toHaveLength(1)
  expect(await askGateway<SessionAccess | null>(running, second, (ask) => ({ type: 'read-access', session: kept, ask }))).toBeNull()
}, 120_000)

it('ends by itself when nobody calls', async () => {
  bench = await openTestNode({ budgets: { captureIdleMs: 50 } })
  const running = bench
  const session = await capture(running, 'idle', gatewayId('gateway-0'))
  await running.until(() => endsOf(running, session).length > 0)
  expect(endsOf(running, session)).toMatchObject([{ outcome: 'harness_error', calls: 0 }])
}, 120_000)

it('is waited for when the node drains, and leaves no token memory behind', async () => {
  bench = await openTestNode()
  const running = bench
  const gateway = gatewayId('gateway-0')
  const session = await capture(running, 'slow', gateway)
  const access = await accessTo(running, session, gateway)
  let isDrained = false
  const drained = running.node.drain().then((report) => {
    isDrained = true
    return report
  })
  expect(await call(access)).toBe(200)
  expect(isDrained).toBe(false)
  expect(await askGateway<boolean>(running, gateway, (ask) => ({ type: 'finish-capture', session, reward: null, ask }))).toBe(true)
  expect(await drained).toMatchObject({ isDrained: true })
  expect(endsOf(running, session)).toMatchObject([{ outcome: 'completed', calls: 1 }])
  const { arena } = (await running.node.readGateway(gateway))?.metrics ?? {}
  expect([arena?.leasedBlocks, arena?.allocatedBlocks]).toEqual([0, arena?.freeBlocks])
}, 120_000)
