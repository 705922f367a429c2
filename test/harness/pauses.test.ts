// Agent CLIs in a pause that is many times as long as they wait for a word: what keeps them is the beats, and none notices.
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { DialectName } from '../../src/contract/call.ts'
import { DETOUR, openDetour } from './detour.ts'
import { accountFor, checkRecords } from './laws.ts'
import { type Bench, openBench } from './rollout.ts'
import { MODEL, TEST_MS, type Way } from './suite.ts'
import { claudeHands, codexHands, geminiHands, opencodeHands, piHands, qwenHands, twoTurns } from './tasks.ts'

/** How long a CLI is told to wait for the next event, where it can be told; how often it hears one; how long it is held. A busy machine holds beats up, too. */
const [IDLE_MS, BEAT_SECONDS, HELD_MS] = [4_000, 0.2, 12_000]
/** Claude Code's watch over the bytes of a stream fires after twice its limit, and takes none that is shorter. */
const [CLAUDE_IDLE_MS, CLAUDE_HELD_MS] = [5_000, 12_000]
const GENERATES: Readonly<Record<DialectName, string>> = {
  'openai-responses': 'POST /v1/responses',
  'openai-chat': 'POST /v1/chat/completions',
  anthropic: 'POST /v1/messages',
  google: '',
}
const WAIT = { timeout: 60_000, interval: 20 }

type Patient = Pick<Way, 'dialect' | 'hands' | 'diagnostics' | 'settings'> & {
  readonly harness: string
  readonly env?: Readonly<Record<string, string>>
  readonly heldMs?: number
}

const PATIENTS: readonly Patient[] = [
  {
    harness: 'codex',
    dialect: 'openai-responses',
    hands: codexHands,
    diagnostics: ['history-restored', 'grammar-not-enforced'],
    settings: { model_catalog: 'gpt-5.5', stream_idle_timeout_ms: IDLE_MS },
  },
  {
    harness: 'claude_code',
    dialect: 'anthropic',
    hands: claudeHands,
    diagnostics: ['history-restored'],
    settings: {},
    env: { CLAUDE_ENABLE_BYTE_WATCHDOG: '1', CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS: String(CLAUDE_IDLE_MS) },
    heldMs: CLAUDE_HELD_MS,
  },
  { harness: 'gemini_cli', dialect: 'google', hands: geminiHands, diagnostics: ['history-restored'], settings: {} },
  {
    harness: 'qwen_code',
    dialect: 'openai-chat',
    hands: qwenHands,
    diagnostics: ['history-restored'],
    settings: {},
    env: { QWEN_STREAM_IDLE_TIMEOUT_MS: String(IDLE_MS) },
  },
  { harness: 'pi', dialect: 'openai-chat', hands: piHands, diagnostics: ['history-restored'], settings: {} },
  { harness: 'opencode', dialect: 'openai-chat', hands: opencodeHands, diagnostics: ['history-restored'], settings: {} },
]

describe('in a pause', () => {
  let bench: Bench
  beforeAll(async () => {
    const detoured = PATIENTS.map(({ harness }): [string, string] => {
      const name = `${harness}${DETOUR}`
      return [name, join(import.meta.dirname, 'fixtures', `${name.replaceAll('_', '-')}.ts`)]
    })
    bench = await openBench(Object.fromEntries(detoured), undefined, { stream: { commit_after_seconds: 0.1, beat_seconds: BEAT_SECONDS } })
  })
  afterAll(() => bench.close())

  it.each(PATIENTS)(
    '$harness waits, and goes on after it with the call that it had made',
    async ({ harness, dialect, hands, diagnostics, settings, env = {}, heldMs = HELD_MS }) => {
      const detour = await openDetour(bench.modelPort)
      await bench.inference('pause')
      const running = bench.run({ harness: `${harness}${DETOUR}`, settings, env: { ...env, ...detour.env } }, twoTurns(hands, bench.out))
      await vi.waitUntil(async () => (await bench.inference('status')).waiting > 0, WAIT)
      // Its own clock runs, so it is held for as long as that takes.
      const heldFrom = performance.now()
      await vi.waitUntil(() => performance.now() - heldFrom > heldMs, WAIT)
      expect(await bench.inference('status')).toEqual({ inflight: 0, waiting: 1 })
      await bench.inference('resume')
      const rollout = await running
      await detour.close()
      // Whoever loses patience asks again, and would be given the call that it had made.
      expect(detour.routes().filter((route) => route === GENERATES[dialect] || route.includes(':streamGenerateContent'))).toHaveLength(2)
      expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 0 })
      for (const session of rollout.sessions) {
        expect([session.outcome, session.error]).toEqual(['completed', null])
        checkRecords(session, { dialect, model: MODEL, statuses: ['ok'], diagnostics })
        expect(session.records.map(({ delivery, retryOf }) => [delivery, retryOf])).toEqual(Array(2).fill(['yes', null]))
        expect(session.records[0]?.durationMs).toBeGreaterThan(heldMs)
      }
    },
    TEST_MS,
  )
})
