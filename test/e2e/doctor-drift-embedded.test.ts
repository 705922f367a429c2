import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { DriftReport } from '../../src/doctor/drift-report.ts'
import { runPolar } from '../lib/polar-process.ts'
import { type TinyModel, writeTinyModel } from '../lib/tiny-model.ts'

/** Four turns of one conversation, in which every answer is returned as it came. */
const AGENT = `
const messages = [{ role: 'user', content: 'hello' }]
for (let turn = 0; turn < 4; turn += 1) {
  const reply = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY },
    body: JSON.stringify({ model: 'm', max_tokens: 24, messages }),
  })
  if (!reply.ok) throw new Error(await reply.text())
  messages.push((await reply.json()).choices[0].message, { role: 'user', content: 'go on' })
}
`

let model: TinyModel
beforeAll(() => {
  model = writeTinyModel()
  const { folder, path } = model
  writeFileSync(join(folder, 'agent.mjs'), AGENT)
  writeFileSync(join(folder, 'polar.yaml'), JSON.stringify({ polar_node: { embedded: { model: path } } }))
  const agent = { harness: 'shell', custom_shell: { command: `exec node ${folder}/agent.mjs` }, settings: { sampling_seed: 7 } }
  writeFileSync(join(folder, 'tasks.json'), JSON.stringify([{ task_id: 'free', instruction: 'go', agent }]))
})
afterAll(() => model.remove())

it('shows how a model that is sampled freely spells the same text by other tokens', async () => {
  const { folder, name } = model
  const { code, stdout, stderr } = await runPolar(
    ...['doctor', 'drift', '--config', join(folder, 'polar.yaml'), '--tasks', join(folder, 'tasks.json'), '--json'],
  )
  expect([code, stderr]).toEqual([1, expect.stringContaining('1/1  shell free: completed')])
  const report: DriftReport = JSON.parse(stdout)
  expect(report).toMatchObject({
    engine: { kind: 'embedded', model: name },
    notes: [],
    harnesses: [{ harness: 'shell', sessions: 1, calls: 4 }],
  })
  const [harness] = report.harnesses
  const splits = harness!.forks.filter((fork) => fork.splits_row)
  expect(splits.length).toBeGreaterThan(0)
  for (const { example } of splits) {
    const { start, common, earlier, later } = example.window!
    expect(start + common.ids.length, 'both sides begin where the prompts part').toBe(example.index)
    expect(common.ids.length).toBeGreaterThan(0)
    expect(earlier.ids[0]).not.toBe(later.ids[0])
    expect([common.text, earlier.text, later.text]).not.toContain(null)
    // The texts go on alike as far as both windows reach; what differs is the tokens.
    const length = Math.min(earlier.text!.length, later.text!.length)
    expect(earlier.text!.slice(0, length)).toBe(later.text!.slice(0, length))
  }
}, 120_000)
