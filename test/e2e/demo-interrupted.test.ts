import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ensureAgent } from '../../scripts/agents.ts'
import { root, runToEnd } from '../lib/polar-process.ts'

let folder = ''
beforeAll(async () => {
  await ensureAgent('pi')
  folder = mkdtempSync(join(tmpdir(), 'polar-interrupted-'))
}, 600_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

type Demo = ReturnType<typeof startDemo>

function startDemo(options: readonly string[]) {
  return spawn(process.execPath, ['examples/demo/run.ts', ...options], {
    cwd: root,
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
}

/** The addresses of engine and node, read up to the line in which a session first runs. */
async function readUntilRunning(demo: Demo): Promise<readonly string[]> {
  const urls: string[] = []
  for await (const line of createInterface({ input: demo.stdout })) {
    urls.push(...(/^(?:engine|node) +(http:\S+)/.exec(line)?.slice(1) ?? []))
    if (line.includes('RUNNING')) break
  }
  return urls
}

const isAnswering = (url: string): Promise<boolean> =>
  fetch(url).then(
    () => true,
    () => false,
  )

describe('a demo that is ended in the middle', () => {
  it.each([
    ['by Ctrl-C', ['--scripted'], (demo: Demo) => demo.kill('SIGINT'), 130],
    ['by SIGTERM', ['--scripted'], (demo: Demo) => demo.kill('SIGTERM'), 143],
    ['by SIGTERM, with the real model,', [], (demo: Demo) => demo.kill('SIGTERM'), 143],
    ['by a reader that goes away', ['--scripted'], (demo: Demo) => demo.stdout.destroy(), 141],
  ])(
    '%s stops its node and its engine, and leaves no folder',
    async (_, options, end, expected) => {
      const demo = startDemo(options)
      const urls = await readUntilRunning(demo)
      expect(await Promise.all(urls.map(isAnswering))).toEqual([true, true])
      end(demo)
      const [code] = (await once(demo, 'exit')) as [number | null]
      expect(code).toBe(expected)
      expect(await Promise.all(urls.map(isAnswering))).toEqual([false, false])
      expect(readdirSync(folder)).toEqual([])
    },
    60_000,
  )

  it('says which options it takes', async () => {
    const { code, stderr } = await runToEnd(process.execPath, ['examples/demo/run.ts', '--jsno'])
    expect([code, stderr]).toEqual([2, expect.stringContaining('npm run demo -- [--json] [--scripted]')])
  })
})
