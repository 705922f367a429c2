// A real node in front of a real model: tasks go in, and what came of their sessions is told beside what went over the wire.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pino } from 'pino'
import { vi } from 'vitest'
import type { LedgerCommand } from '../../src/actors/ledger/protocol.ts'
import { parseConfig } from '../../src/config.ts'
import type { CallRecord } from '../../src/contract/call.ts'
import { knownSessionId } from '../../src/contract/ids.ts'
import { type EmbeddedEngineOptions, openEmbeddedEngine } from '../../src/engine/embedded/engine.ts'
import { startNode } from '../../src/main.ts'
import type { Drift } from '../../src/trajectory/drift.ts'
import { openRelay, type Relay, type WireGeneration } from './relay.ts'

type Turn = {
  readonly call_id: string
  readonly start: number
  readonly end: number
  readonly trained: boolean
  readonly reason?: string
  readonly weight_version: string | null
}

export type Trace = {
  readonly prompt_ids: readonly number[]
  readonly response_ids: readonly number[]
  readonly loss_mask: readonly number[]
  readonly response_logprobs: readonly number[] | null
  readonly metadata: {
    readonly turns: readonly Turn[]
    readonly weight_versions: readonly { readonly start: number; readonly end: number; readonly version: string | null }[]
    readonly synthetic_logprob_spans: readonly { readonly start: number; readonly end: number }[]
    readonly unreported_context_tokens: number
  }
}

type Edge = { readonly kind: string; readonly call_id: string; readonly of: string | null; readonly drift: Drift | null }

export type Session = {
  readonly id: string
  readonly outcome: string
  readonly error: string | null
  readonly traces: readonly Trace[]
  readonly edges: readonly Edge[]
  readonly untrained: readonly { readonly call_id: string; readonly reason: string; readonly tokens: number }[]
  readonly findings: readonly { readonly code: string; readonly detail: string }[]
  readonly stats: Stats
  /** In the order of arrival. */
  readonly records: readonly CallRecord[]
}

type Stats = {
  readonly captured_tokens: number
  readonly trained_tokens: number
  readonly forks_by_cause: Readonly<Record<string, number>>
}

export type Rollout = {
  readonly sessions: readonly Session[]
  /** Of this task alone. */
  readonly wire: readonly WireGeneration[]
}

export type Stand = {
  readonly relay: Relay
  run(task: Readonly<Record<string, unknown>>): Promise<Rollout>
  close(): Promise<void>
}

/** The name under which the node serves the model. */
export const MODEL = 'policy'
export const repository = resolve(import.meta.dirname, '../..')
/** The policy that is shipped. */
export const MODEL_FILE = join(repository, 'assets/tiny-policy.gguf')
/** Only work that does not come to an end takes so long. */
export const TASK_MS = 150_000

type RealEngine = Extract<Awaited<ReturnType<typeof openEmbeddedEngine>>, { readonly ok: true }>['engine']

/** The shipped policy, sampled on one thread. */
export async function openRealEngine(shape: 'vllm' | 'sglang', more: Partial<EmbeddedEngineOptions> = {}): Promise<RealEngine> {
  const opened = await openEmbeddedEngine({ modelPath: MODEL_FILE, shape, model: MODEL, seed: 1, threads: 1, ...more })
  if (!opened.ok) throw new Error(opened.error)
  return opened.engine
}

/** `engine` is to serve `MODEL` in its kind's wire shape, and is closed with the rest. */
export async function openStand(
  kind: 'vllm' | 'sglang',
  engine: { readonly url: string; readonly close: () => Promise<void> },
): Promise<Stand> {
  const folder = mkdtempSync(join(tmpdir(), 'polar-tokens-'))
  const relay = await openRelay(engine.url)
  const gateway = { id: 'g', port: 0, model_served: MODEL, inference: { engine: kind, base_url: relay.url } }
  const file = {
    rollout: { port: 0 },
    gateway: { nodes: [gateway] },
    polar_node: { data_dir: join(folder, 'data'), upload_roots: [join(repository, 'examples/demo')] },
  }
  const config = parseConfig(JSON.stringify(file), null, folder)
  if (!config.ok) throw new Error(JSON.stringify(config.problems))
  const started = await startNode(config.config, pino({ level: 'silent' }))
  if (!started.ok) throw new Error(started.problem)
  const { running } = started
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
    { timeout: 20_000, interval: 20 },
  )

  return {
    relay,
    async run(task) {
      tasks += 1
      const before = relay.generations().length
      await control('/rollout/task/submit', {
        runtime: { backend: 'local' },
        builder: { strategy: 'prefix_merging' },
        evaluator: { strategy: 'session_completed' },
        timeout_seconds: TASK_MS / 1_000,
        ...task,
        task_id: `task-${tasks}`,
      })
      const done = await vi.waitUntil(
        async () => {
          const view = await control<TaskView>(`/rollout/task/task-${tasks}`)
          return view.status === 'running' ? null : view
        },
        { timeout: TASK_MS + 30_000, interval: 50 },
      )
      const sessions = done.results.map(async ({ session_id: id, metadata, trajectory }): Promise<Session> => {
        const { untrained, edges, findings, reconstruction_stats: stats } = trajectory.metadata
        const { traces, error = null } = trajectory
        const { outcome } = metadata.polar_node
        return { id, outcome, error, traces, edges, untrained, findings, stats, records: await recordsOf(id) }
      })
      return { sessions: await Promise.all(sessions), wire: relay.generations().slice(before) }
    },
    async close() {
      await running.close()
      await relay.close()
      await engine.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

type TaskView = {
  readonly status: string
  readonly results: readonly {
    readonly session_id: string
    readonly metadata: { readonly polar_node: { readonly outcome: string } }
    readonly trajectory: {
      readonly error?: string | null
      readonly traces: readonly Trace[]
      readonly metadata: Pick<Session, 'edges' | 'untrained' | 'findings'> & { readonly reconstruction_stats: Stats }
    }
  }[]
}
