// One task, groups of samples: pi fixes a function in scratch repositories, tests grade it, the trajectories arrive by callback.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ensureAgent } from '../../scripts/agents.ts'
import { type ControlClient, openControlClient } from '../../src/cli/control-client.ts'
import { decodeTrace, engineDecoder } from './decoded-trace.ts'
import { type Group, groupLines, readGroup } from './group.ts'
import { type Callback, type Listener, openListener } from './listener.ts'
import { type DemoEngine, startNode, startScriptedEngine } from './processes.ts'
import { showStages } from './stages.ts'

const DEADLINE_MS = 110_000
/** What the real model is asked for: enough that both rewards are likely. The script needs fewer to show both. */
const SAMPLES = 8
const MAX_GROUPS = 3
const here = import.meta.dirname
const options = readOptions()
/** Aborted when the user, or whoever reads the output, goes away in the middle: what was started is stopped all the same. */
const interrupted = new AbortController()

const say = (line: string): void => void (options.json ? null : process.stdout.write(`${line}\n`))
const emit = (record: Readonly<Record<string, unknown>>): void =>
  void (options.json ? process.stdout.write(`${JSON.stringify(record)}\n`) : null)

function readOptions() {
  const known = { json: { type: 'boolean', default: false }, scripted: { type: 'boolean', default: false } } as const
  try {
    return parseArgs({ options: known }).values
  } catch (error) {
    process.stderr.write(`demo: ${messageOf(error)}\nusage: npm run demo -- [--json] [--scripted]\n`)
    process.exit(2)
  }
}

function hearInterrupts(): void {
  const interrupt = (how: string, exitCode: number): void => {
    if (interrupted.signal.aborted) return
    process.exitCode = exitCode
    interrupted.abort(new Error(`${how}: stopping what was started`))
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
    const scripted = options.scripted ? await startScriptedEngine(join(here, 'script.yaml'), interrupted.signal) : null
    if (scripted !== null) closing.unshift(scripted.stop)
    const node = await startNode(folder, scripted, interrupted.signal)
    closing.unshift(node.stop)
    const listener = await openListener()
    closing.unshift(listener.close)
    const { engine } = node
    say(`engine   ${engine.url} (${engine.model}; ${engine.about})\nnode     ${node.url}\ntrainer  ${listener.url}\n`)
    emit({ type: 'engine', kind: options.scripted ? 'scripted' : 'embedded', model: engine.model, url: engine.url })

    const client = openControlClient(node.url, node.token)
    const stopEvents = new AbortController()
    const events = await client.openEvents(stopEvents.signal)
    const stages = events === null ? Promise.resolve() : showStages(events, stopEvents.signal, say)
    closing.unshift(async () => {
      stopEvents.abort()
      await stages
    })
    return await report(await sampleGroups(client, listener), engine)
  } finally {
    for (const close of closing) await close()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Until one teaches: a group whose rewards are all alike is no gradient, and another is sampled in its place. */
async function sampleGroups(client: ControlClient, listener: Listener): Promise<readonly Group[]> {
  const deadline = AbortSignal.timeout(DEADLINE_MS)
  const groups: Group[] = []
  while (groups.length < MAX_GROUPS && !groups.some(({ teaches }) => teaches)) {
    const task = readTask(groups.length + 1, listener.url)
    const submitted = await client.post('/rollout/task/submit', task)
    if (submitted.status !== 200) throw new Error(`the task was not accepted: ${submitted.detail}`)
    const callback = await Promise.race([
      listener.received(task.task_id),
      rejection(deadline, () => new Error(`no callback within ${DEADLINE_MS} ms`)),
      rejection(interrupted.signal, () => interrupted.signal.reason),
    ])
    const group = readGroup(callback)
    groups.push(group)
    showGroup(group, groups.length, callback)
  }
  return groups
}

function readTask(group: number, callbackUrl: string): Readonly<Record<string, unknown>> & { readonly task_id: string } {
  const task: Readonly<Record<string, unknown>> & { readonly task_id: string } = JSON.parse(
    readFileSync(join(here, 'task.json'), 'utf8').replaceAll('examples/demo/repo', join(here, 'repo')),
  )
  const samples = options.scripted ? {} : { num_samples: SAMPLES }
  return { ...task, ...samples, task_id: group === 1 ? task.task_id : `${task.task_id}-${group}`, callback_url: callbackUrl }
}

function showGroup(group: Group, number: number, { result, idempotencyKey }: Callback): void {
  say(`\ncallback received: task ${result.task_id} ${result.status}, idempotency key ${idempotencyKey}\n`)
  for (const line of groupLines(group)) say(line)
  for (const row of group.rows) emit({ type: 'session', group: number, ...row })
  const rewards = group.rows.map(({ reward }) => reward)
  emit({ type: 'group', group: number, task_id: result.task_id, rewards, teaches: group.teaches })
  if (!group.teaches) say(`\nall rewards are alike: this group teaches nothing${number < MAX_GROUPS ? ', another one is sampled\n' : ''}`)
}

async function report(groups: readonly Group[], engine: DemoEngine): Promise<boolean> {
  const solution = groups.findLast((group) => group.solution !== null)?.solution ?? null
  if (solution !== null && !options.json) {
    say(`\none trace, decoded: ${solution.prompt_ids.length} prompt tokens, then ⟦sampled, trained⟧ and context in turn\n`)
    const text = await decodeTrace(solution, engineDecoder(engine.url), process.stdout.isTTY === true)
    say(text.replace(/^/gm, '  | '))
  }
  const rewards = groups.flatMap(({ rows }) => rows.map(({ reward }) => reward))
  const solved = rewards.filter((reward) => reward === 1).length
  say(`\nsolved by ${engine.model}: ${solved} of ${rewards.length} (${Math.round((100 * solved) / rewards.length)} %)`)
  const problems = [
    ...groups.flatMap((group) => group.problems),
    ...(rewards.includes(0) && rewards.includes(1) ? [] : [`rewards 0 and 1 should both occur: ${JSON.stringify(rewards)}`]),
    ...(solution === null ? ['no session was right after several turns'] : []),
  ]
  emit({
    type: 'summary',
    engine: engine.model,
    groups: groups.length,
    sessions: rewards.length,
    solved,
    ok: problems.length === 0,
    problems,
  })
  for (const problem of problems) process.stderr.write(`demo: ${problem}\n`)
  return problems.length === 0
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
