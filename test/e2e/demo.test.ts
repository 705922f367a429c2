import { beforeAll, describe, expect, it } from 'vitest'
import { ensureAgent } from '../../scripts/agents.ts'
import { runToEnd } from '../lib/polar-process.ts'

type Line = Readonly<Record<string, unknown>>
type Ran = { readonly code: number | null; readonly lines: readonly Line[]; readonly stderr: string }

/** The demo in a network namespace of its own, in which loopback is all there is. */
async function demoWithoutNetwork(...options: readonly string[]): Promise<Ran> {
  const script = 'ip link set lo up && exec "$0" examples/demo/run.ts --json "$@"'
  const { code, stdout, stderr } = await runToEnd('unshare', ['--map-root-user', '--net', 'sh', '-c', script, process.execPath, ...options])
  return {
    code,
    stderr,
    lines: stdout
      .trim()
      .split('\n')
      .map((line): Line => JSON.parse(line)),
  }
}

describe('the unmodified pi CLI on its Chat protocol, with loopback only', () => {
  beforeAll(async () => {
    await ensureAgent('pi')
  }, 600_000)

  it('does a multi-turn task by script, whose graded trajectory reaches the callback', async () => {
    const { code, lines, stderr } = await demoWithoutNetwork('--scripted')
    expect(stderr).toBe('')
    expect(lines[0]).toMatchObject({ type: 'engine', kind: 'scripted', model: 'demo-policy' })
    const sessions = lines.filter((line) => line.type === 'session')
    expect(sessions.map((session) => session.outcome)).toEqual(Array(4).fill('completed'))
    // The two policies of the script: one is right after four calls, one is wrong after three. Each keeps one strict chain.
    const seen = sessions.map(({ reward, calls, traces }) => [reward, calls, traces]).toSorted()
    expect(seen).toEqual([
      [0, 3, 1],
      [0, 3, 1],
      [1, 4, 1],
      [1, 4, 1],
    ])
    expect(lines.at(-1)).toMatchObject({ type: 'summary', groups: 1, solved: 2, ok: true, problems: [] })
    expect(code).toBe(0)
  }, 120_000)

  it('does it with a real model, whose weights are in the package, until a group has both rewards', async () => {
    const { code, lines, stderr } = await demoWithoutNetwork()
    expect(stderr).toBe('')
    expect(lines[0]).toMatchObject({ type: 'engine', kind: 'embedded', model: 'tiny-policy' })
    const groups = lines.filter((line) => line.type === 'group')
    // Only the last one teaches: what came before had nothing to teach.
    expect(groups.map(({ teaches }) => teaches)).toEqual([...Array(groups.length - 1).fill(false), true])
    const sessions = lines.filter((line) => line.type === 'session')
    expect(sessions).toHaveLength(8 * groups.length)
    const rewards = sessions.map(({ reward }) => reward)
    expect([rewards.includes(0), rewards.includes(1)]).toEqual([true, true])
    for (const { tokens, trained_tokens: trained } of sessions) {
      expect(trained).toBeGreaterThan(0)
      expect(trained).toBeLessThan(Number(tokens))
    }
    const solved = rewards.filter((reward) => reward === 1).length
    expect(lines.at(-1)).toMatchObject({
      type: 'summary',
      engine: 'tiny-policy',
      sessions: sessions.length,
      solved,
      ok: true,
      problems: [],
    })
    expect(code).toBe(0)
  }, 120_000)

  it.each([['--scripted'], []])(
    'shows a solved trace with its trained spans marked, word for word (%s)',
    async (...options) => {
      const { code, stdout } = await runToEnd(process.execPath, ['examples/demo/run.ts', ...options])
      const trace = [...stdout.matchAll(/^ {2}\| (.*)$/gm)].map(([, line]) => line).join('\n')
      const trained = [...trace.matchAll(/⟦([^⟦⟧]*)⟧/g)].map(([, span]) => span ?? '')
      // The prompt comes before what is shown. Each later one begins where the model was asked to go on, and each ends as it ended its turn.
      expect(trained.length).toBeGreaterThan(1)
      expect(trace.startsWith('⟦')).toBe(true)
      for (const span of trained.slice(1)) expect(trace).toContain(`<|im_start|>assistant\n⟦${span}⟧`)
      expect(trained.map((span) => span.endsWith('<|im_end|>'))).toEqual(trained.map(() => true))
      expect(trained[0]).toMatch(/<tool_call>\n\{"name": "bash", "arguments": \{"command": "/)
      expect(trained.at(-1)).not.toContain('<tool_call>')
      expect(code).toBe(0)
    },
    120_000,
  )
})
