import { beforeAll, describe, expect, it } from 'vitest'
import { ensureAgent } from '../../scripts/agents.ts'
import { runToEnd } from '../lib/polar-process.ts'

type Line = Readonly<Record<string, unknown>>

/** The demo in a network namespace of its own, in which loopback is all there is. */
async function demoWithoutNetwork(): Promise<{ readonly code: number | null; readonly lines: readonly Line[]; readonly stderr: string }> {
  const script = 'ip link set lo up && exec "$0" examples/demo/run.ts --json'
  const { code, stdout, stderr } = await runToEnd('unshare', ['--map-root-user', '--net', 'sh', '-c', script, process.execPath])
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

  it.each(['first', 'second'])(
    'does a multi-turn task whose graded trajectory reaches the callback (%s run)',
    async () => {
      const { code, lines, stderr } = await demoWithoutNetwork()
      expect(stderr).toBe('')
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
      expect(lines.at(-1)).toMatchObject({ type: 'summary', status: 'completed', ok: true, problems: [] })
      expect(code).toBe(0)
    },
    120_000,
  )
})
