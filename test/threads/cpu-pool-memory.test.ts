// What a CPU pool keeps of the tasks that it has answered.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, expect, it } from 'vitest'
import { knownSessionId, taskId } from '../../src/contract/ids.ts'
import { type CpuPool, openCpuPool } from '../../src/tasks/pool.ts'
import { emptyResult } from '../../src/trajectory/result.ts'

const pool = openCpuPool({ threads: 1, maxQueue: 8 })
afterAll(() => pool.close())

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

it('lets go of an answer that its asker has let go of', async () => {
  const answer = await answerOf(pool)
  // A reference that was looked at holds its object until the turn is over.
  await nextTurn()
  collectGarbage()
  expect(answer.deref()).toBeUndefined()
})

async function answerOf(cpu: CpuPool): Promise<WeakRef<ArrayBuffer>> {
  const { payload } = emptyResult({
    session: knownSessionId('sk-polar-00000000-0000-4000-8000-000000000001'),
    task: taskId('task-1'),
    attempt: 1,
    node: 'gw-0',
    outcome: 'cancelled',
    error: null,
    timing: {},
    taskMetadata: {},
    agentResult: {},
    evaluation: null,
    evaluator: null,
    calls: 0,
    model: null,
  })
  const rendered = await cpu.run('renderSession', { payload, results: null }, { timeoutMs: 20_000 })
  if (!rendered.ok) throw new Error(rendered.detail)
  return new WeakRef(rendered.value.bytes)
}
