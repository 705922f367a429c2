// Sandboxes as folders and process groups of this host, without isolation: for trusted agents, tests and the demo.
import type { ChildProcess } from 'node:child_process'
import { chmod, cp, lstat, mkdir, readdir, realpath, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { PrepareAction } from '../contract/task.ts'
import type { Clock, Random } from '../kernel/clock.ts'
import { collectLogs } from './agent-logs.ts'
import { readBounded, readTail } from './output-file.ts'
import { endTree } from './process-tree.ts'
import { awaitDrained, awaitStatus, readStatus, startRun, treeOfRun, treeOfSandbox } from './run.ts'
import type {
  Command,
  ExecResult,
  Fallible,
  ProcessExit,
  ProcessRef,
  Runtime,
  RuntimeError,
  SandboxRef,
  SandboxSpec,
  StopOptions,
} from './runtime.ts'
import {
  createFolder,
  folderOf,
  LOCAL,
  listFolders,
  locate,
  logsFolder,
  NO_RECORD,
  readRecord,
  refOf,
  type SandboxRecord,
} from './sandbox-folder.ts'
import { upload } from './upload.ts'

export type LocalRuntimeOptions = {
  /** Host folder of all sandboxes; made when missing, readable by the owner only. */
  readonly root: string
  /** Host folders from which tasks may upload. */
  readonly uploadRoots: readonly string[]
  /** Kept of each output stream of each command; a file never grows past twice this and 8 MiB. */
  readonly maxOutputBytes: number
  /** PATH of commands that do not bring their own. */
  readonly path: string
  readonly clock: Clock
  readonly random: Random
}

/** After a timeout a command gets this long to end by itself. */
const TIMEOUT_GRACE_MS = 500
/** Node fires a longer timer at once, which would end a command that has all the time in the world. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1
const MAX_BACKOFF_MS = 5000
const LABEL_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/
const LOOPBACK = '127.0.0.1,localhost,::1'

export function openLocalRuntime(options: LocalRuntimeOptions): Runtime {
  const root = resolve(options.root)
  // Supervisors started by this process: their exit event is the first news of their end.
  const supervisors = new Map<string, ChildProcess>()
  let runCount = 0

  async function start(spec: SandboxSpec): Promise<Fallible<{ readonly sandbox: SandboxRef; readonly notes: readonly string[] }>> {
    try {
      const sandbox = await createFolder(root, `sbx-${options.random.hex(8)}`, spec)
      return { ok: true, value: { sandbox, notes: notesOn(spec) } }
    } catch (error) {
      return failed('start-failed', textOf(error))
    }
  }

  async function launch(sandbox: SandboxRef, command: Command): Promise<Fallible<ProcessRef>> {
    const known = await find(sandbox)
    if (!known.ok) return known
    const { ref, record } = known.value
    if (!LABEL_PATTERN.test(command.label)) return failed('launch-failed', `label '${command.label}' cannot name a log file`)
    const cwd = await locate(ref, record, command.cwd ?? ref.workdir)
    if (!cwd.ok) return failed('launch-failed', `cwd ${cwd.detail}`)
    if ((await lstat(cwd.path).catch(() => null))?.isDirectory() !== true)
      return failed('launch-failed', `cwd '${command.cwd}' is no folder`)
    runCount += 1
    // The random part keeps names apart from those given before a restart of polar-node.
    const name = `${command.label}-${runCount}-${options.random.hex(3)}`
    const env = { ...cleanEnvironment(ref, options.path), ...record.env, ...command.env }
    try {
      const run = await startRun({ sandbox: ref, name, command, cwd: cwd.path, env, maxOutputBytes: options.maxOutputBytes })
      supervisors.set(run.ref.statusFile, run.supervisor)
      run.supervisor.once('exit', () => supervisors.delete(run.ref.statusFile))
      return { ok: true, value: run.ref }
    } catch (error) {
      return failed('launch-failed', textOf(error))
    }
  }

  async function wait(process: ProcessRef, signal: AbortSignal): Promise<ProcessExit> {
    const supervisor = supervisors.get(process.statusFile) ?? null
    const status = await awaitStatus(process, supervisor, signal)
    if (status !== null) {
      await awaitDrained(process, supervisor)
      return status
    }
    // A supervisor that was killed leaves its command running: gone must mean gone.
    if (!signal.aborted) await endTree(await treeOfRun(process), 0, options.clock)
    return { type: 'lost' }
  }

  async function kill(process: ProcessRef, graceMs: number): Promise<boolean> {
    const isGone = await endTree(await treeOfRun(process), graceMs, options.clock)
    await awaitDrained(process, supervisors.get(process.statusFile) ?? null)
    return isGone
  }

  async function exec(sandbox: SandboxRef, command: Command, timeoutMs: number): Promise<Fallible<ExecResult>> {
    const startedMs = options.clock.nowMs()
    const launched = await launch(sandbox, command)
    if (!launched.ok) return launched
    const process = launched.value
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), Math.min(Math.max(0, timeoutMs), LONGEST_TIMEOUT_MS))
    const ended = await wait(process, deadline.signal)
    clearTimeout(timer)
    let exit: ExecResult['exit'] = ended
    if (ended.type === 'lost' && deadline.signal.aborted) {
      // The command may have ended between the deadline and this look; a status that is there is the truth.
      exit = (await readStatus(process)) ?? { type: 'timeout' }
      await kill(process, TIMEOUT_GRACE_MS)
    }
    const [stdout, stderr] = await Promise.all([
      readTail(process.stdoutFile, options.maxOutputBytes),
      readTail(process.stderrFile, options.maxOutputBytes),
    ])
    const durationMs = options.clock.nowMs() - startedMs
    return {
      ok: true,
      value: { exit, stdout: stdout.text, stderr: stderr.text, truncated: stdout.truncated || stderr.truncated, durationMs },
    }
  }

  async function prepare(sandbox: SandboxRef, action: PrepareAction, timeoutMs: number): Promise<Fallible<ExecResult | null>> {
    const deadlineMs = options.clock.nowMs() + timeoutMs
    for (let attempt = 1; ; attempt += 1) {
      const remainingMs = deadlineMs - options.clock.nowMs()
      if (remainingMs <= 0) return failed('timeout', `prepare ${action.type} did not succeed within ${timeoutMs} ms`)
      const result = await perform(sandbox, action, remainingMs)
      const hasSucceeded = result.ok && (result.value === null || (result.value.exit.type === 'exited' && result.value.exit.code === 0))
      const isFinal = !result.ok && (result.error.code === 'upload-refused' || result.error.code === 'sandbox-gone')
      if (hasSucceeded || isFinal || attempt >= action.max_attempts) return result
      const backoffMs = Math.min(action.retry_backoff_seconds * 1000 * 2 ** (attempt - 1), MAX_BACKOFF_MS)
      await delay(Math.max(0, Math.min(backoffMs, deadlineMs - options.clock.nowMs())))
    }
  }

  async function perform(sandbox: SandboxRef, action: PrepareAction, timeoutMs: number): Promise<Fallible<ExecResult | null>> {
    if (action.type === 'exec') {
      const cwd = action.cwd === undefined ? {} : { cwd: action.cwd }
      return exec(sandbox, { command: action.command, env: action.env, label: 'prepare', ...cwd }, timeoutMs)
    }
    const target = await find(sandbox, action.target)
    if (!target.ok) return target
    return upload(action.type, action.source, target.value.path, options.uploadRoots)
  }

  async function write(sandbox: SandboxRef, path: string, content: string | Uint8Array, mode: number): Promise<Fallible<void>> {
    const target = await find(sandbox, path)
    if (!target.ok) return target
    try {
      await mkdir(dirname(target.value.path), { recursive: true, mode: 0o700 })
      // A new file each time: the mode holds from the first byte, and a file the agent has open is not written into.
      await rm(target.value.path, { force: true })
      await writeFile(target.value.path, content, { mode, flag: 'wx' })
      return { ok: true, value: undefined }
    } catch (error) {
      return failed('upload-failed', textOf(error))
    }
  }

  async function read(sandbox: SandboxRef, path: string, maxBytes: number): Promise<Fallible<Uint8Array>> {
    const source = await find(sandbox, path)
    if (!source.ok) return source.error.code === 'upload-refused' ? failed('download-failed', source.error.detail) : source
    const content = await readBounded(source.value.path, maxBytes)
    return content.ok ? { ok: true, value: content.bytes } : failed('download-failed', `'${path}': ${content.detail}`)
  }

  async function list(labels: Readonly<Record<string, string>>): Promise<readonly SandboxRef[]> {
    const found: SandboxRef[] = []
    for (const folder of await listFolders(root)) {
      const ref = refOf(folder, (await readRecord(folder)) ?? NO_RECORD)
      if (Object.entries(labels).every(([name, value]) => ref.labels[name] === value)) found.push(ref)
    }
    return found
  }

  async function attach(sandbox: SandboxRef): Promise<Fallible<SandboxRef>> {
    const known = await find(sandbox)
    return known.ok ? { ok: true, value: known.value.ref } : known
  }

  async function stop(sandbox: SandboxRef, { keepLogs, agentLogs = [] }: StopOptions): Promise<void> {
    const folder = folderOf(await realRoot(), sandbox.id)
    if (folder === null || (await lstat(folder).catch(() => null)) === null) return
    const record = (await readRecord(folder)) ?? NO_RECORD
    await endTree(await treeOfSandbox(refOf(folder, record), record.bornTicks), 0, options.clock)
    if (keepLogs !== null) {
      await moveLogs(logsFolder(folder), keepLogs)
      await collectLogs(refOf(folder, record).home, agentLogs, join(keepLogs, 'home'))
    }
    await removeFolder(folder)
    // A command that was being launched as the first look was taken finds its folder gone, but may live on: it is looked for once more.
    await endTree(await treeOfSandbox(refOf(folder, record), record.bornTicks), 0, options.clock)
  }

  const realRoot = (): Promise<string> => realpath(root).catch(() => root)

  /** What is on disk decides: a reference from before a restart, or one that was tampered with, cannot point elsewhere. */
  async function find(sandbox: SandboxRef): Promise<Fallible<{ readonly ref: SandboxRef; readonly record: SandboxRecord }>>
  async function find(sandbox: SandboxRef, path: string): Promise<Fallible<{ readonly path: string }>>
  async function find(
    sandbox: SandboxRef,
    path?: string,
  ): Promise<Fallible<{ readonly ref: SandboxRef; readonly record: SandboxRecord; readonly path: string }>> {
    const folder = folderOf(await realRoot(), sandbox.id)
    const record = folder === null ? null : await readRecord(folder)
    if (folder === null || record === null) return failed('sandbox-gone', `no local sandbox '${sandbox.id}'`)
    const ref = refOf(folder, record)
    if (path === undefined) return { ok: true, value: { ref, record, path: folder } }
    const located = await locate(ref, record, path)
    return located.ok ? { ok: true, value: { ref, record, path: located.path } } : failed('upload-refused', located.detail)
  }

  return {
    backend: LOCAL,
    isolation: 'none',
    start,
    launch,
    wait,
    kill,
    exec,
    prepare,
    writeFile: write,
    readFile: read,
    list,
    attach,
    stop,
    modelUrl: (_sandbox, port) => `http://127.0.0.1:${port}`,
  }
}

function notesOn(spec: SandboxSpec): readonly string[] {
  const notes = ['local: no isolation; a process that hides from its environment, session and working folder may survive a kill']
  if (spec.image !== null) notes.push(`local: image '${spec.image}' is not used`)
  if (spec.cpus !== null) notes.push('local: cpus is not enforced')
  if (spec.memoryMb !== null) notes.push('local: memory_mb is not enforced')
  if (!spec.allowInternet) notes.push('local: allow_internet false is not enforced')
  return notes
}

/** Nothing of polar-node's own environment passes but PATH: no secrets, and no proxy that would capture model calls. */
function cleanEnvironment(ref: SandboxRef, path: string): Readonly<Record<string, string>> {
  return {
    PATH: path,
    HOME: ref.home,
    TMPDIR: join(ref.folder, 'tmp'),
    LANG: 'C.UTF-8',
    SHELL: '/bin/sh',
    NO_PROXY: LOOPBACK,
    no_proxy: LOOPBACK,
  }
}

/** Regular files only: a link planted among the logs must not lead a later reader elsewhere. What cannot be moved is lost with the sandbox. */
async function moveLogs(from: string, to: string): Promise<void> {
  const entries = await readdir(from, { withFileTypes: true }).catch(() => [])
  await mkdir(to, { recursive: true, mode: 0o700 }).catch(() => {})
  for (const entry of entries) {
    if (!entry.isFile()) continue
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    // Another file system than the sandboxes': copied, since removal follows.
    await rename(source, target).catch(() => cp(source, target).catch(() => {}))
  }
}

/** An agent may have taken its own rights on folders away; they are given back where removal fails. */
async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 })
  } catch {
    await openFolders(folder)
    await rm(folder, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 })
  }
}

async function openFolders(folder: string): Promise<void> {
  await chmod(folder, 0o700).catch(() => {})
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    if (entry.isDirectory()) await openFolders(join(folder, entry.name))
  }
}

function failed(code: RuntimeError['code'], detail: string): { readonly ok: false; readonly error: RuntimeError } {
  return { ok: false, error: { code, detail } }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
