// Real agent CLIs through a real node: one engine, one node on its threads, and everything that is known of a task's sessions at its end.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { vi } from 'vitest'
import type { LedgerCommand } from '../../src/actors/ledger/protocol.ts'
import { parseConfig } from '../../src/config.ts'
import type { CallRecord } from '../../src/contract/call.ts'
import { knownSessionId } from '../../src/contract/ids.ts'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import type { EngineRequest } from '../../src/engine/scripted/request-log.ts'
import { startNode } from '../../src/main.ts'
import { processesNaming } from '../lib/working-node.ts'
import { type Model, openModel, type Script, type SubScript } from './answers.ts'

type Turn = { readonly call_id: string; readonly start: number; readonly end: number; readonly trained: boolean }

type Trace = {
  readonly prompt_ids: readonly number[]
  readonly response_ids: readonly number[]
  readonly loss_mask: readonly number[]
  readonly metadata: { readonly turns: readonly Turn[]; readonly segment_role: string; readonly unreported_context_tokens: number }
}

export type Session = {
  readonly id: string
  readonly status: string
  readonly outcome: string
  readonly error: string | null
  readonly traces: readonly Trace[]
  readonly untrained: readonly { readonly call_id: string; readonly reason: string; readonly tokens: number }[]
  readonly forks: Readonly<Record<string, number>>
  readonly records: readonly CallRecord[]
}

export type Rollout = {
  readonly sessions: readonly Session[]
  /** The engine's own log of this task. */
  readonly generations: readonly EngineRequest[]
  /** What the agents left in their output folder, by path. */
  readonly files: Readonly<Record<string, string>>
}

export type Bench = {
  readonly engine: ScriptedEngine
  readonly model: Model
  readonly modelPort: number
  /** A folder outside of the sandboxes, into which an agent's commands copy what it made. */
  readonly out: string
  run(agent: Readonly<Record<string, unknown>>, script: Script, more?: Readonly<Record<string, unknown>>, sub?: SubScript): Promise<Rollout>
  /** Command lines of processes that know this bench's place, and its sandboxes: empty when nothing runs. */
  leftovers(): Promise<readonly string[]>
  close(): Promise<void>
}

const MODEL = 'policy'
const TASK_MS = 60_000

/** `harnesses`: custom ones, name to module path. */
export async function openBench(harnesses: Readonly<Record<string, string>> = {}): Promise<Bench> {
  const folder = mkdtempSync(join(tmpdir(), 'polar-agents-'))
  const out = join(folder, 'out')
  const data = join(folder, 'data')
  const model = openModel()
  const engine = await openScriptedEngine({ answers: model, model: MODEL })
  const node = { id: 'g', port: 0, model_served: MODEL, inference: { engine: 'vllm', base_url: engine.url } }
  const file = { rollout: { port: 0 }, gateway: { nodes: [node] }, polar_node: { data_dir: data, harnesses } }
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
    { timeout: 20_000, interval: 20 },
  )

  return {
    engine,
    model,
    modelPort,
    out,
    async run(agent, script, more = {}, sub) {
      tasks += 1
      const task = `task-${tasks}`
      rmSync(out, { recursive: true, force: true })
      mkdirSync(out)
      model.play(script, sub)
      const before = engine.requests().length
      await control('/rollout/task/submit', {
        task_id: task,
        instruction: `Do what is to be done.\nThe output folder is ${out}; --help "quoted" é\n`,
        runtime: { backend: 'local' },
        agent: { model_name: 'Qwen/Qwen3-8B', ...agent },
        builder: { strategy: 'prefix_merging' },
        evaluator: { strategy: 'session_completed' },
        timeout_seconds: TASK_MS / 1000,
        ...more,
      })
      const path = `/rollout/task/${task}`
      const done = await vi.waitUntil(
        async () => {
          const view = await control<TaskView>(path)
          return view.status === 'running' ? null : view
        },
        { timeout: TASK_MS + 20_000, interval: 50 },
      )
      const sessions = done.results.map(async (result): Promise<Session> => {
        const { trajectory, metadata } = result
        return {
          id: result.session_id,
          status: result.status,
          outcome: metadata.polar_node.outcome,
          error: trajectory.error ?? null,
          traces: trajectory.traces,
          untrained: trajectory.metadata.untrained,
          forks: trajectory.metadata.reconstruction_stats.forks_by_cause,
          records: await recordsOf(result.session_id),
        }
      })
      return { sessions: await Promise.all(sessions), generations: engine.requests().slice(before), files: filesUnder(out) }
    },
    async leftovers() {
      const look = (): readonly string[] => [
        ...processesNaming(data).map(({ command }) => command),
        ...readdirSync(join(data, 'sandboxes')).map((name) => `sandbox ${name}`),
      ]
      await vi.waitUntil(() => look().length === 0, { timeout: 10_000, interval: 20 }).catch(() => {})
      return look()
    },
    async close() {
      await running.close()
      await engine.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

type TaskView = {
  readonly status: string
  readonly results: readonly {
    readonly session_id: string
    readonly status: string
    readonly metadata: { readonly polar_node: { readonly outcome: string } }
    readonly trajectory: {
      readonly error?: string | null
      readonly traces: readonly Trace[]
      readonly metadata: {
        readonly untrained: Session['untrained']
        readonly reconstruction_stats: { readonly forks_by_cause: Session['forks'] }
      }
    }
  }[]
}

function filesUnder(folder: string): Readonly<Record<string, string>> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return Object.fromEntries(
    entries.map((entry) => {
      const path = join(entry.parentPath, entry.name)
      return [path.slice(folder.length + 1), readFileSync(path, 'utf8')] as const
    }),
  )
}
