// A capture whose gateway does not answer: how often it is asked for the key, and what the client is told in the end.
import type { FastifyReply } from 'fastify'
import { expect, it } from 'vitest'
import type { SessionView } from '../../src/actors/rollout-server/protocol.ts'
import { gatewayId, sessionId, taskId } from '../../src/contract/ids.ts'
import type { RouteContext } from '../../src/http/control-api.ts'
import { openSession } from '../../src/http/session-opening.ts'
import { openWorld } from '../../src/kernel/world.ts'

it('asks ever more rarely while a gateway does not answer, and gives up in time', async () => {
  const world = openWorld({ seed: 1 })
  const session = sessionId('a')
  const view = { kind: 'capture', session, task: taskId('t'), gateway: gatewayId('g'), attempt: 1, status: 'REGISTERED', summary: null }
  let asked = 0
  const context = {
    kernel: { clock: world.clock, random: world.random, scheduler: world },
    checkTask: () => [],
    askServer: async (make: (ask: never) => { readonly type: string }) => {
      const { type } = make(undefined as never)
      return { ok: true, value: type === 'submit-session' ? { type: 'opened', view: view as unknown as SessionView } : view }
    },
    async askGateway() {
      asked += 1
      return { ok: false, error: 'stopped' }
    },
  }
  const told: unknown[] = []
  const reply = {
    code(status: number) {
      told.push(status)
      return reply
    },
    header: () => reply,
    type: () => reply,
    send: () => reply,
  }
  const opened = openSession(context as unknown as RouteContext, null, {}, reply as unknown as FastifyReply)
  await world.advance(1_000)
  expect([asked > 3, told]).toEqual([true, []])
  await world.advance(9_000)
  await opened
  expect(told).toEqual([503])
  expect(asked).toBeLessThan(20)
})
