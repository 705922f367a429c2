// Histories that grow too long, made by the CLIs themselves: a summary takes their place, and is asked for in each CLI's own way.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Script } from './answers.ts'
import { accountFor, partingsOf, rolesOf } from './laws.ts'
import { type Bench, openBench } from './rollout.ts'
import { TEST_MS } from './suite.ts'
import { claudeHands, opencodeHands, piHands, plainCodexHands } from './tasks.ts'

let bench: Bench
beforeAll(async () => {
  bench = await openBench()
})
afterAll(() => bench.close())

describe('a history that grows too long', () => {
  const FINDING = 'All that was asked for has been counted; nothing is left to be done.'

  it(
    'is summarised by Codex in a call without tools, and both that and what comes after are chains of the same agent',
    async () => {
      const script: Script = [
        (last) =>
          last.includes('produced a summary')
            ? { text: 'I go on.', calls: [plainCodexHands.shell('echo again')] }
            : { text: 'I count.', calls: [plainCodexHands.shell('seq 1 4000')] },
        () => ({ text: 'Done.' }),
      ]
      // Above a first prompt, below one with the numbers.
      const rollout = await bench.run({ harness: 'codex', settings: { auto_compact_token_limit: 10_000 } }, script)
      expect(partingsOf(rollout)).toEqual([
        ['compaction_of', 1, 0],
        ['compaction_of', 2, 1],
      ])
      expect(rolesOf(rollout)).toEqual([
        ['main', 1],
        ['main', 1],
        ['main', 2],
      ])
      expect(accountFor(rollout, { chains: 3, breaks: { D9: 2 } })).toEqual({ turns: 4, aux: 0, retries: 0, repeats: 0 })
      const purposes = rollout.sessions.flatMap(({ records }) => records.map(({ lineage }) => lineage?.purpose))
      expect(purposes).toEqual(['turn', 'compaction', 'turn', 'turn'])
    },
    TEST_MS,
  )

  it(
    'is summarised by Claude Code without its last turn, which it keeps beside the summary',
    async () => {
      let isSummarised = false
      const step = (last: string) => {
        if (last.includes('TEXT ONLY')) {
          isSummarised = true
          return { text: `<analysis>\nCounting.\n</analysis>\n\n<summary>\n${FINDING}\n</summary>` }
        }
        return isSummarised ? { text: 'Done.' } : { text: 'I count.', calls: [claudeHands.shell('seq 100000 104200')] }
      }
      const script = Array.from({ length: 12 }, () => step)
      const rollout = await bench.run({ harness: 'claude_code', settings: { auto_compact_window: 100_000 } }, script)
      expect(partingsOf(rollout)).toEqual([
        ['compaction_of', 3, 2],
        ['compaction_of', 4, 3],
      ])
      expect(rolesOf(rollout).map(([role]) => role)).toEqual(['main', 'main', 'main'])
      expect(accountFor(rollout, { chains: 3, breaks: { D9: 2 } })).toEqual({ turns: 5, aux: 0, retries: 0, repeats: 0 })
    },
    TEST_MS,
  )

  it(
    'is summarised by OpenCode in a conversation of its own, without tools',
    async () => {
      let turns = 0
      const step = () => {
        turns += 1
        return turns === 1 ? { text: 'I count.', calls: [opencodeHands.shell('seq 1 4000')] } : { text: 'Done.' }
      }
      // An answer of full length no longer fits behind the numbers.
      const settings = { context_window: 20_000, max_tokens: 4_000 }
      const rollout = await bench.run({ harness: 'opencode', settings }, [step, step, step])
      expect(partingsOf(rollout)).toEqual([
        ['compaction_of', 2, 1],
        ['compaction_of', 3, 2],
      ])
      expect(rolesOf(rollout)).toEqual([
        ['main', 2],
        ['main', 1],
        ['main', 1],
      ])
      expect(accountFor(rollout, { chains: 3, breaks: { D9: 2 } })).toEqual({ turns: 4, aux: 0, retries: 0, repeats: 0 })
    },
    TEST_MS,
  )

  it(
    'is summarised by Pi when its work is done: nothing goes on from there, and it is a side call',
    async () => {
      const count = () => ({ text: 'I count.', calls: [piHands.shell('seq 1 4000')] })
      const script: Script = [count, count, () => ({ text: 'Done.' })]
      const rollout = await bench.run({ harness: 'pi', settings: { context_window: 32_000, max_tokens: 4_096 } }, script)
      expect(partingsOf(rollout)).toEqual([['aux', 3, expect.any(Number)]])
      expect(accountFor(rollout, { chains: 1, breaks: { aux: 1 } })).toEqual({ turns: 3, aux: 1, retries: 0, repeats: 0 })
    },
    TEST_MS,
  )

  it(
    'is summarised by Pi when the engine has no room for it, and Pi goes on from there, though it says no more of it',
    async () => {
      const small = await openBench({}, 30_000)
      let turns = 0
      const step = () => {
        turns += 1
        const long = "yes 'the quick brown fox jumps over the lazy dog' | head -1100"
        return turns <= 3 ? { text: 'I read.', calls: [piHands.shell(long)] } : { text: 'Done.' }
      }
      const rollout = await small
        .run(
          { harness: 'pi' },
          Array.from({ length: 6 }, () => step),
        )
        .finally(() => small.close())
      expect(partingsOf(rollout, 'agent_error')).toEqual([
        ['compaction_of', 4, 2],
        ['compaction_of', 5, 4],
      ])
      expect(rolesOf(rollout)).toEqual([
        ['main', 3],
        ['main', 1],
        ['main', 1],
      ])
      expect(accountFor(rollout, { chains: 3, breaks: { D9: 2 } })).toMatchObject({ turns: 5, aux: 0, retries: 0 })
    },
    TEST_MS,
  )
})
