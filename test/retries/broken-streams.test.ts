// Real agent CLIs whose stream breaks: what they made of the part they had is trained once, and so is what they asked for anew.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import { openaiResponses } from '../../src/proxy/dialects/openai-responses/dialect.ts'
import { type Failure, failure, inARow } from '../../src/proxy/failure.ts'
import type { Script } from '../harness/answers.ts'
import { byPort } from '../harness/detour.ts'
import { accountFor } from '../harness/laws.ts'
import { type Bench, openBench, type Rollout } from '../harness/rollout.ts'
import { claudeHands, type Hands, piHands, plainCodexHands } from '../harness/tasks.ts'
import { openRelay, type Relay } from './relay.ts'

const FIXTURES = join(import.meta.dirname, '../harness/fixtures')
const FALLING_BACK = 'claude_code-falling-back'
const TEST_MS = 180_000

let bench: Bench
let relay: Relay

beforeAll(async () => {
  bench = await openBench({
    'codex-by-detour': join(FIXTURES, 'codex-by-detour.ts'),
    'claude_code-by-detour': join(FIXTURES, 'claude-code-by-detour.ts'),
    'pi-by-detour': join(FIXTURES, 'pi-by-detour.ts'),
    [FALLING_BACK]: join(FIXTURES, 'claude-code-falling-back.ts'),
  })
})
afterAll(() => bench.close())
beforeEach(async () => {
  relay = await openRelay(bench.modelPort)
  return () => relay.close()
})

/** A call of a tool, of which each generation makes one with its own number, and a last word. */
function script(hands: Hands, tookMs?: number): Script {
  let takes = 0
  return [
    () => {
      takes += 1
      return { calls: [hands.shell(`echo take ${takes} >>'${bench.out}/takes.txt'`)], ...(tookMs === undefined ? {} : { tookMs }) }
    },
    () => ({ text: 'Done.' }),
  ]
}

function run(harness: string, turns: Script): Promise<Rollout> {
  return bench.run({ harness, env: byPort(relay.port) }, turns)
}

function ends({ sessions }: Rollout): unknown {
  return sessions.map(({ outcome, error }) => [outcome, error])
}

it.each([
  { harness: 'codex', hands: plainCodexHands, holding: /event: response\.output_item\.done\ndata: [^\n]*"type":"function_call"/ },
  { harness: 'claude_code', hands: claudeHands, holding: /event: content_block_stop/ },
])(
  '$harness runs the whole call of a broken stream and goes on from it: its turn is trained, once',
  async ({ harness, hands, holding }) => {
    relay.lose({ type: 'after an event', holding, isHeld: true })
    const running = run(`${harness}-by-detour`, script(hands))
    // Both run a call as soon as they have the whole of it.
    await vi.waitUntil(() => existsSync(join(bench.out, 'takes.txt')), { timeout: TEST_MS })
    relay.cut(null)
    const rollout = await running
    expect(relay.isLost()).toBe(true)
    expect(ends(rollout)).toEqual([['completed', null]])
    expect(rollout.files).toEqual({ 'takes.txt': 'take 1\n' })
    expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 0 })
    expect(rollout.sessions.map(({ records }) => records.map(({ retryOf }) => retryOf))).toEqual([[null, null]])
  },
  TEST_MS,
)

it.each([
  { harness: 'codex', dialect: openaiResponses, body: { model: 'm', input: 'hi', stream: true }, hands: plainCodexHands },
  {
    harness: 'claude_code',
    dialect: anthropic,
    body: { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }], stream: true },
    hands: claudeHands,
  },
])(
  '$harness asks again when a failure that may pass follows the head of its stream, and ends when it is told as final',
  async ({ harness, dialect, body, hands }) => {
    const told = (reason: Failure): string => {
      const read = dialect.read(body, { tier: 'train', pins: {}, url: { model: null, form: null } })
      if (!read.ok) throw new Error('the dialect reads what its clients send')
      const stream = read.reply.stream({ id: 'ab'.repeat(16), createdSeconds: 1, model: 'm' })
      return stream.open(null) + stream.failure(reason)
    }
    const passing = failure('engine-unreachable', 'no inference server can be reached')
    relay.lose({ type: 'on the way', instead: told(passing) })
    const rollout = await run(`${harness}-by-detour`, script(hands))
    expect([relay.isLost(), relay.requests()]).toEqual([true, 3])
    expect(ends(rollout)).toEqual([['completed', null]])
    expect(rollout.files).toEqual({ 'takes.txt': 'take 2\n' })
    expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 1, repeats: 0 })

    relay.lose({ type: 'on the way', instead: told(inARow(passing, 5)) })
    const ended = await run(`${harness}-by-detour`, script(hands))
    expect([relay.isLost(), relay.requests()]).toEqual([true, 4])
    expect(ended.sessions.map(({ outcome }) => outcome)).toEqual(['agent_error'])
    expect(ended.files).toEqual({})
  },
  TEST_MS,
)

it(
  'pi asks anew for the call of a broken stream, and only the one it made then is trained',
  async () => {
    relay.lose({ type: 'after an event', holding: /"tool_calls"/ })
    const rollout = await run('pi-by-detour', script(piHands))
    expect(relay.isLost()).toBe(true)
    expect(ends(rollout)).toEqual([['completed', null]])
    expect(rollout.files).toEqual({ 'takes.txt': 'take 2\n' })
    expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 1, repeats: 0 })
  },
  TEST_MS,
)

it(
  'ST-06: Claude Code that asks again without a stream finds the generation that its stream had begun',
  async () => {
    const running = run(FALLING_BACK, script(claudeHands, 1_500))
    bench.model.onAsked((generation) => {
      if (generation === 1) setImmediate(() => relay.cut(''))
    })
    const rollout = await running
    expect(ends(rollout)).toEqual([['completed', null]])
    expect(rollout.files).toEqual({ 'takes.txt': 'take 1\n' })
    expect(relay.requests()).toBe(3)
    expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 0 })
  },
  TEST_MS,
)

it(
  'ST-06: Claude Code that asks again without a stream for an answer that was lost retries, and one of the two is trained',
  async () => {
    relay.lose({ type: 'on the way', instead: '' })
    const rollout = await run(FALLING_BACK, script(claudeHands))
    expect(ends(rollout)).toEqual([['completed', null]])
    expect(rollout.files).toEqual({ 'takes.txt': 'take 2\n' })
    expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 1, repeats: 0 })
    const [lost, again] = rollout.sessions[0]?.records ?? []
    expect([lost?.streamed, again?.streamed, again?.retryOf]).toEqual([true, false, lost?.id])
  },
  TEST_MS,
)
