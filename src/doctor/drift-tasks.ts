// The tasks whose sessions are looked at: small ones of the doctor's own, or those of a file of the user's.
import { z } from 'zod'
import { problemsOf } from '../contract/problems.ts'
import { taskRequestSchema } from '../contract/task.ts'

/** A task without an agent: it is run by every harness that is asked for. */
export type DriftTask = {
  /** As the report names it. */
  readonly name: string
  /** The harness that the task's own `agent` is meant for; null when it has none. */
  readonly harness: string | null
  /** A TaskRequest; what the doctor decides itself is filled in when it is submitted. */
  readonly request: Readonly<Record<string, unknown>>
}

export type ReadTasks = { readonly ok: true; readonly tasks: readonly DriftTask[] } | { readonly ok: false; readonly problem: string }

const TASK_SECONDS = 300

const own = (name: string, prepare: string, instruction: string): DriftTask => ({
  name,
  harness: null,
  request: { instruction, timeout_seconds: TASK_SECONDS, runtime: { backend: 'local', prepare: [{ type: 'exec', command: prepare }] } },
})

export const OWN_TASKS: readonly DriftTask[] = [
  own(
    'look',
    "printf 'The number is 4711.\\n' > note.txt",
    'The file note.txt is in the working directory. Read it with one tool call, then answer with the number that stands in it.',
  ),
  own(
    'edit',
    `printf '{\\n  "name": "demo",\\n  "retries": 2\\n}\\n' > config.json`,
    'In config.json in the working directory, "retries" is to be 3. Look at the file first, then edit it, then look at it again, and then say that you are done.',
  ),
  own(
    'steps',
    'mkdir parts && echo 3 > parts/a.txt && echo 4 > parts/b.txt && echo 5 > parts/c.txt',
    [
      'Work in the working directory, one step after the other:',
      '1. List the folder parts.',
      '2. Read parts/a.txt, parts/b.txt and parts/c.txt with three tool calls at once, in one turn.',
      '3. Run the command `cat parts/d.txt`, which will fail, and say in one sentence why it failed.',
      '4. Write the sum of the three numbers into the file sum.txt.',
      '5. Read sum.txt.',
      '6. Say in two sentences what you have done.',
    ].join('\n'),
  ),
]

/** What the doctor decides for every task it submits. */
const DECIDED = {
  builder: { strategy: 'prefix_merging', config: {} },
  evaluator: { strategy: 'session_completed', config: {} },
} as const

const taskObject = z.record(z.string(), z.unknown())

/**
 * `value` is one TaskRequest or a list of them, as they are submitted to a node; `agent` may be left out. Problems name the file and the
 * field.
 */
export function readTasks(file: string, value: unknown): ReadTasks {
  const listed: readonly unknown[] = Array.isArray(value) ? value : [value]
  if (listed.length === 0) return { ok: false, problem: `${file}: holds no task` }
  const tasks: DriftTask[] = []
  for (const [at, given] of listed.entries()) {
    const place = Array.isArray(value) ? `${file}: [${at}]` : `${file}: task`
    const task = taskObject.safeParse(given)
    if (!task.success) return { ok: false, problem: `${place}: must be an object, a TaskRequest as it is submitted` }
    const { agent, ...rest } = task.data
    const named = { task_id: `task-${at + 1}`, runtime: { backend: 'local' }, ...rest }
    // Its own agent is checked as it is; without one any will do.
    const whole = { ...named, agent: agent ?? { harness: 'any' } }
    const parsed = taskRequestSchema.safeParse(whole)
    if (!parsed.success) return { ok: false, problem: problemsOf(place, whole, parsed.error) }
    const name = parsed.data.task_id
    if (tasks.some((other) => other.name === name)) return { ok: false, problem: `${place}.task_id: there is another task '${name}'` }
    const { harness, import_path: importPath } = parsed.data.agent
    tasks.push({
      name,
      harness: agent == null ? null : (harness ?? importPath ?? null),
      request: agent == null ? named : { ...named, agent },
    })
  }
  return { ok: true, tasks }
}

/** The TaskRequest of one task for one harness. Settings hold for the harness they were written for. */
export function requestFor(task: DriftTask, harness: string, model: string | null, samples: number): Readonly<Record<string, unknown>> {
  const { callback_url: _, agent, ...request } = task.request
  const given = task.harness === harness ? agent : null
  return {
    ...request,
    ...DECIDED,
    task_id: `drift-${harness}-${task.name}`.slice(0, MAX_ID_CHARACTERS),
    num_samples: samples,
    agent: { ...(typeof given === 'object' && given !== null ? given : { harness }), ...(model === null ? {} : { model_name: model }) },
  }
}

const MAX_ID_CHARACTERS = 128
