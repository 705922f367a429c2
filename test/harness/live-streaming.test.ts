// Real agent CLIs that hear their model while it is sampled: they do the same, and leave the same, as when they are told the end.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { accountFor, checkRecords } from './laws.ts'
import { type Bench, openBench } from './rollout.ts'
import { MODEL, TEST_MS } from './suite.ts'
import { claudeHands, piHands, plainCodexHands, twoTurns } from './tasks.ts'

let bench: Bench
beforeAll(async () => {
  bench = await openBench({}, undefined, { stream: { mode: 'live' } })
})
afterAll(() => bench.close())

it.each([
  { harness: 'pi', settings: { api: 'openai-completions' }, dialect: 'openai-chat', hands: piHands },
  { harness: 'pi', settings: { api: 'google-generative-ai' }, dialect: 'google', hands: piHands },
  { harness: 'codex', settings: {}, dialect: 'openai-responses', hands: plainCodexHands },
  { harness: 'claude_code', settings: {}, dialect: 'anthropic', hands: claudeHands },
] as const)(
  '$harness does a short task on $dialect, streamed by the engine',
  async ({ harness, settings, dialect, hands }) => {
    const rollout = await bench.run({ harness, settings }, twoTurns(hands, bench.out))
    expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
    const [session] = rollout.sessions
    if (session === undefined) throw new Error('there is no session')
    checkRecords(session, { dialect, model: MODEL, statuses: ['ok'], diagnostics: ['history-restored', 'field-dropped'] })
    expect(accountFor(rollout)).toMatchObject({ turns: 2, retries: 0, repeats: 0 })
    expect(rollout.generations.map(({ body }) => (body as { readonly stream: boolean }).stream)).toContain(true)
    expect(session.records.filter(({ streamed }) => streamed)).toHaveLength(
      rollout.generations.filter(({ body }) => (body as { readonly stream: boolean }).stream).length,
    )
  },
  TEST_MS,
)
