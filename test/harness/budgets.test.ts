// Budgets and full contexts through real CLIs: each is told in words that it knows, and ends, or makes room; none asks on and on.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Script } from './answers.ts'
import { accountFor } from './laws.ts'
import { type Bench, openBench } from './rollout.ts'
import { TEST_MS } from './suite.ts'
import { claudeHands, geminiHands, type Hands, opencodeHands, piHands, plainCodexHands, qwenHands } from './tasks.ts'

type Cli = {
  readonly name: string
  readonly agent: Readonly<Record<string, unknown>>
  readonly hands: Hands
  /** An answer that was cut off is an error to some. */
  readonly exitWhenCut: number
  /** Who makes enough room for itself goes on, and may yet say by its exit code that there was an error. */
  readonly whenFull: 'context_exhausted' | 'agent_error' | 'completed'
}

const ENDS = { exitWhenCut: 0, whenFull: 'context_exhausted' } as const
const pi = (api: string): Cli => ({ ...ENDS, name: `pi on ${api}`, agent: { harness: 'pi', settings: { api } }, hands: piHands })

const CLIS: readonly Cli[] = [
  { ...ENDS, name: 'codex', agent: { harness: 'codex' }, hands: plainCodexHands, exitWhenCut: 1 },
  { ...ENDS, name: 'claude_code', agent: { harness: 'claude_code' }, hands: claudeHands },
  { ...ENDS, name: 'gemini_cli', agent: { harness: 'gemini_cli' }, hands: geminiHands },
  { ...ENDS, name: 'qwen_code', agent: { harness: 'qwen_code' }, hands: qwenHands, whenFull: 'completed' },
  { ...ENDS, name: 'opencode', agent: { harness: 'opencode' }, hands: opencodeHands, whenFull: 'agent_error' },
  pi('openai-completions'),
  pi('openai-responses'),
  pi('anthropic-messages'),
  pi('google-generative-ai'),
]

/** About 20,000 tokens, which every CLI shows its model whole or in great part. */
const LONG_OUTPUT = 'seq -s " " 100000 102800'

/** An agent that would never end. */
const endless = (hands: Hands): Script =>
  Array.from({ length: 50 }, (_, turn) => () => ({ text: `Step ${turn}.`, calls: [hands.shell(`echo ${turn}`)] }))

const limited = (budget: Readonly<Record<string, number>>) => ({ metadata: { polar_node: { budget } } })

describe('a session that has used up its budget', () => {
  let bench: Bench
  beforeAll(async () => {
    bench = await openBench()
  })
  afterAll(() => bench.close())

  it.each(CLIS)(
    'of calls: $name ends by itself, and well',
    async ({ agent, hands }) => {
      const rollout = await bench.run(agent, endless(hands), limited({ calls: 3 }))
      const [session] = rollout.sessions
      expect([session?.outcome, session?.status, session?.exitCode]).toEqual(['budget_exhausted', 'TIMEOUT', 0])
      expect(session?.error).toBe("the session's budget of 3 model calls is used up")
      expect(session?.budget).toEqual({ calls: { limit: 3, used: 3 }, used_up: 'calls' })
      expect(accountFor(rollout)).toEqual({ turns: 3, aux: 0, retries: 0, repeats: 0 })
      expect(session?.records.map(({ status }) => status)).toEqual(['ok', 'ok', 'ok'])
      expect(await bench.leftovers()).toEqual([])
    },
    TEST_MS,
  )

  it.each(CLIS)(
    'of sampled tokens, in the middle of an answer: $name ends',
    async ({ agent, hands, exitWhenCut }) => {
      const rollout = await bench.run(agent, endless(hands), limited({ sampled_tokens: 83 }))
      const [session] = rollout.sessions
      expect([session?.outcome, session?.exitCode]).toEqual(['budget_exhausted', exitWhenCut])
      expect(session?.budget).toEqual({ sampled_tokens: { limit: 83, used: 83 }, used_up: 'sampled_tokens' })
      expect(session?.records.at(-1)?.finishReason).toBe('length')
      expect(session?.records.every(({ status }) => status === 'ok')).toBe(true)
      expect(accountFor(rollout)).toMatchObject({ aux: 0, retries: 0, repeats: 0 })
    },
    TEST_MS,
  )

  it(
    'of context: the first prompt that fills it ends the agent',
    async () => {
      const script = Array.from({ length: 50 }, () => () => ({ text: 'Step.', calls: [piHands.shell(LONG_OUTPUT)] }))
      const rollout = await bench.run({ harness: 'pi' }, script, limited({ context_tokens: 24_000 }))
      const [session] = rollout.sessions
      expect([session?.outcome, session?.exitCode]).toEqual(['budget_exhausted', 0])
      expect(session?.budget?.context_tokens?.used).toBeLessThanOrEqual(24_000)
      expect(session?.records.map(({ status }) => status)).toEqual(['ok', 'ok', 'failed'])
      expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 0 })
    },
    TEST_MS,
  )
})

describe('a conversation that outgrows the model’s context', () => {
  let bench: Bench
  beforeAll(async () => {
    bench = await openBench({}, 32_768)
  })
  afterAll(() => bench.close())

  it.each(CLIS)(
    '$name knows it: it makes room, or ends, and does not ask again and again',
    async ({ agent, hands, whenFull }) => {
      let turns = 0
      const step = () => {
        turns += 1
        // Whoever makes room goes on, but not without end.
        return turns < 4 ? { text: `Step ${turns}.`, calls: [hands.shell(LONG_OUTPUT)] } : { text: 'Done.' }
      }
      const rollout = await bench.run(
        agent,
        Array.from({ length: 50 }, () => step),
      )
      const [session] = rollout.sessions
      const overflows = session?.records.filter(({ status, httpStatus }) => status === 'failed' && httpStatus === 400) ?? []
      expect(session?.outcome).toBe(whenFull)
      expect(overflows.length).toBeGreaterThan(0)
      expect(overflows.length).toBeLessThanOrEqual(3)
      expect(await bench.leftovers()).toEqual([])
    },
    TEST_MS,
  )
})
