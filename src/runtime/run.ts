// One launched command on this host: start it under a supervisor, wait for its status, find its process tree.
import { type ChildProcess, spawn } from 'node:child_process'
import { watch } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findTree, type SessionLeader, startTicksOf, type TreeSelector } from './process-tree.ts'
import type { Command, ProcessExit, ProcessRef, SandboxRef } from './runtime.ts'
import { controlFolder, logsFolder } from './sandbox-folder.ts'
import { PROCESS_MARK, parseStatus, SANDBOX_MARK, SUPERVISOR_NAME, supervisorArguments } from './supervisor.ts'

export type RunSpec = {
  readonly sandbox: SandboxRef
  /** Unique in the sandbox; safe for a file name. */
  readonly name: string
  readonly command: Command
  /** Host path. */
  readonly cwd: string
  /** The whole environment, already clean. */
  readonly env: Readonly<Record<string, string>>
  readonly maxOutputBytes: number
}

/** Nearly every supervisor is gone this soon after its command. */
const FIRST_LOOK_MS = 100
const DAEMON_PATIENCE_MS = 500
/** On a machine with much to do, output may take long to reach its file. */
const DRAIN_PATIENCE_MS = 10_000

/** A file watch can be lost; the status is looked for again this often. */
const RECHECK_MS = 1000

/** Throws what `spawn` or the file system threw. The caller keeps the child only to learn early of the supervisor's end. */
export async function startRun(spec: RunSpec): Promise<{ readonly ref: ProcessRef; readonly supervisor: ChildProcess }> {
  const { sandbox, name } = spec
  const runFolder = join(controlFolder(sandbox.folder), name)
  const stdoutFile = join(logsFolder(sandbox.folder), `${name}.stdout`)
  const stderrFile = join(logsFolder(sandbox.folder), `${name}.stderr`)
  await mkdir(runFolder, { mode: 0o700 })
  await Promise.all([
    // A file, not an argument: no length limit, and nothing of it in a process listing.
    writeFile(join(runFolder, 'command'), spec.command.command, { mode: 0o600 }),
    writeFile(stdoutFile, '', { mode: 0o600 }),
    writeFile(stderrFile, '', { mode: 0o600 }),
  ])
  const args = supervisorArguments({
    runFolder,
    stdoutFile,
    stderrFile,
    maxOutputBytes: spec.maxOutputBytes,
    cwd: spec.cwd,
    sandboxMark: sandbox.id,
    processMark: processMark(sandbox.id, name),
  })
  const supervisor = spawn('/bin/sh', args, { cwd: '/', env: spec.env, detached: true, stdio: 'ignore' })
  await new Promise<void>((resolve, reject) => supervisor.once('spawn', resolve).once('error', reject))
  supervisor.unref()
  const pid = supervisor.pid ?? 0
  // Null only for a supervisor that is already gone: ticks 0 never match a live process.
  const startTicks = startTicksOf(pid) ?? 0
  const ref: ProcessRef = { sandbox: sandbox.id, pid, startTicks, stdoutFile, stderrFile, statusFile: join(runFolder, 'status') }
  return { ref, supervisor }
}

export async function readStatus(ref: ProcessRef): Promise<ProcessExit | null> {
  const text = await readFile(ref.statusFile, 'utf8').catch(() => null)
  return text === null ? null : parseStatus(text)
}

/** Resolves when the status is written, the supervisor is gone, or `signal` aborts; null in the last two cases. */
export async function awaitStatus(ref: ProcessRef, supervisor: ChildProcess | null, signal: AbortSignal): Promise<ProcessExit | null> {
  let wake = () => {}
  let isGone = false
  const onWake = () => wake()
  const onExit = () => {
    isGone = true
    wake()
  }
  const watcher = watchQuietly(dirname(ref.statusFile), onWake)
  supervisor?.once('exit', onExit)
  signal.addEventListener('abort', onWake)
  try {
    for (;;) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve
      })
      const wasGone = isGone || startTicksOf(ref.pid) !== ref.startTicks
      const status = await readStatus(ref)
      if (status !== null) return status
      // Read in this order: a supervisor that was gone before the look had written whatever it would write.
      if (wasGone || signal.aborted) return null
      const timer = setTimeout(onWake, RECHECK_MS)
      await woken
      clearTimeout(timer)
    }
  } finally {
    watcher?.close()
    supervisor?.off('exit', onExit)
    signal.removeEventListener('abort', onWake)
  }
}

/**
 * Resolves when the output that was written before the end is in its files, which is when the supervisor is gone. A daemon left behind on
 * purpose may hold the streams open for ever; then a while must do.
 */
export async function awaitDrained(ref: ProcessRef, supervisor: ChildProcess | null): Promise<void> {
  if (await isGoneWithin(ref, supervisor, FIRST_LOOK_MS)) return
  const hasDaemon = (await findTree(await treeOfRun(ref))).length > 0
  await isGoneWithin(ref, supervisor, hasDaemon ? DAEMON_PATIENCE_MS : DRAIN_PATIENCE_MS)
}

async function isGoneWithin(ref: ProcessRef, supervisor: ChildProcess | null, patienceMs: number): Promise<boolean> {
  const patience = new AbortController()
  const timer = setTimeout(() => patience.abort(), patienceMs)
  const onExit = () => patience.abort()
  supervisor?.once('exit', onExit)
  try {
    for (let pauseMs = 2; startTicksOf(ref.pid) === ref.startTicks; pauseMs = Math.min(pauseMs * 2, 100)) {
      if (patience.signal.aborted) return false
      await delay(pauseMs, undefined, { signal: patience.signal }).catch(() => {})
    }
    return true
  } finally {
    clearTimeout(timer)
    supervisor?.off('exit', onExit)
  }
}

/** Everything of one launched command, without its supervisor. */
export async function treeOfRun(ref: ProcessRef): Promise<TreeSelector> {
  const runFolder = dirname(ref.statusFile)
  const leader = await readLeader(runFolder)
  return {
    // Nothing it started is older than its supervisor.
    bornTicks: ref.startTicks,
    mark: `${PROCESS_MARK}=${processMark(ref.sandbox, runFolder.slice(runFolder.lastIndexOf('/') + 1))}`,
    sessions: leader === null ? [] : [leader],
    folder: null,
    isSupervisor: () => false,
  }
}

/** Everything of a sandbox, supervisors included. */
export async function treeOfSandbox(sandbox: SandboxRef, bornTicks: number): Promise<TreeSelector> {
  const control = controlFolder(sandbox.folder)
  const runs = await readdir(control, { withFileTypes: true }).catch(() => [])
  const leaders = await Promise.all(runs.filter((run) => run.isDirectory()).map((run) => readLeader(join(control, run.name))))
  return {
    bornTicks,
    mark: `${SANDBOX_MARK}=${sandbox.id}`,
    sessions: leaders.filter((leader) => leader !== null),
    folder: sandbox.folder,
    isSupervisor: (args) => args[3] === SUPERVISOR_NAME && args[4]?.startsWith(`${control}/`) === true,
  }
}

const processMark = (sandboxId: string, runName: string): string => `${sandboxId}/${runName}`

async function readLeader(runFolder: string): Promise<SessionLeader | null> {
  const text = await readFile(join(runFolder, 'session'), 'utf8').catch(() => '')
  const match = /^(\d+) (\d+)\n$/.exec(text)
  return match === null ? null : { pid: Number(match[1]), startTicks: Number(match[2]) }
}

function watchQuietly(folder: string, changed: () => void): { close(): void } | null {
  try {
    return watch(folder, { persistent: false }, changed).on('error', () => {})
  } catch {
    return null
  }
}
