// Where agents and graders run. One interface for every backend; a sandbox and a process are plain references that survive this process.
import type { PrepareAction } from '../contract/task.ts'

/** Serialisable: enough to find the sandbox again after a restart of polar-node. */
export type SandboxRef = {
  readonly backend: string
  readonly id: string
  /** What it belongs to: labels are how `list` and the reaper recognise it. */
  readonly labels: Readonly<Record<string, string>>
  /** Host folder that holds the sandbox's home, temporary folder, workspace and logs. */
  readonly folder: string
  /** The working directory as seen from inside. */
  readonly workdir: string
  /** The agent's HOME as seen from inside. */
  readonly home: string
}

/** Serialisable: a process launched detached in a sandbox. */
export type ProcessRef = {
  readonly sandbox: string
  readonly pid: number
  /** Start time of the pid in clock ticks since boot (/proc/<pid>/stat field 22): tells a reused pid apart. */
  readonly startTicks: number
  /** Host files: bounded output and the exit status. */
  readonly stdoutFile: string
  readonly stderrFile: string
  readonly statusFile: string
}

export type Command = {
  /** Run by `/bin/sh -c` inside the sandbox. */
  readonly command: string
  /** Relative to the sandbox's working directory unless absolute. */
  readonly cwd?: string
  readonly env: Readonly<Record<string, string>>
  /** Names the log files of this command; safe for a file name. */
  readonly label: string
}

export type ProcessExit =
  | { readonly type: 'exited'; readonly code: number }
  | { readonly type: 'signalled'; readonly signal: string }
  /** The process is gone and left no status: killed from outside, or its supervisor was. */
  | { readonly type: 'lost' }

export type ExecResult = {
  readonly exit: ProcessExit | { readonly type: 'timeout' }
  /** The last `maxOutputBytes` at most; `truncated` says that earlier output was left out. */
  readonly stdout: string
  readonly stderr: string
  readonly truncated: boolean
  readonly durationMs: number
}

export type SandboxSpec = {
  readonly labels: Readonly<Record<string, string>>
  readonly env: Readonly<Record<string, string>>
  readonly workdir: string | null
  readonly image: string | null
  /** Wanted limits; a backend that cannot enforce one says so in `start`'s notes. */
  readonly cpus: number | null
  readonly memoryMb: number | null
  readonly allowInternet: boolean
}

export type Isolation = 'none' | 'process-namespace' | 'container'

export type RuntimeError = {
  readonly code: 'start-failed' | 'launch-failed' | 'upload-refused' | 'upload-failed' | 'download-failed' | 'sandbox-gone' | 'timeout'
  readonly detail: string
}

export type Fallible<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: RuntimeError }

export type StopOptions = {
  /** A host folder to move the sandbox's logs to. */
  readonly keepLogs: string | null
  /** Files and folders in the agent's home, as seen from inside, that are kept there too, under `home`. */
  readonly agentLogs?: readonly string[]
}

export type Runtime = {
  readonly backend: string
  /** What `kill` guarantees: with `none` a process that left its group and session may survive. */
  readonly isolation: Isolation
  start(spec: SandboxSpec): Promise<Fallible<{ readonly sandbox: SandboxRef; readonly notes: readonly string[] }>>
  /** Starts a process that outlives its launcher; stdin is closed, output and exit status go to files. */
  launch(sandbox: SandboxRef, command: Command): Promise<Fallible<ProcessRef>>
  /** Resolves when the process is gone; aborting `signal` stops waiting, not the process. */
  wait(process: ProcessRef, signal: AbortSignal): Promise<ProcessExit>
  /** TERM, then KILL after `graceMs`, to the whole tree; false when something of it is still seen alive. */
  kill(process: ProcessRef, graceMs: number): Promise<boolean>
  /** launch, wait, collect; on timeout the tree is killed and the result says so. */
  exec(sandbox: SandboxRef, command: Command, timeoutMs: number): Promise<Fallible<ExecResult>>
  /** Runs one prepare action with its attempts. Uploads come only from the operator's upload roots. */
  prepare(sandbox: SandboxRef, action: PrepareAction, timeoutMs: number): Promise<Fallible<ExecResult | null>>
  writeFile(sandbox: SandboxRef, path: string, content: string | Uint8Array, mode: number): Promise<Fallible<void>>
  /** At most `maxBytes`; a larger file is an error, a missing one too. */
  readFile(sandbox: SandboxRef, path: string, maxBytes: number): Promise<Fallible<Uint8Array>>
  list(labels: Readonly<Record<string, string>>): Promise<readonly SandboxRef[]>
  attach(sandbox: SandboxRef): Promise<Fallible<SandboxRef>>
  /** Kills every process of the sandbox and removes its folder. Idempotent. */
  stop(sandbox: SandboxRef, options: StopOptions): Promise<void>
  /** Base URL of a model port on this host as it is reachable from inside the sandbox. */
  modelUrl(sandbox: SandboxRef, port: number): string
}
