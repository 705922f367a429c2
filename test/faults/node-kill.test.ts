// A node that is killed outright, and who comes after it.
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runPolar } from '../lib/polar-process.ts'
import { openWorkplace, type Workplace } from '../lib/working-node.ts'

let work: Workplace
beforeEach(async () => {
  work = await openWorkplace()
})
afterEach(() => work.close())

describe('a node that was killed while sessions ran', () => {
  it('leaves agents, which its successor stops before it starts any of its own', async () => {
    const first = await work.start()
    await work.submit(first, 't', 2)
    await work.working(2)
    await first.stop('SIGKILL')
    const left = work.processes()
    expect(left.map(({ command }) => command).filter((command) => command.includes('agent.mjs'))).not.toEqual([])
    expect(work.sandboxes()).toHaveLength(2)
    const second = await work.start()
    expect(work.sandboxes()).toEqual([])
    expect(work.processes().map(({ pid }) => pid)).toEqual([second.child.pid])

    work.openGate()
    await work.submit(second, 'again', 1)
    await work.working(3)
    expect(await second.stop()).toBe(0)
    expect(work.callbacks.map(({ task_id, status }) => [task_id, status])).toEqual([['again', 'completed']])
    expect(work.processes()).toEqual([])
  })
})

describe('a second node on the same data folder', () => {
  it('is refused, with the first one’s pid, and does the first one’s sessions no harm', async () => {
    const first = await work.start()
    await work.submit(first, 't', 1)
    await work.working(1)
    const config = join(work.folder, 'second.yaml')
    writeFileSync(config, JSON.stringify({ rollout: { port: 0 }, gateway: { nodes: [{ port: 0 }] }, polar_node: { data_dir: 'data' } }))
    const { code, stderr } = await runPolar('serve', '--config', config)
    expect(stderr).toBe(
      `polar: the data folder ${work.data} is in use by process ${first.child.pid}: stop that node first, or set polar_node.data_dir to another folder\n`,
    )
    expect(code).toBe(1)
    expect(readdirSync(work.data).filter((name) => name.startsWith('lock'))).toEqual([expect.stringMatching(`^lock-${first.child.pid}-`)])
    work.openGate()
    expect(await first.stop()).toBe(0)
    expect(work.callbacks.map(({ status }) => status)).toEqual(['completed'])
  })
})
