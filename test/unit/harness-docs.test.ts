import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { loadHarnesses } from '../../src/harness/registry.ts'

const root = join(import.meta.dirname, '../..')
const documented = readFileSync(join(root, 'docs/harnesses.md'), 'utf8')

it('names every built-in harness, and each CLI at the version that is pinned', async () => {
  for (const name of (await loadHarnesses({})).names) {
    if (name === 'shell') {
      expect(documented).toContain('| `shell` |')
      continue
    }
    const { version } = JSON.parse(readFileSync(join(root, 'agents', name.replaceAll('_', '-'), 'package.json'), 'utf8'))
    expect(documented).toContain(`| \`${name}\` | ${version} |`)
  }
})
