// A node in front of a real model: tasks go in, and what came of their sessions is told beside what went over the wire.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { readGguf } from '../../examples/tiny-policy/gguf.ts'
import { type EmbeddedEngine, type EmbeddedEngineOptions, openEmbeddedEngine } from '../../src/engine/embedded/engine.ts'
import { openRolloutNode, type Session } from '../lib/rollout-node.ts'
import { openRelay, type Relay, type WireGeneration } from './relay.ts'

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
/** GGUF's type of control tokens. */
const NO_TEXT = 3
/** The last token of every turn that the policy ends itself is one of those that are no text: mostly `<|im_end|>`, but there are others. */
export const END_TOKENS = readEndTokens()
/** Only work that does not come to an end takes so long. */
export const TASK_MS = 150_000

function readEndTokens(): ReadonlySet<number> {
  const read = readGguf(readFileSync(MODEL_FILE))
  const types = read.ok ? read.file.metadata.get('tokenizer.ggml.token_type') : undefined
  if (types?.type !== 'numbers') throw new Error('the policy says nothing of its tokens')
  return new Set(types.value.flatMap((type, id) => (type === NO_TEXT ? [id] : [])))
}

/** The shipped policy, sampled on one thread. */
export async function openRealEngine(shape: 'vllm' | 'sglang', more: Partial<EmbeddedEngineOptions> = {}): Promise<EmbeddedEngine> {
  const opened = await openEmbeddedEngine({ modelPath: MODEL_FILE, shape, model: MODEL, seed: 1, threads: 1, ...more })
  if (!opened.ok) throw new Error(opened.error)
  return opened.engine
}

/** `engine` is to serve `MODEL` in its kind's wire shape, and is closed with the rest. `more`: keys under `polar_node`. */
export async function openStand(
  kind: 'vllm' | 'sglang',
  engine: EmbeddedEngine,
  more: Readonly<Record<string, unknown>> = {},
): Promise<Stand> {
  const relay = await openRelay(engine.url)
  const keys = { upload_roots: [join(repository, 'examples/demo')], ...more }
  const node = await openRolloutNode({ engine: kind, engineUrl: relay.url, model: MODEL, taskMs: TASK_MS, keys })
  return {
    relay,
    async run(task) {
      const before = relay.generations().length
      const sessions = await node.run(task)
      return { sessions, wire: relay.generations().slice(before) }
    },
    async close() {
      await node.close()
      await relay.close()
      await engine.close()
    },
  }
}
