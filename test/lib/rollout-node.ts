// A real node in the test's own process: tasks go in, and everything that is known of their sessions at the end comes out.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { vi } from 'vitest'
import type { LedgerCommand } from '../../src/actors/ledger/protocol.ts'
import { parseConfig } from '../../src/config.ts'
import type { CallRecord } from '../../src/contract/call.ts'
import { knownSessionId } from '../../src/contract/ids.ts'
import type { BudgetUse } from '../../src/contract/session-budget.ts'
import { startNode } from '../../src/main.ts'
import type { Drift } from '../../src/trajectory/drift.ts'

type Turn = {
  readonly call_id: string
  readonly start: number
  readonly end: number
  readonly trained: boolean
  readonly reason?: string
  readonly weight_version: string | null
  readonly logprob_mode: string
  readonly temperature: number | null
}

export type Trace = {
  readonly prompt_ids: readonly number[]
  readonly response_ids: readonly number[]
  readonly loss_mask: readonly number[]
  readonly response_logprobs: readonly number[] | null
  readonly metadata: {
    readonly turns: readonly Turn[]
    readonly segment_role: string
    readonly weight_versions: readonly { readonly start: number; readonly end: number; readonly version: string | null }[]
    readonly unreported_context_tokens: number
  }
}

/** What a trajectory says of its own making. */
type Making = {
  readonly untrained: readonly { readonly call_id: string; readonly reason: string; readonly tokens: number }[]
  readonly edges: readonly { readonly kind: string; readonly call_id: string; readonly of: string | null; readonly drift: Drift | null }[]
  readonly findings: readonly { readonly code: string; readonly detail: string }[]
  readonly stats: { readonly trained_tokens: number; readonly forks_by_cause: Readonly<Record<string, number>> }
}

export type Session = Making & {
  readonly id: string
  readonly status: string
  readonly outcome: string
  readonly error: string | null
  /** Null when the agent was killed. */
  readonly exitCode: number | null
  readonly budget: BudgetUse | null
  /** Attempts that failed before the one that stands. */
  readonly earlier: readonly unknown[]
  readonly traces: readonly Trace[]
  /** In the order of arrival. */
  readonly records: readonly CallRecord[]
}

export type RolloutNode = {
  readonly modelPort: number
  readonly dataFolder: string
  /** One task to its end. What it leaves out is as trainers have it: local, merged, not graded. */
  run(task: Readonly<Record<string, unknown>>): Promise<readonly Session[]>
  /** As a trainer pauses and resumes all model calls, or asks how they stand. */
  inference(what: 'pause' | 'resume' | 'status'): Promise<{ readonly inflight: number; readonly waiting: number }>
  close(): Promise<void>
}

export type RolloutNodeOptions = {
  readonly engine: 'vllm' | 'sglang'
  readonly engineUrl: string
  /** The name under which the engine serves its model. */
  readonly model: string
  /** One session's; the rest of a task may take a little longer. */
  readonly taskMs: number
  /** More keys under `polar_node`. */
  readonly keys?: Readonly<Record<string, unknown>>
}

/** Resolves when the engine has shown that it can be trained on. */
export async function openRolloutNode({ engine, engineUrl, model, taskMs, keys }: RolloutNodeOptions): Promise<RolloutNode> {
  const folder = mkdtempSync(join(tmpdir(), 'polar-rollouts-'))
  const dataFolder = join(folder, 'data')
  const gateway = { id: 'g', port: 0, model_served: model, inference: { engine, base_url: engineUrl } }
  const file = { rollout: { port: 0 }, gateway: { nodes: [gateway] }, polar_node: { data_dir: dataFolder, ...keys } }
  const config = parseConfig(JSON.stringify(file), null, folder)
  if (!config.ok) throw new Error(JSON.stringify(config.problems))
  const started = await startNode(config.config, pino({ level: 'silent' }))
  if (!started.ok) throw new Error(started.problem)
  const { running } = started
  const [modelPort = 0] = running.node.modelPorts.values()
  let tasks = 0

  async function control<T>(path: string, body?: unknown): Promise<T> {
    const headers = { authorization: `Bearer ${running.token}`, 'content-type': 'application/json' }
    const reply = await fetch(
      running.controlUrl + path,
      body === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(body) },
    )
    if (!reply.ok) throw new Error(`${path}: ${await reply.text()}`)
    return (await reply.json()) as T // the node's own API, whose shapes are tested elsewhere
  }

  async function recordsOf(session: string): Promise<readonly CallRecord[]> {
    const answer = await running.node.kernel.ask<LedgerCommand, readonly CallRecord[]>(
      running.node.ledger,
      (ask) => ({ type: 'read-calls', session: knownSessionId(session), ask }),
      10_000,
    )
    if (!answer.ok) throw new Error(`the ledger did not answer: ${answer.error}`)
    return answer.value.toSorted((one, other) => one.sequence - other.sequence)
  }

  await vi.waitUntil(
    async () => {
      const nodes = await control<readonly { readonly replicas: readonly { readonly tier: string | null }[] }[]>('/nodes')
      return nodes.every(({ replicas }) => replicas.some(({ tier }) => tier === 'train'))
    },
    { timeout: 60_000, interval: 20 },
  )

  return {
    modelPort,
    dataFolder,
    async inference(what) {
      const { inflight, gateways } = await control<InferenceView>(`/admin/inference/${what}`, what === 'status' ? undefined : {})
      return { inflight, waiting: gateways.reduce((sum, { metadata }) => sum + metadata.polar_node.waiting, 0) }
    },
    async run(task) {
      tasks += 1
      const id = `task-${tasks}`
      await control('/rollout/task/submit', {
        runtime: { backend: 'local' },
        builder: { strategy: 'prefix_merging' },
        evaluator: { strategy: 'session_completed' },
        timeout_seconds: taskMs / 1_000,
        ...task,
        task_id: id,
      })
      const done = await vi.waitUntil(
        async () => {
          const view = await control<TaskView>(`/rollout/task/${id}`)
          return view.status === 'running' ? null : view
        },
        { timeout: taskMs + 20_000, interval: 50 },
      )
      const { sessions: rows } = await control<SessionRows>(`/tasks/${id}/sessions`)
      const sessions = done.results.map(async (result): Promise<Session> => {
        const { session_id, status, metadata, trajectory } = result
        const { reconstruction_stats: stats, untrained, edges, findings } = trajectory.metadata
        return {
          id: session_id,
          status,
          outcome: metadata.polar_node.outcome,
          error: trajectory.error ?? trajectory.metadata.agent_result.error ?? null,
          exitCode: trajectory.metadata.agent_result.return_code,
          budget: metadata.polar_node.budget ?? null,
          earlier: rows.find((row) => row.session_id === session_id)?.earlier_attempts ?? [],
          traces: trajectory.traces,
          untrained,
          edges,
          findings,
          stats,
          records: await recordsOf(session_id),
        }
      })
      return Promise.all(sessions)
    },
    async close() {
      await running.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

type InferenceView = {
  readonly inflight: number
  readonly gateways: readonly { readonly metadata: { readonly polar_node: { readonly waiting: number } } }[]
}

type SessionRows = { readonly sessions: readonly { readonly session_id: string; readonly earlier_attempts: readonly unknown[] }[] }

type TaskView = {
  readonly status: string
  readonly results: readonly {
    readonly session_id: string
    readonly status: string
    readonly metadata: { readonly polar_node: { readonly outcome: string; readonly budget?: BudgetUse } }
    readonly trajectory: {
      readonly error?: string | null
      readonly traces: readonly Trace[]
      readonly metadata: Omit<Making, 'stats'> & {
        readonly reconstruction_stats: Making['stats']
        /** Also tells what an agent failed of whose session is trained. */
        readonly agent_result: { readonly error?: string; readonly return_code: number | null }
      }
    }
  }[]
}
