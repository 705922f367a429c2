// How often each real agent CLI asks for a turn that keeps failing: a handful of times, and often enough to get over a failure that passes.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import type { FaultName } from '../../src/engine/scripted/faults.ts'
import { openRolloutNode, type RolloutNode, type Session } from '../lib/rollout-node.ts'

type Agent = {
  readonly name: string
  readonly agent: Readonly<Record<string, unknown>>
  /** What it asks by itself at most, where that is less than it may. */
  readonly patience?: number
}

const pi = (api: string) => ({ name: `pi, ${api}`, agent: { harness: 'pi', settings: { api } } })

/** In an order that puts one of the heavy ones beside two light ones. */
const AGENTS: readonly Agent[] = [
  { name: 'opencode', agent: { harness: 'opencode' } },
  { name: 'codex', agent: { harness: 'codex' } },
  pi('openai-completions'),
  { name: 'qwen_code', agent: { harness: 'qwen_code' } },
  { name: 'claude_code', agent: { harness: 'claude_code' } },
  pi('openai-responses'),
  { name: 'gemini_cli', agent: { harness: 'gemini_cli' } },
  pi('anthropic-messages'),
  { ...pi('google-generative-ai'), patience: 4 },
]

type Lasting = { readonly fault: FaultName; readonly outcome: string; readonly requests: number }

/** What the engine does without end, what becomes of the session, and the requests that an agent makes until it gives up. */
const LASTING: readonly Lasting[] = [
  { fault: 'http-400', outcome: 'agent_error', requests: 1 },
  { fault: 'http-500', outcome: 'upstream_error', requests: 3 },
  { fault: 'http-429', outcome: 'upstream_error', requests: 5 },
]

/** Processes that fit beside each other on the reference machine. */
const AT_ONCE = 3
const TASK_MS = 240_000
const TEST_MS = 600_000

let engine: ScriptedEngine
let node: RolloutNode
const measured: string[] = []

beforeAll(async () => {
  engine = await openScriptedEngine({ script: { rules: [{ choices: [{ text: 'Done.' }] }] }, model: 'policy' })
  node = await openRolloutNode({ engine: 'vllm', engineUrl: engine.url, model: 'policy', taskMs: TASK_MS, keys: { max_attempts: 1 } })
})
afterAll(async () => {
  await node.close()
  await engine.close()
  process.stdout.write(`\nrequests until an agent gives up\n${measured.join('\n')}\n`)
})

it.each(LASTING)(
  'every agent gives up on an engine that answers $fault for ever after $requests requests',
  async ({ fault, outcome, requests }) => {
    engine.setFault(null)
    engine.setFault({ fault })
    const sessions = await runAll()
    engine.setFault(null)
    measured.push(...sessions.map(({ name, session }) => `${name} | ${fault} | ${session.records.length}`))
    const reached = sessions.map(({ name, session }) => [name, session.outcome, session.records.length])
    expect(reached, JSON.stringify(sessions.map(({ session }) => session.error))).toEqual(
      AGENTS.map(({ name, patience = requests }) => [name, outcome, Math.min(requests, patience)]),
    )
  },
  TEST_MS,
)

it(
  'every agent gets over an engine that fails twice',
  async () => {
    for (const { name, agent } of AGENTS) {
      engine.setFault(null)
      engine.setFault({ fault: 'http-500', times: 2 })
      const session = await run(agent)
      expect([name, session.outcome, session.records.map(({ status }) => status)]).toEqual([name, 'completed', ['failed', 'failed', 'ok']])
      expect(session.records.map(({ retryOf }) => retryOf)).toEqual([null, session.records[0]?.id, session.records[1]?.id])
      expect(session.traces.flatMap(({ metadata }) => metadata.turns.map(({ call_id }) => call_id))).toEqual([session.records[2]?.id])
    }
  },
  TEST_MS,
)

async function run(agent: Readonly<Record<string, unknown>>): Promise<Session> {
  const [session] = await node.run({ instruction: 'Say that you are done.', agent: { model_name: 'Qwen/Qwen3-8B', ...agent } })
  if (session === undefined) throw new Error('a task has a session')
  return session
}

async function runAll(): Promise<readonly { readonly name: string; readonly session: Session }[]> {
  const sessions: { readonly name: string; readonly session: Session }[] = []
  for (let from = 0; from < AGENTS.length; from += AT_ONCE) {
    const some = AGENTS.slice(from, from + AT_ONCE)
    sessions.push(...(await Promise.all(some.map(async ({ name, agent }) => ({ name, session: await run(agent) })))))
  }
  return sessions
}
