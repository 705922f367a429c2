import { execFileSync } from 'node:child_process'
import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { collectLogs } from '../../src/runtime/agent-logs.ts'

let folder: string
let home: string
let target: string

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'polar-agent-logs-')))
  home = join(folder, 'home')
  target = join(folder, 'kept')
  mkdirSync(home)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function write(path: string, content: string, changedAtMs = 1_000): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
  utimesSync(path, changedAtMs / 1_000, changedAtMs / 1_000)
}

const kept = (): Readonly<Record<string, string>> => {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory())
  const paths = entries.map((entry) => join(entry.parentPath, entry.name)).filter((path) => path.startsWith(target))
  return Object.fromEntries(paths.map((path) => [path.slice(target.length + 1), readFileSync(path, 'utf8')]))
}

describe('the logs of an agent', () => {
  it('are the files and folders that were named, at the places they had in its home', async () => {
    write(join(home, '.cli/sessions/2026/a.jsonl'), 'a')
    write(join(home, '.cli/sessions/empty.jsonl'), '')
    write(join(home, '.cli/log.txt'), 'log')
    write(join(home, '.cli/config.toml'), 'never named')
    await collectLogs(home, [join(home, '.cli/sessions'), join(home, '.cli/log.txt'), join(home, '.cli/gone')], target)
    expect(kept()).toEqual({ '.cli/sessions/2026/a.jsonl': 'a', '.cli/sessions/empty.jsonl': '', '.cli/log.txt': 'log' })
  })

  it.each<[string, () => string]>([
    [
      'a link to a file',
      () => {
        symlinkSync(join(folder, 'secret/key'), join(home, 'logs/link'))
        return join(home, 'logs')
      },
    ],
    [
      'a link to a folder',
      () => {
        symlinkSync(join(folder, 'secret'), join(home, 'logs/link'))
        return join(home, 'logs')
      },
    ],
    [
      'a named folder that is a link',
      () => {
        symlinkSync(join(folder, 'secret'), join(home, 'link'))
        return join(home, 'link')
      },
    ],
    [
      'a file behind a link',
      () => {
        symlinkSync(join(folder, 'secret'), join(home, 'link'))
        return join(home, 'link/key')
      },
    ],
    [
      'a second name of a file',
      () => {
        linkSync(join(folder, 'secret/key'), join(home, 'logs/same'))
        return join(home, 'logs')
      },
    ],
    [
      'what nobody can read to an end',
      () => {
        execFileSync('mkfifo', [join(home, 'logs/pipe')])
        return join(home, 'logs')
      },
    ],
    ['a path outside', () => join(folder, 'secret')],
    ['a path that climbs out', () => `${home}/../secret`],
    ['the home itself', () => home],
  ])('never hold %s', async (_name, plant) => {
    write(join(folder, 'secret/key'), 'secret')
    mkdirSync(join(home, 'logs'))
    await collectLogs(home, [plant()], target)
    expect(kept()).toEqual({})
  })

  const bounds = { files: 10, bytes: 10, names: 100 }
  it.each<[string, Partial<typeof bounds>, Readonly<Record<string, string>>]>([
    ['bytes', { bytes: 7 }, { 'logs/new': 'new', 'logs/mid': 'midd', 'left-out.txt': 'logs/old: 5 bytes\n' }],
    ['files', { files: 1 }, { 'logs/new': 'new', 'left-out.txt': 'logs/mid: 4 bytes\nlogs/old: 5 bytes\n' }],
    ['names', { names: 1 }, { 'left-out.txt': 'whatever came after 1 names\n' }],
  ])('are bounded in their %s, the newest first, and say what is left out', async (_name, more, expected) => {
    write(join(home, 'logs/old'), 'older', 1_000)
    write(join(home, 'logs/new'), 'new', 3_000)
    write(join(home, 'logs/mid'), 'midd', 2_000)
    await collectLogs(home, [join(home, 'logs')], target, { ...bounds, ...more })
    expect(kept()).toEqual(expected)
  })

  it('never cost more than themselves: a place that cannot be written is passed over', async () => {
    write(join(home, 'logs/a'), 'a')
    write(target, 'a file where the folder should be')
    await expect(collectLogs(home, [join(home, 'logs')], join(target, 'home'), { ...bounds, names: 1 })).resolves.toBeUndefined()
  })
})
