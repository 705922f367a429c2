import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { lockDataFolder } from '../../src/data-folder.ts'
import { startTicksOf } from '../../src/runtime/process-tree.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'polar-data-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const claimOf = (pid: number): string => `lock-${pid}-${startTicksOf(pid)}`

describe('a data folder', () => {
  it('is claimed once per process, also by another path, until it is unlocked', async () => {
    const first = await lockDataFolder(folder)
    expect(readdirSync(folder)).toEqual([claimOf(process.pid)])
    const link = `${folder}-link`
    symlinkSync(folder, link)
    for (const path of [folder, link]) {
      expect(await lockDataFolder(path)).toMatchObject({ ok: false, problem: expect.stringContaining(`process ${process.pid}`) })
    }
    rmSync(link)
    if (!first.ok) throw new Error(first.problem)
    await first.unlock()
    expect(readdirSync(folder)).toEqual([])
    const second = await lockDataFolder(folder)
    // A late unlock of the first must not open what the second holds.
    expect(second.ok).toBe(true)
    if (second.ok) await second.unlock()
    expect(readdirSync(folder)).toEqual([])
  })

  it('of a live process is refused by name, and stays that process’s', async () => {
    writeFileSync(join(folder, claimOf(process.ppid)), '')
    expect(await lockDataFolder(folder)).toEqual({
      ok: false,
      problem: `the data folder ${folder} is in use by process ${process.ppid}: stop that node first, or set polar_node.data_dir to another folder`,
    })
    expect(readdirSync(folder)).toEqual([claimOf(process.ppid)])
  })

  it.each([
    ['a process that is gone', 'lock-4194305-1'],
    ['a process whose pid another one has now', `lock-${process.ppid}-1`],
    ['an earlier process with this one’s pid', `lock-${process.pid}-1`],
  ])('is taken over from %s', async (_, claim) => {
    writeFileSync(join(folder, claim), '')
    writeFileSync(join(folder, 'lock-of-a-stranger'), '')
    const lock = await lockDataFolder(folder)
    expect(readdirSync(folder).toSorted()).toEqual([claimOf(process.pid), 'lock-of-a-stranger'])
    if (lock.ok) await lock.unlock()
  })

  it('goes to at most one of two that start at the same time', async () => {
    const locks = await Promise.all([lockDataFolder(folder), lockDataFolder(folder)])
    expect(locks.filter((lock) => lock.ok)).toHaveLength(1)
    for (const lock of locks) if (lock.ok) await lock.unlock()
  })
})
