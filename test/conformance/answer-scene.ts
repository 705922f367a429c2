// A control plane where something has happened, before an inference server that the test plays: a task that ended with traces and calls, and one that runs.
import type { FastifyInstance } from 'fastify'
import { vi } from 'vitest'
import { type SessionId, taskId } from '../../src/contract/ids.ts'
import { assemble } from '../../src/trajectory/assemble.ts'
import { packCompletions, sealedPart } from '../../src/trajectory/completions.ts'
import { packTrajectory } from '../../src/trajectory/pack.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { type ToyCall, toyInput } from '../unit/trajectory-calls.ts'
import { openControl, task } from './control-world.ts'

const MESSAGES = [{ role: 'user', content: 'add 2 and 3' }, { role: 'assistant', content: '5' }, {}]
const told = { promptMessages: [0], responseMessage: 1, parameters: 2 }
/** Two turns of one conversation, one beside it, and a call that failed. */
const CALLS: readonly ToyCall[] = [
  { p: [1, 2], r: [5, 9], record: told },
  { p: [1, 2, 5, 9, 3], r: [6, 9], record: told },
  { p: [7], r: [8], record: told },
  { p: [7], r: [], record: { ...told, status: 'failed', responseMessage: null, error: 'gone' } },
]

/** `prepare` gets the server before it is ready. */
export async function answerScene(prepare: (app: FastifyInstance) => void) {
  const models = Buffer.from(JSON.stringify({ object: 'list', data: [{ id: 'policy' }] }))
  const control = await openControl({
    upstream: {
      get: async () => ({ ok: true, contentType: 'application/json', body: models }),
      countTokens: async () => ({ ok: true, count: 3, maxModelLen: null }),
    },
  })
  prepare(control.app)
  control.startGateway(8)
  const input = toyInput(CALLS, MESSAGES)
  const built = assemble(input, { strategy: 'prefix_merging', config: {} }, buildPrefixMerging)
  if (!built.ok) throw new Error(built.error)

  const dispatched = async (id: string): Promise<SessionId> => {
    await control.call('POST', '/rollout/task/submit', task(id, { callback_url: 'http://trainer/done', metadata: { group_id: 'g' } }))
    const isOfTask = ([, spec]: readonly [SessionId, { readonly task: string }]) => spec.task === id
    const held = await vi.waitUntil(() => [...control.held].find(isOfTask), { timeout: 20_000, interval: 1 })
    if (held === undefined) throw new Error(`no session of ${id}`)
    return held[0]
  }
  const ended = await dispatched('ended')
  const running = await dispatched('running')
  const calls = input.calls.map(({ record }) => record)
  const part = sealedPart({
    session: ended,
    task: taskId('ended'),
    taskMetadata: {},
    calls,
    messages: MESSAGES.map((message) => JSON.stringify(message)),
  })
  await control.finish(ended, 'completed', { built: packTrajectory(built.trajectory), completions: packCompletions(part) })
  const isDelivered = async () => (await control.call('GET', '/tasks/ended/sessions')).body.delivery === 'delivered'
  await vi.waitUntil(isDelivered, { timeout: 20_000, interval: 1 })
  return { control, ended, running }
}
