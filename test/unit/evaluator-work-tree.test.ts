import { describe, expect, it } from 'vitest'
import { pathMatcher } from '../../src/evaluators/path-pattern.ts'
import { parseListing, readablePath, selectChanges, type TreeListing } from '../../src/evaluators/work-tree.ts'

const tree = (files: Record<string, string>): TreeListing =>
  new Map(
    Object.entries(files).map(([path, content]) => {
      const [oid = '', mode = '100644'] = content.split(' ')
      return [path, { mode, oid }]
    }),
  )

describe('path patterns', () => {
  it.each<[string, string, boolean]>([
    ['*.pyc', 'a/b/c.pyc', true],
    ['*.pyc', 'a/.c.pyc', true],
    ['*.pyc', 'a/c.pyd', false],
    ['__pycache__', 'a/__pycache__/x', true],
    ['__pycache__', 'my__pycache__/x', false],
    ['.claude/', '.claude/settings.json', true],
    ['.claude/', 'src/.claude/settings.json', true],
    ['/build', 'build/x', true],
    ['/build', 'src/build/x', false],
    ['docs/*.md', 'docs/a.md', true],
    ['docs/*.md', 'docs/a/b.md', false],
    ['docs/**/b.md', 'docs/b.md', true],
    ['docs/**/b.md', 'docs/x/y/b.md', true],
    ['**/conftest.py', 'conftest.py', true],
    ['src/**', 'src/a/b', true],
    ['file?.txt', 'file1.txt', true],
    ['file[0-3].txt', 'file2.txt', true],
    ['file[!0-3].txt', 'file2.txt', false],
    ['a+b(c).txt', 'a+b(c).txt', true],
    ['a.c', 'abc', false],
  ])('%s on %s: %s', (pattern, path, expected) => {
    expect(pathMatcher([pattern])(path)).toBe(expected)
  })
})

describe('selecting what an agent changed', () => {
  const base = tree({ same: '1', changed: '2', mode: '3', gone: '4', type: '5' })

  it('keeps new, changed, deleted, re-moded and re-typed files', () => {
    const agent = tree({ same: '1', changed: '22', mode: '3 100755', type: '55 120000', added: '6' })
    const { kept, ...left } = selectChanges(base, agent, base, [])
    expect(kept.map((change) => [change.path, change.before?.oid ?? null, change.after?.oid ?? null])).toEqual([
      ['added', null, '6'],
      ['changed', '2', '22'],
      ['gone', '4', null],
      ['mode', '3', '3'],
      ['type', '5', '55'],
    ])
    expect(left).toEqual({ excluded: [], shadowed: [], nested: [] })
  })

  it.each<[string, Record<string, string>, Record<string, string>, 'kept' | 'shadowed' | null]>([
    ['a file that preparation made, untouched', { new: '7' }, { new: '7' }, null],
    ['a file that preparation made, changed by the agent', { new: '77' }, { new: '7' }, 'shadowed'],
    ['a file of the base that only the fresh sandbox has changed', { same: '1' }, { same: '11' }, null],
    ['a file of the base that both have changed', { same: '12' }, { same: '11' }, 'shadowed'],
    ['a file of the base that both have changed alike', { same: '11' }, { same: '11' }, null],
    ['a new file of the grader alone', {}, { hidden: '9' }, null],
    ['a new file of the agent alone', { mine: '8' }, {}, 'kept'],
  ])('lets the grader’s own files win: %s', (_name, agentFiles, freshFiles, where) => {
    const start = { same: '1' }
    const selection = selectChanges(tree(start), tree({ ...start, ...agentFiles }), tree({ ...start, ...freshFiles }), [])
    const found = { kept: selection.kept.length, shadowed: selection.shadowed.length }
    expect(found).toEqual({ kept: where === 'kept' ? 1 : 0, shadowed: where === 'shadowed' ? 1 : 0 })
  })

  it('leaves out patterns, caches and nested repositories, and says so', () => {
    const agent = tree({ 'tests/t.py': '9', 'a/__pycache__/t.pyc': '9', '.pytest_cache/v': '9', sub: '9 160000', 'ä b.py': '9' })
    const latin1 = new Map([...agent].map(([path, entry]) => [Buffer.from(path).toString('latin1'), entry]))
    const { kept, excluded, nested } = selectChanges(new Map(), latin1, new Map(), ['tests/', 'ä*'])
    expect(kept).toEqual([])
    expect(excluded.map(readablePath)).toEqual(['.pytest_cache/v', 'a/__pycache__/t.pyc', 'tests/t.py', 'ä b.py'])
    expect(nested).toEqual(['sub'])
  })
})

it('reads names with blanks, newlines and bytes that are no text', () => {
  const bytes = Buffer.concat([
    Buffer.from(`100644 ${'a'.repeat(40)} 0\ta b\nc\u0000120000 ${'b'.repeat(40)} 0\t`),
    Buffer.from([0xff, 0xe9]),
    Buffer.from('\0'),
  ])
  expect([...parseListing(bytes)]).toEqual([
    ['a b\nc', { mode: '100644', oid: 'a'.repeat(40) }],
    ['\u00ff\u00e9', { mode: '120000', oid: 'b'.repeat(40) }],
  ])
})
