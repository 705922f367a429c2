// The promises that every agent CLI is tested for, in each way it can be run.
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { DialectName } from '../../src/contract/call.ts'
import type { Script } from './answers.ts'
import { DETOUR, openDetour } from './detour.ts'
import { noteDiagnostics, noteWay } from './facts.ts'
import { openImage } from './image.ts'
import { accountFor, checkRecords, type Expected } from './laws.ts'
import { type Bench, openBench, type Rollout, UPLOADS } from './rollout.ts'
import { type Hands, TEN_TURN_FILES, tenTurns, twoTurns } from './tasks.ts'

export type Way = {
  readonly name: string
  readonly dialect: DialectName
  readonly settings: Readonly<Record<string, unknown>>
  readonly hands: Hands
  /** Tools that the engine must be offered. */
  readonly tools: readonly string[]
  /** What may be said of its calls: anything else that is lost or guessed on the way is a finding. */
  readonly diagnostics: readonly string[]
  /** Of a CLI that takes seconds to start: what the first way has shown by ten turns, this one shows by two. */
  readonly isShort?: true
}

/** As long as the slowest CLI may take for two sessions on a machine with much else to do. */
export const TEST_MS = 180_000
export const MODEL = 'Qwen/Qwen3-8B'

/** `ways[0]` also goes through failures. `more` holds what only this CLI can do; its bench is open when its tests run. */
export function describeAgent(harness: string, ways: readonly [Way, ...(readonly Way[])], more?: (bench: () => Bench) => void): void {
  const detoured = `${harness}${DETOUR}`
  let bench: Bench
  beforeAll(async () => {
    const module = `${detoured.replaceAll('_', '-')}.ts`
    bench = await openBench({ [detoured]: join(import.meta.dirname, 'fixtures', module) })
  })
  afterAll(() => bench.close())

  if (more !== undefined) describe(`${harness}, on its own,`, () => more(() => bench))

  function checkEnds(rollout: Rollout, way: Way, statuses: Expected['statuses'] = ['ok']): void {
    for (const session of rollout.sessions) {
      expect([session.earlier, session.outcome, session.status, session.error]).toEqual([[], 'completed', 'COMPLETED', null])
      checkRecords(session, { dialect: way.dialect, model: MODEL, statuses, diagnostics: way.diagnostics })
    }
  }

  describe.each(ways)(`${harness}, $name,`, (way) => {
    const { settings, hands, tools, isShort } = way

    it(
      'does a short task in two sessions at once, each with its own calls and tokens',
      async () => {
        const detour = await openDetour(bench.modelPort)
        const agent = { harness: detoured, settings, env: detour.env }
        const rollout = await bench.run(agent, twoTurns(hands, bench.out), { num_samples: 2 })
        await detour.close()
        checkEnds(rollout, way)
        expect(accountFor(rollout)).toEqual({ turns: 4, aux: 0, retries: 0, repeats: 0 })
        expect(rollout.sessions.map(({ records }) => records.length)).toEqual([2, 2])
        expect(offeredTools(rollout)).toEqual(expect.arrayContaining([...tools]))
        expect(Object.keys(rollout.files)).toHaveLength(2)
        for (const [path, content] of Object.entries(rollout.files)) expect(content).toContain(path.split('/')[0])
        expect(await bench.leftovers()).toEqual([])
        const routes = detour.routes().map((route) => decodeURIComponent(route).replace(MODEL, '{model}'))
        noteWay(harness, way.dialect, rollout, routes)
        noteDiagnostics(harness, rollout)
      },
      TEST_MS,
    )

    if (isShort === true) return
    it(
      'does ten turns with edits, which are one chain of which every sampled token is trained once',
      async () => {
        const rollout = await bench.run({ harness, settings }, tenTurns(hands, bench.out))
        checkEnds(rollout, way)
        expect(accountFor(rollout)).toEqual({ turns: 10, aux: 0, retries: 0, repeats: 0 })
        expect(rollout.sessions.map(({ records }) => records.length)).toEqual([10])
        expect(byName(rollout.files)).toEqual(TEN_TURN_FILES)
        expect(await bench.leftovers()).toEqual([])
        noteDiagnostics(harness, rollout)
      },
      TEST_MS,
    )
  })

  it(
    `${harness} may be the one of the image, in the version that is named, told of the task’s skills and of its instruction’s file, and leaves its log`,
    async () => {
      const [{ hands, settings }] = ways
      const image = await openImage(harness, settings, join(bench.out, '..', 'image'))
      const agent = {
        ...{ harness, env: image.env, skills_path: join(UPLOADS, 'skills') },
        settings: { ...settings, install: 'image', version: image.version, instruction: 'file' },
      }
      const rollout = await bench.run(agent, twoTurns(hands, bench.out))
      checkEnds(rollout, ways[0])
      expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 0 })
      const [asked = ''] = rollout.generations.flatMap(({ body }) => (hasTools(body) ? [JSON.stringify(body)] : []))
      expect(asked).toContain('tidy-drawers')
      expect(asked).toContain('How drawers are tidied in this house.')
      expect(asked).toMatch(/described in the file [^ ]*\.polar\/instruction\.md/)
      expect(asked).not.toContain('Do what is to be done')
      // Its own account of the session outlives the sandbox.
      expect(await bench.leftovers()).toEqual([])
      for (const session of rollout.sessions) {
        const kept = Object.values(bench.keptLogs(session)).join('\n')
        for (const text of ['I will create it.', 'The file is there']) expect(kept.includes(text)).toBe(true)
      }
    },
    TEST_MS,
  )

  describe(`${harness}, when something fails,`, () => {
    const [way] = ways
    const { settings, hands } = way

    it(
      'waits as long as an engine that is too busy says, and asks again',
      async () => {
        bench.engine.setFault({ fault: 'http-429', after: 1, times: 1 })
        const rollout = await bench.run({ harness, settings }, twoTurns(hands, bench.out))
        checkEnds(rollout, way, ['ok', 'failed'])
        expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 1 })
        const [, refused, again] = rollout.sessions[0]?.records ?? []
        expect([refused?.httpStatus, again?.httpStatus, again?.retryOf]).toEqual([429, 200, refused?.id])
        expect((again?.startedAtMs ?? 0) - (refused?.startedAtMs ?? 0)).toBeGreaterThanOrEqual(950)
      },
      TEST_MS,
    )

    it(
      'is known to have failed when its last call was refused, whatever it exits with',
      async () => {
        bench.engine.setFault({ fault: 'http-400', after: 1 })
        const rollout = await bench.run({ harness, settings }, twoTurns(hands, bench.out))
        bench.engine.setFault(null)
        for (const { outcome, status, error } of rollout.sessions) {
          expect([outcome, status, error]).toEqual(['agent_error', 'COMPLETED', expect.stringContaining('scripted fault: bad request')])
        }
        expect(accountFor(rollout)).toMatchObject({ turns: 1, aux: 0, retries: 0 })
        expect(await bench.leftovers()).toEqual([])
      },
      TEST_MS,
    )

    it(
      'never hears of an engine that broke off in the middle of its answer',
      async () => {
        bench.engine.setFault({ fault: 'reset-in-body', after: 1, times: 1 })
        const rollout = await bench.run({ harness, settings }, twoTurns(hands, bench.out))
        checkEnds(rollout, { ...way, diagnostics: [...way.diagnostics, 'replica-unreachable'] })
        expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 1 })
        expect(rollout.sessions.map(({ records }) => records.length)).toEqual([2])
      },
      TEST_MS,
    )

    it(
      'finds the answer it had asked for when its connection is cut and it asks again',
      async () => {
        const detour = await openDetour(bench.modelPort)
        const script: Script = twoTurns(hands, bench.out).map((step) => (...about) => ({ ...step(...about), tookMs: 1_500 }))
        const running = bench.run({ harness: detoured, settings, env: detour.env }, script)
        bench.model.onAsked((generation) => {
          if (generation === 2) detour.cut()
        })
        const rollout = await running
        await detour.close()
        checkEnds(rollout, way)
        // The engine was asked once: the second request adopted what the first one had begun.
        expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 0 })
        expect(rollout.sessions.map(({ records }) => records.length)).toEqual([2])
      },
      TEST_MS,
    )

    it(
      'is trained on the answer it went on with when one was lost on its way',
      async () => {
        const detour = await openDetour(bench.modelPort)
        const running = bench.run({ harness: detoured, settings, env: detour.env }, twoTurns(hands, bench.out))
        bench.model.onAsked((generation) => {
          if (generation === 2) detour.loseNextAnswer()
        })
        const rollout = await running
        await detour.close()
        checkEnds(rollout, way)
        expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 1, repeats: 0 })
        const [, lost, again] = rollout.sessions[0]?.records ?? []
        expect(again?.retryOf).toBe(lost?.id)
      },
      TEST_MS,
    )
  })
}

function hasTools(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'tools' in body
}

function offeredTools({ generations }: Rollout): readonly string[] {
  // What a node asks of an engine that speaks Chat Completions.
  const body = generations.at(-1)?.body as { readonly tools: readonly { readonly function: { readonly name: string } }[] } | undefined
  return body?.tools.map((tool) => tool.function.name) ?? []
}

function byName(files: Rollout['files']): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(files).map(([path, content]) => [path.split('/')[1], content]))
}
