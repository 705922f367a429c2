// Polar's promises to a trainer about tasks: submit, read, cancel, tombstones, early stop, lists and callbacks.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type ContractNode, openContractNode, openTrainer, type Trainer, WAIT } from './contract-node.ts'
import { TASK_STATUSES, TERMINAL_STATUSES } from './schemas.ts'

let node: ContractNode
let trainer: Trainer

beforeAll(async () => {
  node = await openContractNode({ nodes: [{ id: 'g', max_init_workers: 4, max_run_workers: 4, default_runtime: { backend: 'local' } }] })
  trainer = await openTrainer()
})
afterAll(async () => {
  await node?.close()
  await trainer?.close()
})

const refusal = (status: number) => expect.objectContaining({ status })

describe('submit', () => {
  it('answers at once with status running', async () => {
    const submitted = await node.client.submit(node.task('at-once', { gate: 'at-once' }))
    expect(submitted).toEqual({ task_id: 'at-once', status: 'running' })
    expect(await node.client.task('at-once')).toMatchObject({ status: 'running', results: [], total_sessions: 1, completed_sessions: 0 })
    node.openGate('at-once')
    expect((await node.finished('at-once')).status).toBe('completed')
  })

  it('answers the same task for the same body, while it runs and after it has ended', async () => {
    const task = node.task('twice', { gate: 'twice' })
    await node.client.submit(task)
    expect(await node.client.submit(task)).toEqual({ task_id: 'twice', status: 'running' })
    node.openGate('twice')
    const first = await node.finished('twice')
    expect(await node.client.submit(task)).toEqual({ task_id: 'twice', status: 'completed' })
    expect(await node.client.task('twice')).toEqual(first)
  })

  it('answers 409 to another body under a known id, while it runs and after it has ended', async () => {
    await node.client.submit(node.task('other-body', { gate: 'other-body' }))
    const other = node.task('other-body', { keys: { instruction: 'say something else' } })
    await expect(node.client.submit(other)).rejects.toEqual(refusal(409))
    node.openGate('other-body')
    const first = await node.finished('other-body')
    await expect(node.client.submit(other)).rejects.toEqual(refusal(409))
    expect(await node.client.task('other-body')).toEqual(first)
  })

  it.each<readonly [string, Readonly<Record<string, unknown>>]>([
    ['in the task', { a_key_of_tomorrow: 1 }],
    ['in the agent', { agent: { harness: 'shell', custom_shell: { command: 'true' }, a_key_of_tomorrow: 1 } }],
    ['in the runtime', { runtime: { backend: 'local', a_key_of_tomorrow: 1 } }],
    ['in the builder', { builder: { strategy: 'per_request', a_key_of_tomorrow: 1 } }],
    ['in the evaluator', { evaluator: { strategy: 'session_completed', a_key_of_tomorrow: 1 } }],
  ])('ignores an unknown key %s', async (where, keys) => {
    const id = `unknown-key-${where.replaceAll(' ', '-')}`
    expect(await node.client.submit(node.task(id, { keys }))).toEqual({ task_id: id, status: 'running' })
    expect(TERMINAL_STATUSES).toContain((await node.finished(id)).results[0]?.status)
  })

  it.each([null, undefined])('runs a task whose runtime is %s in the default_runtime of its node', async (runtime) => {
    const id = `runtime-${runtime}`
    await node.client.submit(node.task(id, { keys: { runtime } }))
    expect(await node.finished(id)).toMatchObject({ status: 'completed', results: [{ status: 'COMPLETED' }] })
  })

  it.each([0, 100])('takes dispatch_priority %s', async (priority) => {
    await node.client.submit(node.task(`priority-${priority}`, { keys: { dispatch_priority: priority } }))
    expect(await node.finished(`priority-${priority}`)).toMatchObject({ status: 'completed' })
  })

  it.each<readonly [string, Readonly<Record<string, unknown>>]>([
    ['no task_id', { task_id: undefined }],
    ['a task_id that leads out of a folder', { task_id: '../../etc/passwd' }],
    ['a task_id that is no text', { task_id: 7 }],
    ['an empty task_id', { task_id: '' }],
    ['no instruction', { instruction: undefined }],
    ['no agent', { agent: undefined }],
    ['an agent of neither harness nor import_path', { agent: { custom_shell: { command: 'true' } } }],
    ['an agent of both harness and import_path', { agent: { harness: 'shell', import_path: 'a:B', custom_shell: { command: 'true' } } }],
    ['an unknown harness', { agent: { harness: 'no-such-harness' } }],
    ['a shell agent without its command', { agent: { harness: 'shell' } }],
    ['num_samples 0', { num_samples: 0 }],
    ['num_samples that is no whole number', { num_samples: 1.5 }],
    ['dispatch_priority below 0', { dispatch_priority: -1 }],
    ['dispatch_priority above 100', { dispatch_priority: 101 }],
    ['an early stop at 0 sessions', { early_stop_min_usable_sessions: 0 }],
    ['an early stop above num_samples', { num_samples: 2, early_stop_min_usable_sessions: 3 }],
    ['timeout_seconds 0', { timeout_seconds: 0 }],
    ['timeout_seconds as words', { timeout_seconds: 'ten' }],
    ['an agent_timeout of 0', { metadata: { agent_timeout: 0 } }],
    ['an agent_timeout that is a bool', { metadata: { agent_timeout: true } }],
    ['an agent_timeout that is text', { metadata: { agent_timeout: '10' } }],
    ['an unknown evaluator', { evaluator: { strategy: 'no_such_strategy' } }],
    ['a module as evaluator', { evaluator: { strategy: 'os:System' } }],
    ['an unknown builder', { builder: { strategy: 'no_such_builder' } }],
    ['an unknown runtime', { runtime: { backend: 'no-such-backend' } }],
    ['storage_mb, which no backend supports', { runtime: { backend: 'local', storage_mb: 10 } }],
    ['metadata that is a list', { metadata: [] }],
    ['a callback_url that is no URL', { callback_url: 'trainer' }],
  ])('answers 422 to %s', async (_what, keys) => {
    await expect(node.client.submit(node.task('never', { keys }))).rejects.toEqual(refusal(422))
    expect((await node.client.tasks()).map(({ task_id }) => task_id)).not.toContain('never')
  })

  it.each([
    ['a body that is no JSON', '{"task_id":'],
    ['a body that is a list', '[]'],
    ['no body', undefined],
  ])('answers 422 to %s', async (_what, body) => {
    await expect(node.client.submit(body)).rejects.toEqual(refusal(422))
  })

  it('says which field is wrong, as FastAPI does', async () => {
    await expect(node.client.submit(node.task('never', { keys: { num_samples: 0 } }))).rejects.toMatchObject({
      body: { detail: [{ loc: ['body', 'num_samples'] }] },
    })
  })

  it('takes a request with every default written out, as Pydantic dumps it', async () => {
    const { agent, ...task } = node.task('nulls') as { readonly agent: object } // as the fixture made it
    await node.client.submit({
      ...task,
      ...{ dispatch_priority: 0, early_stop_min_usable_sessions: null, evaluator: null, callback_url: null, metadata: {} },
      agent: { import_path: null, model_name: null, settings: {}, env: {}, mcp_servers: [], skills_path: null, ...agent },
      runtime: {
        ...{ backend: 'local', import_path: null, image: null, prepare: [], eval_prepare: null, env: {}, network: 'host', workdir: null },
        ...{ cpus: null, memory_mb: null, gpus: null, storage_mb: null, allow_internet: null, kwargs: {} },
      },
      builder: { strategy: 'per_request', config: {} },
    })
    const { results } = await node.finished('nulls')
    // Not graded: there was no evaluator.
    expect(results[0]?.trajectory.traces.map(({ reward }) => reward)).toEqual([null])
  })
})

describe('results', () => {
  it('hold as many sessions as num_samples, and copy the metadata into each', async () => {
    const metadata = { group_id: 'g-7', policy_version: 3, rollout_step: 11, row: { id: 'x' } }
    await node.client.submit(node.task('three', { keys: { num_samples: 3, metadata } }))
    const { results, ...status } = await node.finished('three')
    expect(status).toMatchObject({ task_id: 'three', status: 'completed', total_sessions: 3, completed_sessions: 3, result_paths: [] })
    expect(new Set(results.map(({ session_id }) => session_id)).size).toBe(3)
    for (const result of results) {
      expect(result).toMatchObject({ task_id: 'three', status: 'COMPLETED', node_id: 'g', metadata })
      expect(result.session_id).toMatch(/^sk-polar-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
      expect(result.trajectory).toMatchObject({
        status: 'COMPLETED',
        metadata: {
          builder: 'prefix_merging',
          session_id: result.session_id,
          task_id: 'three',
          task_metadata: metadata,
          group_id: 'g-7',
          policy_version: 3,
          rollout_step: 11,
          record_count: 1,
          trace_count: 1,
          agent_result: { status: 'completed', return_code: 0 },
          evaluation: { strategy: 'session_completed', outcome_reward: 1 },
          reconstruction_stats: {
            chains_total: 1,
            chains_reconstructed_full: 1,
            chains_reconstructed_truncated: 0,
            completions_total: 1,
            completions_merged: 1,
          },
        },
      })
      for (const trace of result.trajectory.traces) {
        expect(trace.reward).toBe(1)
        expect(trace.prompt_ids.length).toBeGreaterThan(0)
        expect(trace.loss_mask).toContain(1)
        expect(trace.response_logprobs).not.toBeNull()
      }
      expect(Object.keys(result.timing)).toEqual(expect.arrayContaining(['register_to_init_queue_ms', 'init_ms', 'run_ms', 'postrun_ms']))
    }
  })

  it('call the task completed when every session failed, as an agent that fails is a result', async () => {
    await node.client.submit(node.task('failing', { exitCode: 3, keys: { num_samples: 2 } }))
    const { status, results } = await node.finished('failing')
    expect(TASK_STATUSES).toContain(status)
    expect(results.map(({ trajectory }) => trajectory.metadata.agent_result)).toMatchObject([{ return_code: 3 }, { return_code: 3 }])
  })

  it('call the task failed when no session had a chance', async () => {
    const prepare = [{ type: 'exec', command: 'exit 9' }]
    await node.client.submit(node.task('hopeless', { keys: { runtime: { backend: 'local', prepare } } }))
    const { status, results } = await node.finished('hopeless')
    expect(status).toBe('failed')
    expect(results).toMatchObject([{ status: 'ERROR', error: expect.any(String), trajectory: { status: 'ERROR', traces: [] } }])
  })

  it('are sent to the callback URL as one TaskResult, the same that can be read', async () => {
    await node.client.submit(node.task('called-back', { keys: { num_samples: 2, callback_url: trainer.taskUrl } }))
    const sent = await vi.waitUntil(() => trainer.tasks.find(({ task_id }) => task_id === 'called-back'), WAIT)
    const { total_sessions: _total, completed_sessions: _completed, ...read } = await node.client.task('called-back')
    expect(sent).toEqual(read)
  })
})

describe('cancel', () => {
  it('ends a running task as cancelled, its sessions as ERROR of which nothing trains, and tells the callback', async () => {
    await node.client.submit(node.task('cancelled', { calls: 1, gate: 'never', keys: { num_samples: 6, callback_url: trainer.taskUrl } }))
    await vi.waitUntil(async () => (await node.client.sessions('cancelled')).some(({ status }) => status === 'RUNNING'), WAIT)
    const during = await node.client.cancel('cancelled')
    expect(during.status).toBe('cancelling')
    const ended = await node.finished('cancelled')
    expect(ended).toMatchObject({ status: 'cancelled', total_sessions: 6, completed_sessions: 6 })
    for (const result of ended.results) {
      expect(result).toMatchObject({ status: 'ERROR', error: 'session cancelled' })
      expect(result.trajectory.traces.flatMap(({ loss_mask }) => loss_mask)).not.toContain(1)
    }
    const sent = await vi.waitUntil(() => trainer.tasks.find(({ task_id }) => task_id === 'cancelled'), WAIT)
    expect(sent.status).toBe('cancelled')
  })

  it('leaves a task that has ended as it is', async () => {
    await node.client.submit(node.task('over'))
    const before = await node.finished('over')
    expect(await node.client.cancel('over')).toEqual(before)
  })

  it('answers 404 to an unknown id', async () => {
    await expect(node.client.cancel('unknown')).rejects.toEqual(refusal(404))
    await expect(node.client.submit(node.task('unknown'))).resolves.toMatchObject({ status: 'running' })
  })

  it.each(['true', 'True', '1'])('with register_if_missing=%s leaves a tombstone: a late submit of that id is 409', async (flag) => {
    const id = `tombstone-${flag}`
    const tombstone = await node.client.cancel(id, { register_if_missing: flag })
    expect(tombstone).toMatchObject({ task_id: id, status: 'cancelled', results: [], total_sessions: 0, completed_sessions: 0 })
    await expect(node.client.submit(node.task(id))).rejects.toEqual(refusal(409))
  })

  it('answers 422 to a register_if_missing that is no flag', async () => {
    await expect(node.client.cancel('x', { register_if_missing: 'perhaps' })).rejects.toEqual(refusal(422))
  })
})

describe('early stop', () => {
  it('ends the task at the threshold, in order, each unfinished session replaced by a fully masked ERROR', async () => {
    // Half of the agents wait for ever: only as many as the threshold can end by themselves.
    const command = `if mkdir '${node.file('first')}' 2>/dev/null || mkdir '${node.file('second')}' 2>/dev/null; then exec ${shellOf(node)}; else exec sleep 1000; fi`
    const agent = { harness: 'shell', custom_shell: { command } }
    await node.client.submit(node.task('early', { keys: { num_samples: 6, early_stop_min_usable_sessions: 2, agent } }))
    const order = (await node.client.sessions('early')).map(({ session_id }) => session_id)
    const { status, results } = await node.finished('early')
    expect(status).toBe('completed')
    expect(results.map(({ session_id }) => session_id)).toEqual(order)
    const stopped = results.filter((result) => result.status === 'ERROR')
    expect(stopped.length).toBe(4)
    for (const result of stopped) {
      expect(result.metadata).toMatchObject({ early_stop_cancelled: true, fully_masked: true })
      expect(result.trajectory.traces.flatMap(({ loss_mask }) => loss_mask)).not.toContain(1)
    }
  })
})

describe('the task list', () => {
  it('is newest first, with a row of counts and means for each', async () => {
    for (const id of ['list-1', 'list-2', 'list-3']) {
      await node.client.submit(node.task(id, { keys: { agent: agentNamed(node, 'some/model') } }))
      await node.finished(id)
    }
    const rows = await node.client.tasks()
    const mine = rows.filter(({ task_id }) => task_id.startsWith('list-'))
    expect(mine.map(({ task_id }) => task_id)).toEqual(['list-3', 'list-2', 'list-1'])
    expect(mine[0]).toMatchObject({
      status: 'completed',
      harness: 'shell',
      model: 'some/model',
      num_samples: 1,
      completed_sessions: 1,
      errored_sessions: 0,
      mean_reward: 1,
      mean_traces: 1,
      mean_completions: 1,
      source: 'live',
    })
  })

  it('filters by status, harness, since and limit', async () => {
    const all = await node.client.tasks()
    expect((await node.client.tasks({ status: 'failed' })).map(({ status }) => status)).not.toContain('completed')
    expect(await node.client.tasks({ status: 'completed' })).not.toEqual([])
    expect(await node.client.tasks({ harness: 'codex' })).toEqual([])
    expect((await node.client.tasks({ harness: 'shell' })).length).toBe(all.length)
    expect((await node.client.tasks({ limit: 2 })).map(({ task_id }) => task_id)).toEqual(all.slice(0, 2).map(({ task_id }) => task_id))
    const [newest] = all.toSorted((one, other) => other.updated_at - one.updated_at)
    const since = await node.client.tasks({ since: newest?.updated_at ?? 0 })
    expect(since.map(({ task_id }) => task_id)).toEqual([newest?.task_id])
    expect(await node.client.tasks({ since: 4e9 })).toEqual([])
  })

  it.each<readonly [string, string | number]>([
    ['limit', 0],
    ['limit', 1_001],
    ['limit', 'many'],
    ['since', 'yesterday'],
    ['status', 'done'],
  ])('answers 422 to %s=%s', async (key, value) => {
    await expect(node.client.tasks({ [key]: value })).rejects.toEqual(refusal(422))
  })

  it.each([1, 1_000])('takes limit=%s', async (limit) => {
    expect((await node.client.tasks({ limit })).length).toBeGreaterThan(0)
  })

  it('lists the sessions of a task, and answers 404 for an unknown one', async () => {
    await node.client.submit(node.task('rows', { keys: { num_samples: 2 } }))
    const { results } = await node.finished('rows')
    const rows = await node.client.sessions('rows')
    expect(rows).toMatchObject(
      results.map(({ session_id }) => ({ session_id, task_id: 'rows', status: 'COMPLETED', node_id: 'g', reward: 1, error: null })),
    )
    await expect(node.client.sessions('nothing')).rejects.toEqual(refusal(404))
  })

  it('answers 404 for a task that nobody submitted, whatever its id looks like', async () => {
    for (const id of ['nothing', '..', 'a/b', 'x'.repeat(200)]) await expect(node.client.task(id)).rejects.toEqual(refusal(404))
  })

  it('is summed up in the status: every task, what is pending, every node', async () => {
    const { tasks, pipeline, nodes } = await node.client.status()
    expect(tasks.rows).toBe('completed')
    expect(pipeline.pending_sessions).toBe(0)
    expect(nodes.nodes.map(({ node_id }) => node_id)).toEqual(['g'])
    expect(await node.client.health()).toMatchObject({ status: 'ok', nodes: 1 })
  })
})

function shellOf(target: ContractNode): string {
  const { agent } = target.task('any') as { readonly agent: { readonly custom_shell: { readonly command: string } } } // as the fixture made it
  return agent.custom_shell.command.replace(/^exec /, '')
}

function agentNamed(target: ContractNode, model: string): Readonly<Record<string, unknown>> {
  return { harness: 'shell', model_name: model, custom_shell: { command: shellOf(target) } }
}
