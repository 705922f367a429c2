import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { readinessOf } from '../../src/doctor/engine-readiness.ts'
import { temporary } from '../../src/doctor/temporary-node.ts'

type Replica = Parameters<typeof readinessOf>[0][number]['replicas'][number]

const replica = (changes: Partial<Replica> = {}): Replica => ({
  role: 'worker',
  url: 'http://gpu:8000',
  state: 'up',
  tier: 'train',
  detail: null,
  logprob_mode: 'raw',
  max_model_len: 4096,
  ...changes,
})
const down = replica({ state: 'down', tier: 'unknown', detail: 'ECONNREFUSED' })

describe('engines', () => {
  it.each<[string, readonly Replica[], string, string]>([
    ['one that trains', [replica()], 'ready', 'http://gpu:8000'],
    ['one that trains beside one that is down', [down, replica({ url: 'http://other' })], 'ready', 'http://other'],
    ['one that is not probed yet', [replica({ state: 'unprobed', tier: 'unknown' })], 'waiting', 'is unprobed'],
    ['one that trains beside one that is not probed yet', [replica(), replica({ state: 'unprobed' })], 'waiting', 'is unprobed'],
    ['a router without workers', [replica({ role: 'router', tier: 'unknown' })], 'waiting', 'no engine yet'],
    ['none', [], 'waiting', 'no engine yet'],
    ['one that is down', [down], 'unfit', 'no engine can be reached: http://gpu:8000: ECONNREFUSED'],
    [
      'one without ids',
      [replica(), replica({ tier: 'eval', detail: 'ids-missing: token_ids' })],
      'unfit',
      'the engine at http://gpu:8000 does not give what training needs, token ids and logprobs: ids-missing: token_ids',
    ],
  ])('%s', (_, replicas, type, words) => {
    const readiness = readinessOf([{ replicas: [...replicas] }])
    expect(readiness.type).toBe(type)
    expect(JSON.stringify(readiness)).toContain(words)
  })
})

it('takes engines and profiles of the configuration, and nothing that is the user’s node’s own', () => {
  const node = (id: string, port: number) => ({
    id,
    host: '0.0.0.0',
    port,
    public_url: 'http://here',
    inference: { base_url: `http://${id}:8000` },
  })
  const file = {
    rollout: { host: '0.0.0.0', port: 8080, public_url: 'http://there' },
    gateway: { nodes: [node('a', 9001), node('b', 9002)] },
    polar_node: { data_dir: '/precious', upload_roots: ['/repos'], max_attempts: 3, models: { m: { thinking: true } } },
  }
  const parsed = parseConfig(JSON.stringify(file), null, '/')
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const config = temporary(parsed.config, '/tmp/x', { model: 'm', uploadRoots: ['/tasks'] })
  expect(config.models).toEqual(parsed.config.models)
  expect(config.nodes.map(({ replicas }) => replicas)).toEqual(parsed.config.nodes.map(({ replicas }) => replicas))
  expect(JSON.stringify(config)).not.toMatch(/precious|0\.0\.0\.0|http:\/\/t?here|900\d|8080/)
  expect(config.nodes.map(({ port, modelServed }) => [port, modelServed])).toEqual([
    [0, 'm'],
    [0, 'm'],
  ])
  expect(config.uploadRoots).toEqual(['/repos', '/tasks'])
  expect(config.maxAttempts).toBe(1)
  expect(temporary(parsed.config, '/tmp/x', { model: null, uploadRoots: [] }).nodes[0]?.modelServed).toBe(
    parsed.config.nodes[0]?.modelServed,
  )
})
