import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { loadCustomHarness } from '../../src/harness/custom.ts'
import type { Harness } from '../../src/harness/harness.ts'
import { agentOf, contextOf } from '../lib/harness-context.ts'

const folder = mkdtempSync(join(tmpdir(), 'polar-custom-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let modules = 0
async function harnessWith(part: string): Promise<Harness> {
  modules += 1
  const path = join(folder, `${modules}.mjs`)
  writeFileSync(path, `export const harness = { dialect: 'any', check() {}, plan() {}, verdict() {}, ${part} }`)
  return loadCustomHarness('mine', path)
}

const PLAN = `{ files: [{ path: '/f', content: 'x' }], setup: [], run: { command: 'x', env: {}, label: 'agent' } }`
const planOf = async (answer: string) => (await harnessWith(`plan: () => (${answer})`)).plan(contextOf({ harness: 'mine' }))
const verdictOf = async (answer: string) =>
  (await harnessWith(`verdict: () => (${answer})`)).verdict({ exitCode: 0, stdoutTail: '', stderrTail: '' })
const checkOf = async (answer: string) => (await harnessWith(`check: () => (${answer})`)).check(agentOf({ harness: 'mine' }))

describe('what an operator’s module answers', () => {
  it('is taken as it is when it has the shape, without what has none', async () => {
    expect(await planOf(`{ ok: true, plan: { ...${PLAN}, logs: ['/l'], more: () => 1 } }`)).toEqual({
      ok: true,
      plan: { files: [{ path: '/f', content: 'x' }], setup: [], run: { command: 'x', env: {}, label: 'agent' }, logs: ['/l'] },
    })
    expect(await planOf(`{ ok: false, error: 'not today' }`)).toEqual({ ok: false, error: 'not today' })
    expect(await verdictOf(`{ failed: true, reason: 'bad' }`)).toEqual({ failed: true, reason: 'bad' })
    expect([await checkOf('null'), await checkOf(`'no'`)]).toEqual([null, 'no'])
  })

  it('may use the rest of its module', async () => {
    const harness = await harnessWith(`word: 'mine', check() { return this.word }`)
    expect(harness.check(agentOf({ harness: 'mine' }))).toBe('mine')
  })

  const thrown = `(() => { throw new Error('broken') })()`
  it.each<[string, string, string]>([
    ['an exception', thrown, 'broken'],
    ['nothing', 'undefined', 'its answer: '],
    ['a promise', 'Promise.resolve(null)', 'its answer'],
    [
      'a variable that is no text',
      `{ ok: true, plan: { ...${PLAN}, run: { command: 'x', env: { A: 1 }, label: 'a' } } }`,
      'plan.run.env.A',
    ],
    ['a relative log', `{ ok: true, plan: { ...${PLAN}, logs: ['l'] } }`, 'plan.logs.0: must be an absolute path'],
    ['a failure without a reason', '{ failed: true }', 'its answer'],
  ])('is a problem of its own when it is %s', async (_name, answer, words) => {
    expect(await planOf(answer)).toMatchObject({ ok: false, error: expect.stringContaining("harness 'mine' made no plan: ") })
    expect(await planOf(answer)).toMatchObject({ error: expect.stringContaining(answer.includes('failed') ? 'its answer' : words) })
    expect(await checkOf(answer)).toContain(answer === 'undefined' ? "harness 'mine'" : "harness 'mine' could not check the agent: ")
    expect(await verdictOf(answer)).toEqual({
      failed: true,
      reason: expect.stringContaining("harness 'mine' could not judge its agent: "),
    })
  })
})
