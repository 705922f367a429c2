// The logs of an agent that filled its log folder: a folder of so many names takes minutes to make, so this one only says that it has them.
import { type Dirent, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { collectLogs } from '../../src/runtime/agent-logs.ts'

/** More than one call can be given as arguments. */
const NAMES = 200_000
let read = 0

vi.mock('node:fs/promises', async (load) => ({
  ...(await load<object>()),
  readdir: async () => Array.from({ length: NAMES }, (_, at) => String(at)),
  async *opendir(): AsyncIterable<Partial<Dirent>> {
    for (read = 0; read < NAMES; read += 1) yield { name: String(read) }
  },
}))

it('a folder with more names than are looked at is not read to its end', async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'polar-agent-logs-')))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'home/logs'), { recursive: true })
  const target = join(folder, 'kept')
  await collectLogs(join(folder, 'home'), [join(folder, 'home/logs')], target, { files: 10, bytes: 10, names: 50 })
  expect(readdirSync(target).map((name) => readFileSync(join(target, name), 'utf8'))).toEqual(['whatever came after 50 names\n'])
  expect(read).toBeLessThanOrEqual(50)
})
