// What Polar's Slime bridge reads from this node's results: for each way a session can end, what is trained, at which reward, and what is not.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type ContractNode, openContractNode, WAIT, type Work } from './contract-node.ts'
import type { SessionResultBody, TaskResultBody, TraceBody } from './schemas.ts'
import { LogprobError, readSession, readTask, type Sample } from './slime-bridge.ts'

const ROOM = { maxTokens: 100_000 }

let node: ContractNode

beforeAll(async () => {
  node = await openContractNode({ nodes: [{ id: 'g', max_init_workers: 8, max_run_workers: 8 }], maxModelLen: 2_000 })
})
afterAll(() => node?.close())

async function run(id: string, work: Work): Promise<TaskResultBody> {
  await node.client.submit(node.task(id, work))
  return node.finished(id)
}

const sum = (bits: readonly number[]): number => bits.reduce((total, bit) => total + bit, 0)
/** Tokens that this node lets train, and that the bridge trains. */
const trainedBy = ({ trajectory }: SessionResultBody): number => sum(trajectory.traces.flatMap(({ loss_mask }) => loss_mask))
const trainedOf = (samples: readonly Sample[]): number => sum(samples.flatMap(({ lossMask }) => lossMask))

describe('on the results of this node', () => {
  type Ending = {
    readonly ends: string
    readonly work: Work
    readonly status: SessionResultBody['status']
    readonly sample: Partial<Sample>
    readonly isTrained: boolean
  }
  const noEvaluator = { evaluator: null }
  const fails = { strategy: 'test_on_output', config: { test_command: 'true', expected_output_json: '{}', repo_dir: '/nowhere/at/all' } }
  // What an agent does within its time takes a busy machine a while, and all of them wait at once.
  it.concurrent.each<Ending>([
    { ends: 'completed', work: {}, status: 'COMPLETED', sample: { status: 'COMPLETED', reward: 1 }, isTrained: true },
    { ends: 'agent_error', work: { exitCode: 3 }, status: 'COMPLETED', sample: { status: 'COMPLETED', reward: 0 }, isTrained: true },
    {
      ends: 'agent_timeout by metadata.agent_timeout',
      work: { gate: 'never', keys: { timeout_seconds: 600, metadata: { agent_timeout: 15 } } },
      status: 'TIMEOUT',
      sample: { status: 'TRUNCATED', reward: 0 },
      isTrained: true,
    },
    {
      ends: 'agent_timeout by timeout_seconds, when the task names no other',
      work: { gate: 'never', keys: { timeout_seconds: 15 } },
      status: 'TIMEOUT',
      sample: { status: 'TRUNCATED', reward: 0 },
      isTrained: true,
    },
    {
      ends: 'context_exhausted: no room for the next turn',
      work: { calls: 2, lastWords: 6_000 },
      status: 'TIMEOUT',
      sample: { status: 'TRUNCATED', reward: 0 },
      isTrained: true,
    },
    {
      ends: 'init_error',
      work: { keys: { runtime: { backend: 'local', prepare: [{ type: 'exec', command: 'exit 1' }] } } },
      status: 'ERROR',
      sample: { status: 'ABORTED', reward: 0, removeSample: true },
      isTrained: false,
    },
    {
      ends: 'harness_error: no model call',
      work: { calls: 0, exitCode: 1 },
      status: 'ERROR',
      sample: { status: 'ABORTED', reward: 0, removeSample: true },
      isTrained: false,
    },
    {
      ends: 'evaluator_error',
      work: { keys: { evaluator: fails } },
      status: 'ERROR',
      sample: { status: 'ABORTED', reward: 0, removeSample: true },
      isTrained: false,
    },
  ])('$ends', async ({ ends, work, status, sample, isTrained }) => {
    const task = await run(ends.replaceAll(/[^a-z_]+/g, '-'), work)
    const [result] = task.results
    expect(result?.status).toBe(status)
    expect(readTask(task, ROOM)).toMatchObject([sample])
    expect(task.results.map(trainedBy)[0] ?? 0).toBe(trainedOf(readTask(task, ROOM)))
    expect(trainedOf(readTask(task, ROOM)) > 0).toBe(isTrained)
  })

  it.concurrent('not graded: the reward is null, which the adapter maps with the mask', async () => {
    const task = await run('ungraded', { keys: noEvaluator })
    expect(task.results[0]?.trajectory.traces.map(({ reward }) => reward)).toEqual([null])
    expect(readTask(task, ROOM)).toMatchObject([{ reward: 0, status: 'ABORTED', removeSample: true, lossMask: [0] }])
  })

  it.concurrent('not graded and out of its own time: reward 0 and trained, as the bridge has it for every agent timeout', async () => {
    const task = await run('ungraded-timeout', { gate: 'never', keys: { ...noEvaluator, metadata: { agent_timeout: 15 } } })
    expect(readTask(task, ROOM)).toMatchObject([{ reward: 0, status: 'TRUNCATED', removeSample: false }])
  })

  it('cancelled: placeholders only', async () => {
    await node.client.submit(node.task('cancelled', { gate: 'never', keys: { num_samples: 3 } }))
    await vi.waitUntil(async () => (await node.client.sessions('cancelled')).every(({ status }) => status === 'RUNNING'), WAIT)
    await node.client.cancel('cancelled')
    const task = await node.finished('cancelled')
    expect(readTask(task, ROOM)).toMatchObject(Array(3).fill({ status: 'ABORTED', removeSample: true }))
    expect(sum(task.results.map(trainedBy))).toBe(0)
  })

  it('stopped early: those that finished train, the others do not, and the group is whole', async () => {
    const command = `test -n "$OPENAI_API_KEY" && mkdir '${node.file('first')}' 2>/dev/null && exec ${shellOf(node)}; exec ${shellOf(node, { gate: 'never' })}`
    const agent = { harness: 'shell', custom_shell: { command } }
    const task = await run('early', { keys: { num_samples: 4, early_stop_min_usable_sessions: 1, agent } })
    expect(task.results.length).toBe(4)
    const samples = readTask(task, ROOM)
    expect(samples.filter(({ removeSample }) => !removeSample)).toMatchObject([{ status: 'COMPLETED', reward: 1 }])
    expect(task.results.map(trainedBy)).toEqual(samples.map(({ lossMask }) => sum(lossMask)))
  })

  it('a whole group: every trace of a session shares its index, and trains exactly the tokens that this node lets train', async () => {
    const keys = { num_samples: 4, builder: { strategy: 'per_request' }, metadata: { group_id: 'g-1', policy_version: 7 } }
    const task = await run('group', { calls: 3, keys })
    const samples = readTask(task, ROOM)
    expect(samples.map(({ index }) => index)).toEqual([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    for (const sample of samples) {
      expect(sample).toMatchObject({ status: 'COMPLETED', reward: 1, removeSample: false })
      expect(sample.lossMask.length).toBe(sample.responseLength)
      expect(sample.rolloutLogProbs.length).toBe(sample.responseLength)
      expect(sample.tokens.length).toBeGreaterThan(sample.responseLength)
    }
    task.results.forEach((result, index) => {
      expect(trainedOf(samples.filter((sample) => sample.index === index))).toBe(trainedBy(result))
      expect(result.trajectory.metadata).toMatchObject({ group_id: 'g-1', policy_version: 7 })
    })
  })
})

describe('on one trace', () => {
  const TRACE: TraceBody = {
    prompt_ids: [1, 2, 3],
    response_ids: [4, 5, 6, 7],
    loss_mask: [1, 0, 1, 1],
    prompt_messages: [],
    response_messages: [],
    tools: null,
    finish_reason: 'stop',
    response_logprobs: [-0.1, 0, -0.2, -0.3],
    reward: 0.5,
    metadata: {},
  }
  const session = (...traces: readonly TraceBody[]): SessionResultBody => ({
    ...{ session_id: 's', task_id: 't', status: 'COMPLETED', timing: {}, metadata: {} },
    trajectory: {
      ...{ status: 'COMPLETED', traces },
      metadata: {
        ...{ session_id: 's', task_id: 't', record_count: 1, trace_count: 1, task_metadata: {} },
        agent_result: { status: 'completed', return_code: 0 },
      },
    },
  })
  const KEPT = { tokens: [1, 2, 3, 4, 5, 6, 7], lossMask: [1, 0, 1, 1], reward: 0.5, status: 'COMPLETED' as const }
  const DROPPED = { tokens: [0, 0], lossMask: [0], reward: 0, status: 'ABORTED' as const, removeSample: true }

  it.each<readonly [string, Partial<TraceBody>, number, Partial<Sample>]>([
    ['as it is', {}, 100, KEPT],
    ['that ended at its length, truncated and trained', { finish_reason: 'length' }, 100, { ...KEPT, status: 'TRUNCATED' }],
    ['without a prompt, dropped', { prompt_ids: [] }, 100, DROPPED],
    ['without a response, dropped', { response_ids: [], loss_mask: [], response_logprobs: [] }, 100, DROPPED],
    ['of which nothing may train, dropped', { loss_mask: [0, 0, 0, 0] }, 100, DROPPED],
    ['with more tokens than fit: the prompt and the beginning', {}, 5, { tokens: [1, 2, 3, 4, 5], lossMask: [1, 0], status: 'TRUNCATED' }],
    ['whose prompt alone does not fit, dropped', {}, 3, DROPPED],
  ])('%s', (_what, keys, maxTokens, sample) => {
    expect(readSession(session({ ...TRACE, ...keys }), 0, { maxTokens })).toMatchObject([sample])
  })

  it.each<readonly [string, TraceBody['response_logprobs']]>([
    ['no logprobs', null],
    ['one logprob fewer than tokens', [-0.1, 0, -0.2]],
  ])('that trains with %s raises, and only its session becomes a placeholder', (_what, logprobs) => {
    const spoilt = session({ ...TRACE, response_logprobs: logprobs })
    expect(() => readSession(spoilt, 0, ROOM)).toThrow(LogprobError)
    const task: TaskResultBody = { task_id: 't', status: 'completed', results: [session(TRACE), spoilt, session(TRACE)], result_paths: [] }
    expect(readTask(task, ROOM)).toMatchObject([KEPT, DROPPED, KEPT])
  })

  it('beside a dropped one stays, without a placeholder', () => {
    expect(readSession(session({ ...TRACE, prompt_ids: [] }, TRACE), 0, ROOM)).toMatchObject([KEPT])
  })
})

function shellOf(target: ContractNode, work: Work = {}): string {
  const { agent } = target.task('any', work) as { readonly agent: { readonly custom_shell: { readonly command: string } } } // as the fixture made it
  return agent.custom_shell.command.replace(/^exec /, '')
}
