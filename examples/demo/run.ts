// One task, several samples: pi fixes a function in scratch repositories, tests grade it, the trajectory arrives by callback.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ensureAgent } from '../../scripts/agents.ts'
import { type ControlEvent, openControlClient } from '../../src/cli/control-client.ts'
import { loadQwen } from '../../src/engine/scripted/qwen.ts'
import { openListener, type TaskResult, type Trace } from './listener.ts'
import { startEngine, startNode } from './processes.ts'

const DEADLINE_MS = 110_000
const here = import.meta.dirname
const isJson = readIsJson()
/** Aborted when the user, or whoever reads the output, goes away in the middle: what was started is stopped all the same. */
const interrupted = new AbortController()

const say = (line: string): void => void (isJson ? null : process.stdout.write(`${line}\n`))
const emit = (record: Readonly<Record<string, unknown>>): void => void (isJson ? process.stdout.write(`${JSON.stringify(record)}\n`) : null)

function readIsJson(): boolean {
  try {
    return parseArgs({ options: { json: { type: 'boolean', default: false } } }).values.json
  } catch (error) {
    process.stderr.write(`demo: ${messageOf(error)}\nusage: npm run demo [-- --json]\n`)
    process.exit(2)
  }
}

function hearInterrupts(): void {
  const interrupt = (how: string, exitCode: number): void => {
    if (interrupted.signal.aborted) return
    process.exitCode = exitCode
    interrupted.abort(new Error(`${how}: stopping the node and the engine`))
  }
  process.on('SIGINT', () => interrupt('interrupted', 130))
  process.on('SIGTERM', () => interrupt('terminated', 143))
  process.on('SIGHUP', () => interrupt('the terminal was closed', 129))
  process.stdout.on('error', () => interrupt('the output is no longer read', 141))
  process.stderr.on('error', () => {})
}

async function demo(): Promise<boolean> {
  await ensureAgent('pi')
  interrupted.signal.throwIfAborted()
  const folder = mkdtempSync(join(tmpdir(), 'polar-demo-'))
  const closing: (() => Promise<void>)[] = []
  try {
    const engine = await startEngine(join(here, 'script.yaml'), interrupted.signal)
    closing.unshift(engine.stop)
    const node = await startNode(folder, engine.url, interrupted.signal)
    closing.unshift(node.stop)
    const listener = await openListener()
    closing.unshift(listener.close)
    say(`engine   ${engine.url} (scripted, real Qwen3 tokenizer)\nnode     ${node.url}\ntrainer  ${listener.url}\n`)

    const client = openControlClient(node.url, node.token)
    const stopEvents = new AbortController()
    const events = await client.openEvents(stopEvents.signal)
    const stages = events === null ? Promise.resolve() : showStages(events, stopEvents.signal)
    closing.unshift(async () => {
      stopEvents.abort()
      await stages
    })
    const submitted = await client.post('/rollout/task/submit', readTask(listener.url))
    if (submitted.status !== 200) throw new Error(`the task was not accepted: ${submitted.detail}`)
    const { result, idempotencyKey } = await Promise.race([
      listener.received,
      rejection(AbortSignal.timeout(DEADLINE_MS), () => new Error(`no callback within ${DEADLINE_MS} ms`)),
      rejection(interrupted.signal, () => interrupted.signal.reason),
    ])
    stopEvents.abort()
    await stages
    return await report(result, idempotencyKey)
  } finally {
    for (const close of closing) await close()
    rmSync(folder, { recursive: true, force: true })
  }
}

function readTask(callbackUrl: string): Readonly<Record<string, unknown>> {
  const task: Readonly<Record<string, unknown>> = JSON.parse(
    readFileSync(join(here, 'task.json'), 'utf8').replaceAll('examples/demo/repo', join(here, 'repo')),
  )
  return { ...task, callback_url: callbackUrl }
}

/** One column per session, one line per change. */
async function showStages(events: AsyncIterable<ControlEvent>, stopped: AbortSignal): Promise<void> {
  const columns = new Map<string, number>()
  const current: string[] = []
  try {
    for await (const { type, data } of events) {
      if (type !== 'session.state_changed' || typeof data !== 'object' || data === null) continue
      const { session_id: session, status } = data as { readonly session_id: string; readonly status: string } // the feed's own shape
      const column = columns.get(session) ?? columns.size
      columns.set(session, column)
      current[column] = status
      say(`  ${Array.from(current, (text) => (text ?? '').padEnd(13)).join(' ')}`)
    }
  } catch (error) {
    if (!stopped.aborted) say(`  (no more stages to show: ${messageOf(error)})`)
  }
}

async function report(task: TaskResult, idempotencyKey: string): Promise<boolean> {
  say(`\ncallback received: task ${task.task_id} ${task.status}, idempotency key ${idempotencyKey}\n`)
  say('  session                                        outcome     reward  calls  traces  tokens  trained')
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)
  const rows = task.results.map((session) => {
    const { traces } = session.trajectory
    const own = session.metadata.polar_node
    return {
      session_id: session.session_id,
      outcome: own?.outcome ?? session.status,
      reward: own?.reward ?? null,
      calls: own?.calls ?? 0,
      traces: traces.length,
      tokens: sum(traces.map((trace) => trace.prompt_ids.length + trace.response_ids.length)),
      trained_tokens: sum(traces.map((trace) => sum(trace.loss_mask))),
    }
  })
  for (const row of rows) {
    emit({ type: 'session', ...row })
    const cells = [
      row.outcome.padEnd(11),
      String(row.reward ?? '–').padStart(6),
      ...[row.calls, row.traces, row.tokens, row.trained_tokens].map((n) => String(n).padStart(7)),
    ]
    say(`  ${row.session_id.padEnd(46)} ${cells.join('')}`)
  }
  const solved = task.results.find((session) => session.metadata.polar_node?.reward === 1)
  const trace = solved?.trajectory.traces[0]
  if (trace !== undefined && !isJson) await showTrace(trace)

  const rewards = rows.map((row) => row.reward)
  const problems = [
    ...(task.status === 'completed' ? [] : [`the task ended ${task.status}`]),
    ...(rewards.includes(0) && rewards.includes(1) ? [] : [`rewards 0 and 1 should both occur: ${JSON.stringify(rewards)}`]),
    ...rows.filter((row) => row.outcome !== 'completed').map((row) => `session ${row.session_id} ended ${row.outcome}`),
    ...rows.filter((row) => row.calls < 2 || row.trained_tokens === 0).map((row) => `session ${row.session_id} was no multi-turn rollout`),
    ...(idempotencyKey === '' ? ['the callback had no idempotency key'] : []),
  ]
  emit({
    type: 'summary',
    task_id: task.task_id,
    status: task.status,
    sessions: rows.length,
    solved: rewards.filter((reward) => reward === 1).length,
    ok: problems.length === 0,
    problems,
  })
  for (const problem of problems) process.stderr.write(`demo: ${problem}\n`)
  return problems.length === 0
}

/** Sampled tokens stand in ⟦ ⟧ (and in colour on a terminal): those have mask 1; everything else is context. */
async function showTrace(trace: Trace): Promise<void> {
  const qwen = await loadQwen()
  const isColoured = process.stdout.isTTY === true
  const [on, off] = isColoured ? ['\x1b[1;32m⟦', '⟧\x1b[0m'] : ['⟦', '⟧']
  say(`\none trace, decoded: ${trace.prompt_ids.length} prompt tokens, then ⟦sampled, trained⟧ and context in turn\n`)
  let text = ''
  for (let start = 0; start < trace.response_ids.length; ) {
    const isTrained = trace.loss_mask[start] === 1
    let end = start
    while (end < trace.response_ids.length && (trace.loss_mask[end] === 1) === isTrained) end += 1
    const span = printable(qwen.decode(trace.response_ids.slice(start, end)))
    text += isTrained ? on + span + off : span
    start = end
  }
  say(text.replace(/^/gm, '  | '))
}

/** What an agent wrote must not steer the terminal it is shown on. */
function printable(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, '\u{fffd}')
}

function rejection(signal: AbortSignal, reason: () => unknown): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(reason())
    signal.addEventListener('abort', () => reject(reason()))
  })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

hearInterrupts()
try {
  const isGood = await demo()
  process.exitCode ??= isGood ? 0 : 1
} catch (error) {
  process.stderr.write(`demo: ${messageOf(error)}\n`)
  process.exitCode ??= 1
}
