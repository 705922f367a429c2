// `polar eval`: every task of a file a number of times on a running node, and how often the policy succeeds.
import { readFile, writeFile } from 'node:fs/promises'
import { type Dataset, readDataset } from '../eval/dataset.ts'
import { type Journal, openJournal } from '../eval/journal.ts'
import { type EvalOptions as PlanOptions, planEval } from '../eval/plan.ts'
import { reportEval, type Vote } from '../eval/report.ts'
import { describeEval } from '../eval/report-text.ts'
import { type Bell, openBell, runEval } from '../eval/run.ts'
import type { ControlClient } from './control-client.ts'
import { counted } from './counted.ts'
import { EXIT, endWith } from './exit.ts'
import { ignoredKeys } from './ignored-keys.ts'
import { hearInterrupts } from './interrupts.ts'
import { openTarget, type TargetOptions } from './target.ts'

export type EvalOptions = TargetOptions & {
  readonly samples: number
  readonly k?: readonly number[]
  readonly seedBase: number
  /** Tasks at a time. */
  readonly concurrency: number
  readonly threshold: number
  readonly name: string
  readonly sha256?: string
  readonly out?: string
  /** Seconds. */
  readonly pollInterval: number
  readonly json?: boolean
}

/** With an event for every task that ends, a look is for the one that got lost. */
const RARE_LOOK_MS = 15_000
const NO_JOURNAL: Journal = { votes: new Map(), add: async () => {}, remove: async () => {} }

/** Progress goes to stderr, so that stdout is the report alone. */
export async function runEvalCommand(file: string, options: EvalOptions): Promise<number> {
  const ks = options.k ?? (options.samples === 1 ? [1] : [1, options.samples])
  const tooLarge = ks.find((k) => k > options.samples)
  if (tooLarge !== undefined) return endWith(EXIT.usage, `--k ${tooLarge} needs --samples ${tooLarge} or more`)
  const read = await readFileOf(file, options.sha256)
  if (!read.ok) return endWith(EXIT.usage, read.problem)
  const { dataset } = read
  const ungraded = dataset.tasks.find(({ request }) => request.evaluator == null)
  if (ungraded !== undefined) return endWith(EXIT.usage, `${file}: task ${ungraded.name} has no evaluator: no session of it could succeed`)
  const target = await openTarget(options)
  if (!target.ok) return endWith(EXIT.usage, target.problem)
  const planOptions: PlanOptions = { samples: options.samples, seedBase: options.seedBase, run: options.name }
  const plan = planEval(dataset, planOptions)
  const opened = options.out === undefined ? { ok: true as const, journal: NO_JOURNAL } : await openBeside(options.out, plan.digest)
  if (!opened.ok) return endWith(EXIT.usage, opened.problem)
  const { journal } = opened
  const votes = new Map(journal.votes)
  const left = plan.tasks.filter(({ position }) => !votes.has(position))
  say(
    `${dataset.name}: ${counted(plan.tasks.length, 'task')} × ${counted(options.samples, 'sample')}${votes.size === 0 ? '' : `, ${counted(votes.size, 'task')} known`}`,
  )

  const interrupts = hearInterrupts()
  const bell = openBell(new Set(left.map(({ id }) => id)))
  const events = new AbortController()
  try {
    const isHeard = await followEvents(target.client, bell, events.signal)
    const [often, rarely] = [options.pollInterval * 1_000, Math.max(RARE_LOOK_MS, options.pollInterval * 1_000)]
    const ran = await runEval(target.client, left, bell, {
      concurrency: options.concurrency,
      pollMs: () => (isHeard() ? rarely : often),
      signal: interrupts.signal,
      async ended(task, cast) {
        await journal.add(task.position, cast)
        votes.set(task.position, cast)
        say(`${votes.size}/${plan.tasks.length}  ${task.name}: ${describeVotes(cast)}`)
      },
    })
    if (!ran.ok) return endWith(ran.isRefusal ? EXIT.usage : EXIT.unreachable, `${ran.problem}; ${goesOn(votes.size)}`)
  } catch (error) {
    const code = interrupts.code()
    if (code === null) throw error
    say(`interrupted: the node goes on with what it has; ${goesOn(votes.size)}`)
    return code
  } finally {
    events.abort()
    interrupts.ignore()
  }
  const report = reportEval(dataset, plan, planOptions, { ks, threshold: options.threshold }, votes)
  if (options.out !== undefined) await writeFile(options.out, `${JSON.stringify(report, null, 2)}\n`)
  await journal.remove()
  process.stdout.write(options.json === true ? `${JSON.stringify(report)}\n` : describeEval(report))
  return report.failures_not_of_the_policy === 0 ? EXIT.ok : EXIT.failed
}

type ReadFile = { readonly ok: true; readonly dataset: Dataset } | { readonly ok: false; readonly problem: string }

async function readFileOf(file: string, pinned: string | undefined): Promise<ReadFile> {
  let bytes: Uint8Array
  try {
    bytes = await readFile(file)
  } catch (error) {
    return { ok: false, problem: `cannot read the tasks ${file}: ${messageOf(error)}` }
  }
  const read = readDataset(file, bytes)
  if (!read.ok) return read
  const { dataset } = read
  if (pinned !== undefined && pinned.toLowerCase() !== dataset.sha256)
    return { ok: false, problem: `${file} is not the pinned file: its sha256 is ${dataset.sha256}` }
  const ignored = dataset.tasks.flatMap(({ name, request }) => ignoredKeys(request).map((key) => `${name}: ${key}`))
  if (ignored.length > 0) say(`note: the tasks have keys that mean nothing here: ${ignored.join(', ')}`)
  return read
}

async function openBeside(
  out: string,
  digest: string,
): Promise<{ readonly ok: true; readonly journal: Journal } | { readonly ok: false; readonly problem: string }> {
  try {
    return { ok: true, journal: await openJournal(`${out}.partial`, digest) }
  } catch (error) {
    return { ok: false, problem: `cannot write beside --out ${out}: ${messageOf(error)}` }
  }
}

/** Resolves once the node is asked; then tells whether it tells of tasks that end. */
async function followEvents(client: ControlClient, bell: Bell, signal: AbortSignal): Promise<() => boolean> {
  const events = await client.openEvents(signal)
  let isOpen = events !== null
  const listen = async (): Promise<void> => {
    for await (const { type, data } of events ?? []) {
      if (type !== 'task.completed' || typeof data !== 'object' || data === null || !('task_id' in data)) continue
      bell.ring(String(data.task_id))
    }
  }
  // A stream that breaks leaves the looks.
  void listen()
    .catch(() => {})
    .then(() => {
      isOpen = false
      bell.ringAll()
    })
  return () => isOpen
}

function describeVotes(votes: readonly Vote[]): string {
  return votes.map(({ outcome, reward }) => `${outcome ?? 'missing'} ${reward ?? '–'}`).join(', ')
}

function goesOn(known: number): string {
  return `${counted(known, 'task')} done, and the same command goes on from there`
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function say(line: string): void {
  process.stderr.write(`polar: ${line}\n`)
}
