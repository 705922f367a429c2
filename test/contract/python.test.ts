// Trainers are Python: a client of the standard library and one of httpx, each told no more than http://polar:TOKEN@host:port.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ContractNode, openContractNode } from './contract-node.ts'

/** Debian's own, for which Debian's packages are. */
const PYTHON = '/usr/bin/python3'

type Answer = {
  readonly error?: number
  readonly submitted: unknown
  readonly status: string
  readonly keys: readonly string[]
  readonly by_callback: boolean
  readonly same: boolean
  readonly samples: readonly {
    readonly tokens: readonly number[]
    readonly loss_mask: readonly number[]
    readonly response_length: number
    readonly rollout_log_probs: readonly number[]
  }[]
}

let node: ContractNode

beforeAll(async () => {
  node = await openContractNode({ nodes: [{ id: 'g', max_init_workers: 4, max_run_workers: 4 }] })
})
afterAll(() => node?.close())

/** Rejects when there is no such Python, or when the client ends otherwise than well. */
async function ask(client: string, address: string, job: unknown): Promise<Answer> {
  const child = spawn(PYTHON, ['-B', join(import.meta.dirname, 'python', client), address], { stdio: ['pipe', 'pipe', 'pipe'] })
  let [printed, complaints] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text
  })
  child.stdin.on('error', () => undefined).end(JSON.stringify(job))
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`${client} ended with ${code}: ${complaints}`)
  return JSON.parse(printed) as Answer // what the client prints
}

describe.each(['polar_client.py', 'polar_client_httpx.py'])('%s', (client) => {
  const id = (name: string): string => `${client.replaceAll(/\W/g, '-')}-${name}`

  it.each<readonly [string, boolean, readonly string[]]>([
    ['callback', true, ['result_paths', 'results', 'status', 'task_id']],
    ['poll', false, ['completed_sessions', 'result_paths', 'results', 'status', 'task_id', 'total_sessions']],
  ])('submits, waits by %s, and reads samples as Slime has them', async (wait, byCallback, keys) => {
    const metadata = { group_id: 'g-1', policy_version: 4, rollout_step: 2 }
    const task = node.task(id(wait), { calls: 2, keys: { num_samples: 2, builder: { strategy: 'per_request' }, metadata } })
    const answer = await ask(client, node.address, { task, wait })
    expect(answer).toMatchObject({
      submitted: { task_id: id(wait), status: 'running' },
      status: 'completed',
      keys,
      by_callback: byCallback,
      same: true,
    })
    expect(answer.samples).toMatchObject(
      [0, 0, 1, 1].map((index) => ({
        index,
        reward: { score: 1 },
        status: 'COMPLETED',
        remove_sample: false,
        prompt: [{ role: 'user' }],
        response: expect.stringMatching(/\w/),
        metadata: { polar: { task_id: id(wait), node_id: 'g', session_status: 'COMPLETED', ...metadata, timing: expect.any(Object) } },
      })),
    )
    for (const sample of answer.samples) {
      expect(sample.loss_mask).toContain(1)
      expect(sample.loss_mask.length).toBe(sample.response_length)
      expect(sample.rollout_log_probs.length).toBe(sample.response_length)
      expect(sample.tokens.length).toBeGreaterThan(sample.response_length)
    }
  })

  it('hears of a task that it cancelled', async () => {
    const answer = await ask(client, node.address, { task: node.task(id('cancel'), { gate: 'never' }), wait: 'callback', cancel: true })
    expect(answer).toMatchObject({ status: 'cancelled', by_callback: true, samples: [{ remove_sample: true, status: 'ABORTED' }] })
  })

  it('is refused with another token', async () => {
    const address = node.address.replace(encodeURIComponent(node.serving.token), 'another')
    expect(await ask(client, address, { task: node.task(id('refused')), wait: 'poll' })).toMatchObject({ error: 401 })
  })
})
