import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { loadHarnesses } from '../../src/harness/registry.ts'
import { agentOf } from '../lib/harness-context.ts'

const root = join(import.meta.dirname, '../..')
const documented = readFileSync(join(root, 'docs/harnesses.md'), 'utf8')
const harnesses = await loadHarnesses({})

it('names every built-in harness, and each CLI at the version that is pinned', () => {
  for (const name of harnesses.names) {
    if (name === 'shell') {
      expect(documented).toContain('| `shell` |')
      continue
    }
    const { version } = JSON.parse(readFileSync(join(root, 'agents', name.replaceAll('_', '-'), 'package.json'), 'utf8'))
    expect(documented).toContain(`| \`${name}\` | ${version} |`)
  }
})

it.each(harnesses.names.filter((name) => name !== 'shell'))('tells every setting of %s', (harness) => {
  const refused = harnesses.check(agentOf({ harness, settings: { 'no setting': 1 } })) ?? ''
  const settings = /there are (.*)$/.exec(refused)?.[1]?.split(', ') ?? []
  expect(settings).toContain('install')
  // Its own stand in its own table, after its name; what all share stands before those.
  const [, own = ''] = documented.split(`\n\`${harness}\`\n`)
  const [table = ''] = own.split('\n\n').filter((part) => part.trim() !== '')
  const shared = documented.slice(0, documented.indexOf('## Settings'))
  expect(settings.filter((name) => !table.includes(`\`${name}\``) && !shared.includes(`\`${name}\``))).toEqual([])
})

it('points at files that are there', () => {
  const paths = [...documented.matchAll(/\]\((?!http|#)([^)#]+)/g)].map(([, path = '']) => path)
  expect(paths.length).toBeGreaterThan(2)
  expect(paths.filter((path) => !existsSync(join(root, 'docs', path)))).toEqual([])
})
