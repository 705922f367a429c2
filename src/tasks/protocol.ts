// The CPU tasks that may be handed to another thread: what each takes, what each gives, and how a task can end badly.
import type { CallRecord } from '../contract/call.ts'
import type { SessionId, TaskId } from '../contract/ids.ts'
import type { SessionSummary } from '../contract/result.ts'
import type { ResultForm, ResultsTold } from '../contract/result-form.ts'
import type { StrategySpec } from '../contract/task.ts'
import type { SlabReference } from '../tokens/reference.ts'
import type { CompletionsPart } from '../trajectory/completions.ts'
import type { ResultFacts } from '../trajectory/facts.ts'
import type { CustomBuilders } from '../trajectory/registry.ts'
import type { TaskHead } from '../trajectory/render.ts'
import type { CompletionsWish, RenderedCompletions } from '../trajectory/render-completions.ts'
import type { TracesWish } from '../trajectory/render-result.ts'

export type BuildTask = {
  readonly session: SessionId
  readonly task: TaskId
  readonly attempt: number
  readonly strategy: StrategySpec
  /** The lease must outlive the task: release it when the task has settled. */
  readonly reference: SlabReference
  /** In the order of `reference.calls`. */
  readonly calls: readonly CallRecord[]
  readonly messages: readonly string[]
  readonly taskMetadata: Readonly<Record<string, unknown>>
  /** The operator's builders: names and module paths. */
  readonly customs: CustomBuilders
}

export type BuildAnswer =
  | {
      readonly ok: true
      /** A packed Trajectory. */
      readonly payload: ArrayBuffer
      readonly traces: number
      readonly trainableTokens: number
      /** Sampled tokens of all calls. */
      readonly capturedTokens: number
      readonly completions: ArrayBuffer | null
    }
  /** The calls can be looked at all the same. */
  | { readonly ok: false; readonly error: string; readonly completions: ArrayBuffer | null }

/** Buffers in a task's input are copied unless they are named in `transfer`. */
export type CpuTasks = {
  readonly buildTrajectory: { readonly input: BuildTask; readonly output: BuildAnswer }
  /** A packed Trajectory, or null, to a packed SessionResult. */
  readonly finishSession: {
    readonly input: { readonly payload: ArrayBuffer | null; readonly facts: ResultFacts }
    readonly output: { readonly payload: ArrayBuffer; readonly summary: SessionSummary }
  }
  /** A packed SessionResult to its JSON in UTF-8, told as wished for or, at null, as its task asked. */
  readonly renderSession: {
    readonly input: { readonly payload: ArrayBuffer; readonly results: ResultsTold | null }
    readonly output: { readonly bytes: ArrayBuffer }
  }
  /** A packed SessionResult with all its rows, in one of its forms. */
  readonly renderResult: {
    readonly input: { readonly payload: ArrayBuffer; readonly form: ResultForm }
    readonly output: { readonly bytes: ArrayBuffer }
  }
  /** Some rows of a packed SessionResult. */
  readonly renderTraces: {
    readonly input: { readonly payload: ArrayBuffer; readonly form: ResultForm; readonly wish: TracesWish }
    readonly output: { readonly bytes: ArrayBuffer }
  }
  /** Calls and their texts to packed completions. */
  readonly packCompletions: { readonly input: CompletionsPart; readonly output: { readonly packed: ArrayBuffer } }
  /** Packed completions to JSON; they come back for the next part, unchanged. */
  readonly renderCompletions: {
    readonly input: { readonly packed: ArrayBuffer; readonly wish: CompletionsWish }
    readonly output: RenderedCompletions & { readonly packed: ArrayBuffer }
  }
  /** Packed SessionResults to the JSON of a TaskResult or TaskStatus. */
  readonly renderTask: {
    readonly input: { readonly head: TaskHead; readonly payloads: readonly ArrayBuffer[] }
    readonly output: { readonly bytes: ArrayBuffer }
  }
}

export type TaskName = keyof CpuTasks
export type TaskInput<K extends TaskName> = CpuTasks[K]['input']
export type TaskOutput<K extends TaskName> = CpuTasks[K]['output']

/** `crashed`: the task threw, or its thread died; `timeout`: its thread was killed. */
export type TaskError = 'timeout' | 'crashed' | 'queue-full' | 'closed'

export type TaskSettled<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: TaskError; readonly detail: string }
