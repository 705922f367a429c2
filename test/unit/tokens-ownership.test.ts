// Shared memory has one home: whoever else touches it could hold a view past its lease.
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('../../src/', import.meta.url))

it('says SharedArrayBuffer nowhere in src but in tokens', () => {
  const sources = globSync('**/*.{ts,js,mjs}', { cwd: root })
  const saying = sources.filter((file) => /SharedArrayBuffer/.test(readFileSync(`${root}${file}`, 'utf8')))
  expect(saying.filter((file) => !file.startsWith('tokens/'))).toEqual([])
  expect(saying).toContain('tokens/slab.ts')
})
