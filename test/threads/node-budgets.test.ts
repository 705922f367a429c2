// A budget through a whole node: from the task and the configuration to the door of the session, its outcome and its result.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { openRolloutNode, type RolloutNode } from '../lib/rollout-node.ts'

const MODEL = 'policy'

let engine: ScriptedEngine
let node: RolloutNode
beforeAll(async () => {
  engine = await openScriptedEngine({ model: MODEL, generator: {} })
  const keys = { budgets: { session: { calls: 4, seconds: 600 } } }
  node = await openRolloutNode({ engine: 'vllm', engineUrl: engine.url, model: MODEL, taskMs: 60_000, keys })
})
afterAll(async () => {
  await node.close()
  await engine.close()
})

/** Goes on calling until its model says that it is over, and fails when that never comes. */
const AGENT = `
const messages = [{ role: 'user', content: 'go' }]
for (let turn = 0; turn < 9; turn += 1) {
  const reply = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
    method: 'POST',
    headers: { authorization: 'Bearer ' + process.env.OPENAI_API_KEY, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages }),
  })
  const [{ message }] = (await reply.json()).choices
  if (message.content.includes('is used up')) process.exit(0)
  messages.push(message, { role: 'user', content: 'go on' })
}
process.exit(1)
`
const agent = { harness: 'shell', custom_shell: { command: `${process.execPath} --input-type=module -e '${AGENT.replaceAll("'", '"')}'` } }

it.each([
  ["its task's", { budget: { calls: 2 } }, 2],
  ["the operator's", {}, 4],
])(
  'ends a session by %s budget: it is trained and graded, and its result says what was used',
  async (_, polar_node, calls) => {
    const [session] = await node.run({ instruction: 'x', agent, metadata: { polar_node } })
    expect([session?.outcome, session?.status, session?.exitCode]).toEqual(['budget_exhausted', 'TIMEOUT', 0])
    expect(session?.error).toBe(`the session's budget of ${calls} model calls is used up`)
    expect(session?.budget).toEqual({
      calls: { limit: calls, used: calls },
      seconds: { limit: 600, used: expect.any(Number) },
      used_up: 'calls',
    })
    const turns = session?.traces.flatMap(({ metadata }) => metadata.turns.filter(({ trained }) => trained)) ?? []
    expect([turns.length, session?.records.length]).toEqual([calls, calls])
  },
  60_000,
)
