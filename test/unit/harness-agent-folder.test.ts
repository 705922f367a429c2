import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { agentPackage, installedAgent } from '../../src/harness/agent-folder.ts'

const base = mkdtempSync(join(tmpdir(), 'polar-agents-'))
afterAll(() => rmSync(base, { recursive: true, force: true }))
const packages = join(base, 'packages')
const cache = join(base, 'cache')

function pin(version: string, lock: string): void {
  mkdirSync(join(packages, 'tool'), { recursive: true })
  writeFileSync(join(packages, 'tool', 'package.json'), JSON.stringify({ version }))
  writeFileSync(join(packages, 'tool', 'package-lock.json'), lock)
}

it('is installed only at the very version and lock file that are pinned', () => {
  pin('1.0.0', 'lock one')
  expect(installedAgent(packages, cache, 'tool')).toBeNull()
  const first = agentPackage(packages, cache, 'tool')
  mkdirSync(first?.folder ?? '', { recursive: true })
  expect(installedAgent(packages, cache, 'tool')).toEqual(first)
  pin('1.0.0', 'lock two')
  expect(installedAgent(packages, cache, 'tool')).toBeNull()
  pin('1.0.1', 'lock one')
  expect(installedAgent(packages, cache, 'tool')).toBeNull()
  pin('1.0.0', 'lock one')
  expect(installedAgent(packages, cache, 'tool')).toEqual(first)
})

it.each(['../tool', 'nothing', '', 'Tool'])('takes %j for no agent', (name) => {
  pin('1.0.0', 'lock')
  expect(agentPackage(packages, cache, name)).toBeNull()
})
