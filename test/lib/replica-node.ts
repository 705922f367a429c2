// A real `polar serve` in front of scripted engines, agents that tell their session in every prompt, and who saw which session.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { vi } from 'vitest'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { type Finished, root, runPolar, type Serving, startServing } from './polar-process.ts'

type Result = {
  readonly session_id: string
  readonly trajectory: { readonly traces: readonly { readonly response_ids: readonly number[]; readonly loss_mask: readonly number[] }[] }
}

export type Row = {
  readonly session_id: string
  readonly status: string
  readonly attempt: number
  readonly outcome: string | null
  readonly error: string | null
}

/** A server as the control API shows it. */
type ReplicaRow = {
  readonly id: string
  readonly url: string
  readonly role: string
  readonly state: string
  readonly tier: string
  readonly data_parallel_rank: number | null
}

type EngineOptions = Omit<Parameters<typeof openScriptedEngine>[0], 'generator' | 'script' | 'answers'>

export type Stand = {
  /** Serves `policy`, with short answers, each of which takes a moment. */
  openEngine(options?: EngineOptions): Promise<ScriptedEngine>
  /** A node with one gateway `g` and these entries under `replicas`. */
  serve(replicas: readonly Readonly<Record<string, unknown>>[], keys?: Readonly<Record<string, unknown>>): Promise<ReplicaNode>
  /** Whatever else the test opened is closed with the rest, the last first. */
  keep(close: () => Promise<unknown>): void
  close(): Promise<void>
}

export type ReplicaNode = {
  readonly serving: Serving
  control(path: string, method?: 'GET' | 'POST' | 'DELETE', body?: unknown): Promise<Response>
  /** `polar engines` of this node. */
  engines(...args: readonly string[]): Promise<Finished>
  replicas(): Promise<readonly ReplicaRow[]>
  /** Resolves when the list has become as wanted. */
  until(holds: (rows: readonly ReplicaRow[]) => boolean): Promise<void>
  submit(sessions: number, calls: number, task?: string): Promise<void>
  /** Sessions whose agent is this command. */
  submitCommand(command: string, sessions: number, task: string): Promise<void>
  rows(task?: string): Promise<readonly Row[]>
  finished(task?: string): Promise<readonly Row[]>
  results(task?: string): Promise<readonly Result[]>
  /** What every agent has printed. */
  printed(): string
}

const AGENT = join(root, 'test/threads/fixtures/chat-agent.ts')
const WAIT = { timeout: 60_000, interval: 50 }

export function openStand(): Stand {
  const cleanup: (() => Promise<unknown>)[] = []
  return {
    async openEngine(options = {}) {
      const engine = await openScriptedEngine({ generator: { words: [3, 8] }, model: 'policy', latency: { ttftMs: 20 }, ...options })
      cleanup.push(() => engine.close())
      return engine
    },
    async serve(replicas, keys = {}) {
      const folder = mkdtempSync(join(tmpdir(), 'polar-replicas-'))
      cleanup.push(async () => rmSync(folder, { recursive: true, force: true }))
      const config = join(folder, 'polar.yaml')
      const gateway = { id: 'g', port: 0, model_served: 'policy', inference: { engine: 'vllm' }, max_init_workers: 8, max_run_workers: 8 }
      writeFileSync(
        config,
        JSON.stringify({
          rollout: { port: 0 },
          gateway: { nodes: [{ ...gateway, ...keys }] },
          polar_node: { data_dir: join(folder, 'data'), replicas: { g: replicas } },
        }),
      )
      const serving = await startServing(config)
      cleanup.push(() => serving.stop())
      return openReplicaNode(serving, join(folder, 'data', 'logs'))
    },
    keep: (close) => void cleanup.push(close),
    async close() {
      for (const clean of cleanup.splice(0).reverse()) await clean()
    },
  }
}

/** `logs`: where the node keeps what its agents printed. */
export function openReplicaNode(serving: Serving, logs: string): ReplicaNode {
  const control: ReplicaNode['control'] = (path, method = 'GET', body = undefined) => {
    const headers = { authorization: `Bearer ${serving.token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }
    return fetch(serving.url + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
  }
  const submitCommand = async (command: string, sessions: number, task: string): Promise<void> => {
    const reply = await control('/rollout/task/submit', 'POST', {
      task_id: task,
      instruction: 'x',
      num_samples: sessions,
      runtime: { backend: 'local' },
      agent: { harness: 'shell', custom_shell: { command } },
      evaluator: { strategy: 'session_completed' },
    })
    if (reply.status !== 200) throw new Error(await reply.text())
  }
  const rows = async (task = 't'): Promise<readonly Row[]> => {
    const { sessions } = (await (await control(`/tasks/${task}/sessions`)).json()) as { readonly sessions: readonly Row[] }
    return sessions
  }
  const replicas = async (): Promise<readonly ReplicaRow[]> =>
    ((await (await control('/gateways/g/replicas')).json()) as { readonly replicas: readonly ReplicaRow[] }).replicas
  return {
    serving,
    control,
    engines: (...args) => runPolar('engines', ...args, '--rollout-url', serving.url, '--token', serving.token),
    replicas,
    until: (holds) => vi.waitUntil(async () => holds(await replicas()), WAIT).then(() => {}),
    submit: (sessions, calls, task = 't') => submitCommand(`exec '${process.execPath}' '${AGENT}' ${calls} 5`, sessions, task),
    submitCommand,
    rows,
    finished: (task = 't') =>
      vi.waitUntil(async () => {
        const sessions = await rows(task)
        return sessions.every(({ outcome }) => outcome !== null) ? sessions : null
      }, WAIT),
    async results(task = 't') {
      const { results } = (await (await control(`/rollout/task/${task}`)).json()) as { readonly results: readonly Result[] }
      return results
    },
    printed: () =>
      readdirSync(logs, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
        .join(''),
  }
}

/** The requests of one session that reached this engine; probes are nobody's. */
export function requestsOf(engine: ScriptedEngine, session: string) {
  return engine.requests().filter(({ body }) => JSON.stringify(body).includes(session))
}

/** The sessions whose calls reached this engine. */
export function sessionsOf(engine: ScriptedEngine, rows: readonly Row[]): readonly string[] {
  const bodies = engine.requests().map(({ body }) => JSON.stringify(body))
  return rows.map(({ session_id }) => session_id).filter((id) => bodies.some((body) => body.includes(id)))
}
