// The real Codex CLI, as it is for a model it does not know, and with the tools that a model catalogue gives it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { accountFor, checkRecords } from './laws.ts'
import { type Bench, openBench } from './rollout.ts'
import { codexHands, type Hands, plainCodexHands, TEN_TURN_FILES, tenTurns, twoTurns } from './tasks.ts'

let bench: Bench
beforeAll(async () => {
  bench = await openBench()
})
afterAll(() => bench.close())

const EXPECTED = { dialect: 'openai-responses', model: 'Qwen/Qwen3-8B' } as const

describe.each<[string, Readonly<Record<string, unknown>>, Hands, readonly string[]]>([
  ['with a model it does not know', {}, plainCodexHands, ['exec_command', 'write_stdin']],
  ['with a model catalogue', { model_catalog: 'gpt-5.5' }, codexHands, ['exec_command', 'write_stdin', 'apply_patch']],
])('codex %s', (_name, settings, hands, tools) => {
  const agent = { harness: 'codex', settings }

  it('does a short task in two sessions at once, each with its own calls and tokens', async () => {
    const rollout = await bench.run(agent, twoTurns(hands, bench.out), { num_samples: 2 })
    expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([
      ['completed', null],
      ['completed', null],
    ])
    expect(accountFor(rollout)).toEqual({ turns: 4, aux: 0, repeats: 0 })
    for (const session of rollout.sessions) {
      checkRecords(session, EXPECTED)
      expect(session.records).toHaveLength(2)
    }
    expect(offeredTools(rollout.generations.at(-1)?.body)).toEqual(expect.arrayContaining([...tools]))
    expect(Object.values(rollout.files)).toHaveLength(2)
    for (const [path, content] of Object.entries(rollout.files)) expect(content).toContain(path.split('/')[0])
    expect(await bench.leftovers()).toEqual([])
  }, 90_000)

  it('does ten turns with edits, which are one chain of which every sampled token is trained once', async () => {
    const rollout = await bench.run(agent, tenTurns(hands, bench.out))
    expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
    expect(accountFor(rollout)).toEqual({ turns: 10, aux: 0, repeats: 0 })
    for (const session of rollout.sessions) checkRecords(session, EXPECTED)
    expect(Object.fromEntries(Object.entries(rollout.files).map(([path, content]) => [path.split('/')[1], content]))).toEqual(
      TEN_TURN_FILES,
    )
    expect(await bench.leftovers()).toEqual([])
  }, 90_000)
})

function offeredTools(body: unknown): readonly string[] {
  const { tools } = body as { readonly tools: readonly { readonly function: { readonly name: string } }[] } // chat completions, as the node sends them
  return tools.map((tool) => tool.function.name)
}
