import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BROKEN, type Fix, RIGHT, WRONG } from '../../examples/tiny-policy/wordings.ts'

const repo = resolve(import.meta.dirname, '../../examples/demo/repo')

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'polar-fixes-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What the demo's tests say after this fix. */
function graded({ command }: Fix): { readonly failed: number; readonly passed: number } {
  const place = mkdtempSync(join(folder, 'repo-'))
  cpSync(repo, place, { recursive: true })
  expect(spawnSync('bash', ['-c', command], { cwd: place, encoding: 'utf8' })).toMatchObject({ status: 0, stdout: '', stderr: '' })
  const { stdout } = spawnSync(process.execPath, ['test.js'], { cwd: place, encoding: 'utf8' })
  return { failed: stdout.split('FAILED').length - 1, passed: stdout.split('PASSED').length - 1 }
}

describe('the fixes that the scripted policy knows', () => {
  it.each(RIGHT)('pass all tests: $command', (fix) => {
    expect(graded(fix)).toEqual({ failed: 0, passed: 5 })
  })

  it.each(WRONG)('pass some tests, as a plausible mistake does: $command', (fix) => {
    const { failed, passed } = graded(fix)
    expect(failed).toBeGreaterThan(0)
    expect(passed).toBeGreaterThan(1)
  })

  it.each(BROKEN)('do not run: $command', (fix) => {
    expect(graded(fix)).toEqual({ failed: 0, passed: 0 })
  })
})
