// A real `polar serve` with scripted inference behind it, agents that are a few lines of bash, and a trainer's callback listener.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { vi } from 'vitest'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { type Serving, startServing } from '../lib/polar-process.ts'
import { processesNaming } from '../lib/working-node.ts'
import { openPolarClient, type PolarClient, type PolarGateway } from './client.ts'
import { type SessionResultBody, sessionResult, type TaskResultBody, type TaskStatusBody, taskResult } from './schemas.ts'
import { parse } from './shape.ts'

export type Work = {
  /** Model calls that the agent makes; 1 unless told otherwise. */
  readonly calls?: number
  /** More words in the last call. */
  readonly lastWords?: number
  readonly exitCode?: number
  /** The agent ends when the gate of this name is opened. */
  readonly gate?: string
  /** Beside or instead of the above. */
  readonly keys?: Readonly<Record<string, unknown>>
}

export type Trainer = {
  readonly taskUrl: string
  readonly sessionUrl: string
  /** Each body as it came, checked. */
  readonly tasks: readonly TaskResultBody[]
  readonly sessions: readonly SessionResultBody[]
  close(): Promise<void>
}

export type ContractNode = {
  readonly serving: Serving
  readonly engine: ScriptedEngine
  /** `http://polar:TOKEN@host:port`: all that a trainer is told. */
  readonly address: string
  readonly client: PolarClient
  /** Of the gateway of this id, at the URL that its node info names. */
  gateway(id: string): Promise<PolarGateway>
  /** A TaskRequest. */
  task(id: string, work?: Work): Readonly<Record<string, unknown>>
  openGate(name: string): void
  finished(task: string): Promise<TaskStatusBody>
  /** A path in a folder that goes with the node. */
  file(name: string): string
  close(): Promise<void>
}

export type ContractNodeOptions = {
  /** Entries of `gateway.nodes[]`; one, named `g`, unless told otherwise. */
  readonly nodes?: readonly Readonly<Record<string, unknown>>[]
  /** Under `polar_node`. */
  readonly keys?: Readonly<Record<string, unknown>>
  readonly maxModelLen?: number
  /** Where the node finds the engine, when something stands between them. */
  readonly through?: (engineUrl: string) => Promise<string>
}

const AGENT = join(import.meta.dirname, 'fixtures/agent.sh')
export const WAIT = { timeout: 100_000, interval: 25 }

export async function openContractNode({
  nodes = [{ id: 'g' }],
  keys = {},
  maxModelLen = 32_768,
  through = async (url) => url,
}: ContractNodeOptions = {}): Promise<ContractNode> {
  const folder = mkdtempSync(join(tmpdir(), 'polar-contract-'))
  const engine = await openScriptedEngine({ generator: { words: [3, 6] }, model: 'policy', maxModelLen })
  const config = join(folder, 'polar.yaml')
  const inference = { engine: 'vllm', base_url: await through(engine.url) }
  writeFileSync(
    config,
    JSON.stringify({
      rollout: { port: 0 },
      gateway: { nodes: nodes.map((node) => ({ port: 0, model_served: 'policy', inference, ...node })) },
      polar_node: { data_dir: join(folder, 'data'), max_attempts: 1, ...keys },
    }),
  )
  const serving = await startServing(config)
  const address = serving.url.replace('://', `://polar:${encodeURIComponent(serving.token)}@`)
  const client = openPolarClient(address)
  const file = (name: string): string => join(folder, name)

  return {
    serving,
    engine,
    address,
    client,
    file,
    async gateway(id) {
      return client.gateway((await client.node(id)).gateway_url)
    },
    task: (id, { calls = 1, lastWords = 0, exitCode = 0, gate, keys: more = {} } = {}) => ({
      task_id: id,
      instruction: 'say hello',
      agent: {
        harness: 'shell',
        custom_shell: {
          command: `exec bash '${AGENT}' ${calls} ${exitCode}${gate === undefined ? '' : ` '${file(gate)}'`}`,
          env: { FILLER: 'word '.repeat(lastWords) },
        },
      },
      runtime: { backend: 'local' },
      builder: { strategy: 'prefix_merging' },
      evaluator: { strategy: 'session_completed' },
      ...more,
    }),
    openGate: (name) => writeFileSync(file(name), ''),
    finished: (task) =>
      vi.waitUntil(async () => {
        const { status, results, total_sessions: total } = await client.task(task)
        const isOver = status !== 'running' && status !== 'cancelling' && results.length === total
        return isOver ? client.task(task) : null
      }, WAIT),
    async close() {
      await serving.stop('SIGKILL')
      for (const { pid } of processesNaming(folder)) {
        try {
          process.kill(pid, 'SIGKILL')
        } catch {
          // Gone since it was listed.
        }
      }
      await engine.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** What a bridge listens with: TaskResult at `/callback/task_result`, and a server's own door for SessionResult. */
export async function openTrainer(): Promise<Trainer> {
  const tasks: TaskResultBody[] = []
  const sessions: SessionResultBody[] = []
  const server = createServer(async (request, response) => {
    const parts: Uint8Array[] = []
    for await (const part of request) parts.push(part)
    const body: unknown = JSON.parse(Buffer.concat(parts).toString())
    try {
      if (request.url === '/callback/task_result') tasks.push(parse(taskResult, body, 'callback'))
      else sessions.push(parse(sessionResult, body, 'callback'))
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ok: true }))
    } catch (problem) {
      // As FastAPI would: a body that is not the model is refused, and nothing of it was seen.
      response.writeHead(422).end(String(problem))
    }
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const { port } = server.address() as AddressInfo // a listening TCP server's address is no string
  return {
    taskUrl: `http://127.0.0.1:${port}/callback/task_result`,
    sessionUrl: `http://127.0.0.1:${port}/callbacks/session_result`,
    tasks,
    sessions,
    async close() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}
