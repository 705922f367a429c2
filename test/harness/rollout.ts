// Real agent CLIs through a real node: one engine, one node on its threads, and everything that is known of a task's sessions at its end.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { vi } from 'vitest'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import type { EngineRequest } from '../../src/engine/scripted/request-log.ts'
import { openRolloutNode, type RolloutNode, type Session } from '../lib/rollout-node.ts'
import { processesNaming } from '../lib/working-node.ts'
import { type Model, openModel, type Script, type SubScript } from './answers.ts'
import { DETOUR } from './detour.ts'
import { noteEdges } from './facts.ts'

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
  readonly inference: RolloutNode['inference']
  /** What is kept of what an agent wrote down in its home, by path. */
  keptLogs(session: Session): Readonly<Record<string, string>>
  /** Command lines of processes that know this bench's place, and its sandboxes: empty when nothing runs. */
  leftovers(): Promise<readonly string[]>
  close(): Promise<void>
}

const MODEL = 'policy'
/** From here the tasks may upload. */
export const UPLOADS = join(import.meta.dirname, 'fixtures')
const TASK_MS = 120_000

/** `harnesses`: custom ones, name to module path. `maxModelLen`: of an engine with less room than usual. `keys`: more under `polar_node`. */
export async function openBench(
  harnesses: Readonly<Record<string, string>> = {},
  maxModelLen?: number,
  keys: Readonly<Record<string, unknown>> = {},
): Promise<Bench> {
  const folder = mkdtempSync(join(tmpdir(), 'polar-agents-'))
  const out = join(folder, 'out')
  const model = openModel()
  const engine = await openScriptedEngine({ answers: model, model: MODEL, ...(maxModelLen === undefined ? {} : { maxModelLen }) })
  const node = await openRolloutNode({
    engine: 'vllm',
    engineUrl: engine.url,
    model: MODEL,
    taskMs: TASK_MS,
    keys: { harnesses, upload_roots: [UPLOADS], ...keys },
  })
  const { modelPort, dataFolder } = node

  return {
    engine,
    model,
    modelPort,
    out,
    async run(agent, script, more = {}, sub) {
      rmSync(out, { recursive: true, force: true })
      mkdirSync(out)
      model.play(script, sub)
      const before = engine.requests().length
      const sessions = await node.run({
        instruction: `Do what is to be done.\nThe output folder is ${out}; --help "quoted" é\n`,
        agent: { model_name: 'Qwen/Qwen3-8B', ...agent },
        ...more,
      })
      if (typeof agent.harness === 'string') noteEdges(agent.harness.replace(DETOUR, ''), sessions)
      return { sessions, generations: engine.requests().slice(before), files: filesUnder(out) }
    },
    inference: node.inference,
    keptLogs: ({ id }) => filesUnder(join(dataFolder, 'logs', `${id}.1`, 'home')),
    async leftovers() {
      const look = (): readonly string[] => [
        ...processesNaming(dataFolder).map(({ command }) => command),
        ...readdirSync(join(dataFolder, 'sandboxes')).map((name) => `sandbox ${name}`),
      ]
      await vi.waitUntil(() => look().length === 0, { timeout: 30_000, interval: 20 }).catch(() => {})
      return look()
    },
    async close() {
      await node.close()
      await engine.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function filesUnder(folder: string): Readonly<Record<string, string>> {
  if (!existsSync(folder)) return {}
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return Object.fromEntries(
    entries.map((entry) => {
      const path = join(entry.parentPath, entry.name)
      return [path.slice(folder.length + 1), readFileSync(path, 'utf8')] as const
    }),
  )
}
