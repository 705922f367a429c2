import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Finished, runToEnd } from '../lib/polar-process.ts'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'polar-bench-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const bench = (...args: readonly string[]): Promise<Finished> => runToEnd(process.execPath, ['bench/run.ts', ...args])

describe('bench', () => {
  it.each([
    ['no suite', [], /name a suite/],
    ['an unknown suite', ['macro'], /there is no suite 'macro'/],
    ['a name that every object has', ['toString'], /there is no suite 'toString'/],
    ['an argument too many', ['micro', 'more'], /unknown argument 'more'/],
    ['an unknown option', ['micro', '--fast'], /--fast/],
    ['an option without its value', ['micro', '--json'], /--json/],
  ] as const)('measures nothing with %s, and says what there is', async (_, args, words) => {
    const { code, stdout, stderr } = await bench(...args)
    expect(stderr).toMatch(words)
    expect(stderr).toContain('usage: npm run bench -- micro')
    expect([code, stdout]).toEqual([2, ''])
  })

  it('prints the benches it was asked for, and writes the same to a file', async () => {
    const file = join(folder, 'results.json')
    const { code, stdout, stderr } = await bench('micro', '--only', 'mailbox: reserve', '--json', file)
    expect([stderr, code]).toEqual(['', 0])
    expect(stdout).toMatch(/32 messages through a queue\n {2}mailbox: reserve, put, take +[\d.]+ [nµm]s/)
    const { rows } = JSON.parse(readFileSync(file, 'utf8'))
    expect(rows).toEqual([
      {
        group: '32 messages through a queue',
        bench: 'mailbox: reserve, put, take',
        avgNs: expect.any(Number),
        p50Ns: expect.any(Number),
        p99Ns: expect.any(Number),
        heapBytes: expect.any(Number),
      },
    ])
  })

  it('fails when no bench has such a name', async () => {
    const { code, stderr } = await bench('micro', '--only', '.*')
    expect([code, stderr]).toEqual([1, "bench: no bench's name contains '.*'\n"])
  })
})
