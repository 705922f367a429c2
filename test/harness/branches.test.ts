// Sub-agents, made by the CLIs themselves: side by side, one after another, and of one another.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { call, type SampledCall, type Script, type SubScript } from './answers.ts'
import { accountFor, partingsOf, rolesOf } from './laws.ts'
import { type Bench, openBench, type Rollout } from './rollout.ts'
import { TEST_MS } from './suite.ts'
import { claudeHands, geminiHands, type Hands, opencodeHands, plainCodexHands, qwenHands } from './tasks.ts'

let bench: Bench
beforeAll(async () => {
  bench = await openBench()
})
afterAll(() => bench.close())

function soleSession({ sessions }: Rollout) {
  const [session] = sessions
  if (session === undefined) throw new Error('a rollout has a session')
  expect([session.outcome, session.error]).toEqual(['completed', null])
  return session
}

const ERRAND = 'SUB-TASK: look around'
const claudeSpawn = call('Agent', {
  description: 'Look around',
  prompt: ERRAND,
  subagent_type: 'general-purpose',
  run_in_background: false,
})

describe('two sub-agents that are sent on one errand', () => {
  type Sender = {
    readonly harness: string
    readonly hands: Hands
    readonly parent: () => Script
    /** Which turn of the parent spawned each. */
    readonly spawnedBy: readonly number[]
    /** How many must have come before anybody goes on. */
    readonly meeting: number
  }
  const COME = 'mktemp ./here-XXXXXX'
  const meet = (count: number): string => `${COME}; until [ $(ls here-* | wc -l) -ge ${count} ]; do sleep 0.02; done`

  /** A parent that is told a name for each, lets them go on, and waits for them. */
  function codexParent(): Script {
    const names: string[] = []
    const spawn = call('multi_agent_v1__spawn_agent', { message: ERRAND })
    const wait = (name: string | undefined) => call('multi_agent_v1__wait_agent', { targets: [name], timeout_ms: 20_000 })
    const noted = (last: string, next: SampledCall) => {
      names.push(/"agent_id":"([^"]+)"/.exec(last)?.[1] ?? 'nobody')
      return { calls: [next] }
    }
    return [
      () => ({ text: 'I send somebody.', calls: [spawn] }),
      (last) => noted(last, spawn),
      (last) => noted(last, plainCodexHands.shell(COME)),
      () => ({ calls: [wait(names[0])] }),
      () => ({ calls: [wait(names[1])] }),
      () => ({ text: 'Both have looked.' }),
    ]
  }

  const opencodeSpawn = call('task', { description: 'Look around', prompt: ERRAND, subagent_type: 'general' })

  const SENDERS: readonly Sender[] = [
    { harness: 'codex', hands: plainCodexHands, parent: codexParent, spawnedBy: [0, 1], meeting: 3 },
    {
      harness: 'claude_code',
      hands: claudeHands,
      // One that is blocked until both have come back.
      parent: () => [() => ({ text: 'I send two.', calls: [claudeSpawn, claudeSpawn] }), () => ({ text: 'Both have looked.' })],
      spawnedBy: [0, 0],
      meeting: 2,
    },
    {
      harness: 'opencode',
      hands: opencodeHands,
      parent: () => [() => ({ text: 'I send two.', calls: [opencodeSpawn, opencodeSpawn] }), () => ({ text: 'Both have looked.' })],
      spawnedBy: [0, 0],
      meeting: 2,
    },
  ]

  it.each(SENDERS)(
    'work at once, are two chains of $harness beside its own, and hang from the calls that spawned them',
    async ({ harness, hands, parent, spawnedBy, meeting }) => {
      const script = parent()
      const errand: Script = [() => ({ text: 'I look.', calls: [hands.shell(meet(meeting))] }), () => ({ text: 'There is nothing.' })]
      const rollout = await bench.run({ harness }, script, {}, { when: ERRAND, script: errand })
      const { records, edges } = soleSession(rollout)
      expect(new Set(records.map(({ lineage }) => lineage?.agent)).size).toBe(3)
      const own = records.flatMap(({ lineage, id }): string[] => (lineage?.parent === null ? [id] : []))
      const parted = edges.filter(({ kind }) => kind !== 'extends').map(({ kind, of }) => [kind, own.indexOf(of ?? '')])
      expect(parted.toSorted()).toEqual(spawnedBy.map((turn) => ['subagent_of', turn]))
      expect(rolesOf(rollout)).toEqual([
        ['main', script.length],
        ['subagent', 2],
        ['subagent', 2],
      ])
      const account = accountFor(rollout, { chains: 3, breaks: { subagent_of: 2 } })
      expect(account).toEqual({ turns: script.length + 4, aux: 0, retries: 0, repeats: 0 })
      expect(await bench.leftovers()).toEqual([])
    },
    TEST_MS,
  )
})

describe('sub-agents of a CLI that names none', () => {
  type Sender = {
    readonly harness: string
    readonly hands: Hands
    readonly send: (errand: string) => SampledCall
    readonly end: SampledCall[]
  }
  const SENDERS: readonly Sender[] = [
    {
      harness: 'gemini_cli',
      hands: geminiHands,
      send: (prompt) => call('invoke_agent', { agent_name: 'generalist', prompt }),
      end: [call('complete_task', { result: { response: 'Nothing.' } })],
    },
    {
      harness: 'qwen_code',
      hands: qwenHands,
      send: (prompt) =>
        call('agent', { ...{ description: 'Look around', prompt }, ...{ subagent_type: 'general-purpose', run_in_background: false } }),
      end: [],
    },
  ]

  it.each(SENDERS)(
    'are chains of $harness that hang from the calls whose errands they are on, two at once and one after them',
    async ({ harness, hands, send, end }) => {
      const script: Script = [
        () => ({ text: 'I send two.', calls: [send(`${ERRAND} in the garden`), send(`${ERRAND} in the house`)] }),
        () => ({ text: 'I send one more.', calls: [send(`${ERRAND} in the street`)] }),
        () => ({ text: 'All have looked.' }),
      ]
      const errand: Script = [
        () => ({ text: 'I look.', calls: [hands.shell('echo nothing')] }),
        () => ({ text: 'There is nothing.', calls: end }),
      ]
      const rollout = await bench.run({ harness }, script, {}, { when: ERRAND, script: errand })
      const { records, edges } = soleSession(rollout)
      const main = rollout.sessions.flatMap(({ traces }) =>
        traces.flatMap(({ metadata }) => (metadata.segment_role === 'main' ? metadata.turns : [])),
      )
      const parted = edges
        .filter(({ kind }) => kind !== 'extends')
        .map(({ kind, of }) => [kind, main.findIndex(({ call_id }) => call_id === of)])
      expect(parted).toEqual([
        ['subagent_of', 0],
        ['subagent_of', 0],
        ['subagent_of', 1],
      ])
      expect(rolesOf(rollout).toSorted()).toEqual([['main', 3], ...[1, 2, 3].map(() => ['subagent', 2])])
      expect(records.map(({ lineage }) => lineage)).toEqual(records.map(() => null))
      expect(accountFor(rollout, { chains: 4, breaks: { subagent_of: 3 } })).toEqual({ turns: 9, aux: 0, retries: 0, repeats: 0 })
    },
    TEST_MS,
  )
})

describe('a sub-agent of a sub-agent', () => {
  it(
    'hangs from its own parent, as deep as Claude Code goes',
    async () => {
      const spawn = { text: 'I send somebody.', calls: [claudeSpawn] }
      // The last one has no tool to send anybody with.
      const inTurn: SubScript = {
        when: ERRAND,
        script: [(_, tools) => (tools.includes('Agent') ? spawn : { text: 'There is nothing.' }), () => ({ text: 'Nothing, I am told.' })],
      }
      const script: Script = [() => spawn, () => ({ text: 'Nothing.' })]
      const rollout = await bench.run({ harness: 'claude_code' }, script, {}, inTurn)
      expect(partingsOf(rollout)).toEqual([
        ['subagent_of', 1, 0],
        ['subagent_of', 2, 1],
        ['subagent_of', 3, 2],
      ])
      expect(rolesOf(rollout)).toEqual([
        ['main', 2],
        ['subagent', 2],
        ['subagent', 2],
        ['subagent', 1],
      ])
      expect(accountFor(rollout, { chains: 4, breaks: { subagent_of: 3 } })).toEqual({ turns: 7, aux: 0, retries: 0, repeats: 0 })
    },
    TEST_MS,
  )
})
