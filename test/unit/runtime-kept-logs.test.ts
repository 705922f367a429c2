import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openKeptLogs } from '../../src/runtime/kept-logs.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'polar-logs-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** What a runtime does when it stops a sandbox. */
function leave(name: string, ageSeconds = 0): void {
  mkdirSync(join(folder, name), { recursive: true })
  writeFileSync(join(folder, name, 'agent-1.stdout'), 'output')
  const atSeconds = 1_700_000_000 - ageSeconds
  utimesSync(join(folder, name), atSeconds, atSeconds)
}

const left = (): readonly string[] => readdirSync(folder).toSorted()

describe('kept logs', () => {
  it('are those of the last sessions, as many as the limit', async () => {
    const logs = openKeptLogs(folder, 3)
    for (let i = 1; i <= 5; i += 1) {
      expect(logs.folderFor(`sk-polar-${i}.1`)).toBe(join(folder, `sk-polar-${i}.1`))
      leave(`sk-polar-${i}.1`)
      await logs.keep(`sk-polar-${i}.1`)
    }
    expect(left()).toEqual(['sk-polar-3.1', 'sk-polar-4.1', 'sk-polar-5.1'])
  })

  it('count what an earlier process left, by its age, and leave everything else alone', async () => {
    leave('sk-polar-b.1', 10)
    leave('sk-polar-a.2', 20)
    leave('sk-polar-c.1', 30)
    leave('notes', 40)
    leave('.hidden.1', 40)
    writeFileSync(join(folder, 'sk-polar-f.1'), 'a file')
    const logs = openKeptLogs(folder, 3)
    leave('sk-polar-d.1')
    await logs.keep('sk-polar-d.1')
    expect(left()).toEqual(['.hidden.1', 'notes', 'sk-polar-a.2', 'sk-polar-b.1', 'sk-polar-d.1', 'sk-polar-f.1'])
  })

  it('survive a hundred sessions that end at once', async () => {
    const logs = openKeptLogs(folder, 10)
    const names = Array.from({ length: 100 }, (_, i) => `sk-polar-${i}.1`)
    for (const name of names) leave(name)
    await Promise.all(names.map((name) => logs.keep(name)))
    expect(left()).toEqual(names.slice(-10).toSorted())
  })

  it('are none with a limit of 0, not even earlier ones', async () => {
    leave('sk-polar-a.1')
    const logs = openKeptLogs(folder, 0)
    expect(logs.folderFor('sk-polar-b.1')).toBe(null)
    await logs.keep('sk-polar-b.1')
    expect(left()).toEqual([])
  })

  it('are never put or removed outside of their folder', async () => {
    const logs = openKeptLogs(join(folder, 'logs'), 1)
    leave('precious')
    for (const name of ['../precious', '..', '/etc', 'a/b.1', '']) expect(logs.folderFor(name)).toBe(null)
    for (const name of ['../precious', 'x.1', 'y.1']) await logs.keep(name)
    expect(left()).toEqual(['precious'])
  })
})
