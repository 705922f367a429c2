// `polar results`: the node's feed of final results, once or as it grows, and a file for each result.
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { isIdText } from '../contract/ids.ts'
import { type ControlClient, exitOf, type Reply } from './control-client.ts'
import { counted } from './counted.ts'
import { describeDelivery } from './delivery.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { openTarget, type TargetOptions } from './target.ts'

export type ResultsOptions = TargetOptions & {
  readonly after?: string
  readonly follow?: boolean
  readonly save?: string
  readonly json?: boolean
}

/** As the node's route gives it. */
type Row = { readonly cursor: string; readonly task_id: string } & (
  | {
      readonly type: 'session'
      readonly session_id: string
      readonly outcome: string
      readonly reward: number | null
      readonly attempt: number
      readonly traces: number
      readonly bytes: number
    }
  | { readonly type: 'task'; readonly status: string; readonly delivery: string }
)
type Page = { readonly entries: readonly Row[]; readonly next: string; readonly missed: boolean; readonly start_over: boolean }

const PAGE_ROWS = 200
const WAIT_SECONDS = 30
const AGAIN_MS = 1_000

export async function runResults(options: ResultsOptions): Promise<ExitCode> {
  const target = await openTarget(options)
  if (!target.ok) return endWith(EXIT.usage, target.problem)
  const { client } = target
  let isHeard = true
  process.stdout.once('error', () => {
    isHeard = false
  })
  const follows = options.follow === true
  let after = options.after ?? null
  let hasRead = false
  let isWhole = true
  // Files are written for whoever reads them, lines for whoever listens.
  while (isHeard || options.save !== undefined) {
    // A node that is starting again is waited for by whoever followed it.
    const reply = await get(client, pathOf(after, follows), follows && hasRead)
    if (reply.status !== 200) return endWith(exitOf(reply), reply.detail)
    hasRead = true
    const page = reply.body as Page
    if (page.missed) noteMissed(page, after, options)
    for (const row of page.entries) {
      if (options.save !== undefined && row.type === 'session') {
        const saving = await save(client, options.save, row, follows)
        // Its line would say that it is there, and whoever goes on behind it would miss it.
        if (saving.type === 'failed') return endWith(saving.code, saving.problem)
        if (saving.type === 'lost') process.stderr.write(`polar: ${saving.problem}\n`)
        isWhole &&= saving.type === 'saved'
      }
      process.stdout.write(options.json === true ? `${JSON.stringify(row)}\n` : `${describe(row)}\n`)
    }
    after = page.next
    if (!follows && page.entries.length < PAGE_ROWS) break
  }
  return isWhole ? EXIT.ok : EXIT.failed
}

async function get(client: ControlClient, path: string, isPatient: boolean): Promise<Reply> {
  for (;;) {
    const reply = await client.get(path)
    if (!isPatient || (reply.status !== 0 && reply.status !== 503)) return reply
    await delay(AGAIN_MS)
  }
}

function pathOf(after: string | null, follows: boolean): string {
  const query = new URLSearchParams({ limit: String(PAGE_ROWS) })
  if (after !== null) query.set('after', after)
  if (follows) query.set('wait_seconds', String(WAIT_SECONDS))
  return `/feed?${query}`
}

function noteMissed({ start_over }: Page, after: string | null, { json }: ResultsOptions): void {
  if (json === true) process.stdout.write(`${JSON.stringify({ type: 'missed', after, start_over })}\n`)
  else if (start_over) process.stderr.write(`polar: ${after} is of an earlier process of the node: all that is kept follows\n`)
  else process.stderr.write('polar: some results from before these are no longer kept\n')
}

type Saving =
  | { readonly type: 'saved' }
  /** It is no longer kept: there is nothing to wait for. */
  | { readonly type: 'lost'; readonly problem: string }
  | { readonly type: 'failed'; readonly code: ExitCode; readonly problem: string }

/** In the folders of Polar's own save_dir. */
async function save(client: ControlClient, folder: string, row: Extract<Row, { type: 'session' }>, isPatient: boolean): Promise<Saving> {
  const { task_id: task, session_id: session } = row
  // They become a path, and what answers may be anything.
  if (!isIdText(task) || !isIdText(session)) {
    return { type: 'failed', code: EXIT.unreachable, problem: `no node gives ids like ${JSON.stringify([task, session])}` }
  }
  const reply = await get(client, `/sessions/${session}/result`, isPatient)
  if (reply.status === 404 || reply.status === 410) return { type: 'lost', problem: `${session} is not saved: ${reply.detail}` }
  if (reply.status !== 200) return { type: 'failed', code: exitOf(reply), problem: reply.detail }
  const file = join(folder, `task_${task}`, `ses_${session}.json`)
  try {
    await mkdir(dirname(file), { recursive: true })
    // Whole or not at all.
    await writeFile(`${file}.part`, JSON.stringify(reply.body))
    await rename(`${file}.part`, file)
    return { type: 'saved' }
  } catch (error) {
    return { type: 'failed', code: EXIT.failed, problem: `${file}: ${error instanceof Error ? error.message : String(error)}` }
  }
}

function describe(row: Row): string {
  if (row.type === 'task') {
    const delivery = describeDelivery(row.delivery)
    return `${row.cursor}  task ${row.task_id}  ${row.status}${delivery === null ? '' : `  callback ${delivery}`}`
  }
  const { cursor, session_id, task_id, outcome, reward, attempt, traces, bytes } = row
  const task = task_id === session_id ? '' : ` of ${task_id}`
  return `${cursor}  session ${session_id}${task}  ${outcome}  reward ${reward ?? '–'}  attempt ${attempt}  ${counted(traces, 'trace')}, ${bytes} bytes`
}
