// What is submitted for a task of a dataset: always the same for the same file and options, so that a run that was cut off goes on.
import { createHash } from 'node:crypto'
import type { Dataset, DatasetTask } from './dataset.ts'

export type EvalOptions = {
  /** Sessions of each task. */
  readonly samples: number
  readonly seedBase: number
  /** Another name is another run of the same file; empty: none was given. */
  readonly run: string
}

export type PlannedTask = {
  readonly position: number
  readonly name: string
  readonly id: string
  /** Sample i draws with this plus i. */
  readonly seedBase: number
  readonly request: Readonly<Record<string, unknown>>
}

export type EvalPlan = {
  /** Of everything that the sessions depend on. */
  readonly digest: string
  readonly tasks: readonly PlannedTask[]
}

/** Before everything else that waits. */
const PRIORITY = 100
/** Seeds stay whole, positive and below 2³¹, which every engine takes, also with the sample's index added. */
const SEEDS = 2 ** 30
const DIGEST_CHARACTERS = 16

export function planEval(dataset: Dataset, options: EvalOptions): EvalPlan {
  const { samples, seedBase, run } = options
  const digest = sha256(JSON.stringify([dataset.name, dataset.sha256, samples, seedBase, run])).slice(0, DIGEST_CHARACTERS)
  return { digest, tasks: dataset.tasks.map((task, position) => planTask(dataset, task, position, digest, options)) }
}

function planTask(dataset: Dataset, task: DatasetTask, position: number, digest: string, options: EvalOptions): PlannedTask {
  const id = `eval-${digest}-${position}`
  const seedBase = (seedOf(dataset.name, position) + options.seedBase) % SEEDS
  const metadata = objectOf(task.request.metadata)
  const request = {
    ...task.request,
    task_id: id,
    num_samples: options.samples,
    dispatch_priority: PRIORITY,
    early_stop_min_usable_sessions: null,
    callback_url: null,
    metadata: {
      ...metadata,
      eval_sampling_seed_base: seedBase,
      polar_node: { ...objectOf(metadata.polar_node), purpose: 'evaluation' },
    },
  }
  return { position, name: task.name, id, seedBase, request }
}

/** By name and place alone: a task keeps its seeds when another task of the file changes. */
export function seedOf(dataset: string, position: number): number {
  return Number.parseInt(sha256(`${dataset}\n${position}`).slice(0, 8), 16) % SEEDS
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
}
