// A runtime backend in virtual time: sandboxes that start late or not at all, processes that vanish or do not heed TERM.
import type { Random, Scheduler } from '../../../src/kernel/clock.ts'
import type {
  Command,
  ExecResult,
  Fallible,
  ProcessExit,
  ProcessRef,
  Runtime,
  RuntimeError,
  SandboxRef,
} from '../../../src/runtime/runtime.ts'
import { sleep } from './time.ts'

export type RuntimeFaults = {
  /** Chance of a failure per operation. */
  readonly rate: number
  readonly maxLatencyMs: number
  /** How long a start that is slow takes at most. */
  readonly slowStartMs: number
}

export type RuntimeOptions = {
  readonly scheduler: Scheduler
  readonly random: Random
  readonly faults: RuntimeFaults
  /** Runs until it ends or `killed` is aborted. */
  readonly runAgent: (command: Command, attempt: string, killed: AbortSignal) => Promise<ProcessExit>
}

/** The most that a gateway had of each kind at one time; a sandbox counts from the call of `start` to the end of `stop`. */
export type Peaks = { agents: number; graders: number; running: number }

export type SimulatedRuntime = Runtime & {
  peaks(gateway: string): Readonly<Peaks>
  liveSandboxes(): number
  liveProcesses(): number
}

type Process = {
  readonly ref: ProcessRef
  readonly sandbox: SandboxRef
  readonly kill: AbortController
  readonly ended: Promise<ProcessExit>
}

export function openSimulatedRuntime({ scheduler, random, faults, runAgent }: RuntimeOptions): SimulatedRuntime {
  const sandboxes = new Map<string, SandboxRef>()
  const starting = new Map<string, Readonly<Record<string, string>>>()
  const processes = new Map<number, Process>()
  const peaks = new Map<string, Peaks>()
  let nextId = 1

  const latency = (): Promise<void> => sleep(scheduler, random.next() * faults.maxLatencyMs)
  const isFaulty = (): boolean => random.next() < faults.rate
  const gatewayOf = (labels: Readonly<Record<string, string>>): string => labels['polar.gateway'] ?? ''

  function peaksOf(gateway: string): Peaks {
    const known = peaks.get(gateway) ?? { agents: 0, graders: 0, running: 0 }
    peaks.set(gateway, known)
    return known
  }
  function measure(gateway: string): void {
    const labels = [...starting.values(), ...[...sandboxes.values()].map((sandbox) => sandbox.labels)].filter(
      (own) => gatewayOf(own) === gateway,
    )
    const graders = labels.filter((own) => own['polar.purpose'] === 'grader').length
    const running = [...processes.values()].filter(({ sandbox }) => gatewayOf(sandbox.labels) === gateway).length
    const peak = peaksOf(gateway)
    peak.agents = Math.max(peak.agents, labels.length - graders)
    peak.graders = Math.max(peak.graders, graders)
    peak.running = Math.max(peak.running, running)
  }

  async function exec(sandbox: SandboxRef, command: Command): Promise<Fallible<ExecResult>> {
    await latency()
    if (!sandboxes.has(sandbox.id)) return failed('sandbox-gone')
    if (isFaulty()) return random.next() < 0.5 ? failed('launch-failed') : finished(1, 'simulated failure')
    return finished(0, command.label === 'grade' ? '/grade\nsha1\n' : '')
  }

  async function end(process: Process, graceMs: number): Promise<void> {
    const heedsTerm = random.next() < 0.7
    await sleep(scheduler, heedsTerm ? random.next() * Math.min(graceMs, 50) : graceMs)
    process.kill.abort()
    await process.ended
  }

  return {
    backend: 'simulated',
    isolation: 'container',
    async start(spec) {
      const id = `sim-${nextId++}`
      starting.set(id, spec.labels)
      measure(gatewayOf(spec.labels))
      await latency()
      if (isFaulty()) await sleep(scheduler, random.next() * faults.slowStartMs)
      starting.delete(id)
      if (isFaulty()) return failed('start-failed')
      const sandbox: SandboxRef = { backend: 'simulated', id, labels: spec.labels, folder: '', workdir: '/workspace', home: '/home' }
      sandboxes.set(id, sandbox)
      return { ok: true, value: { sandbox, notes: [] } }
    },
    async launch(sandbox, command) {
      await latency()
      if (!sandboxes.has(sandbox.id)) return failed('sandbox-gone')
      if (isFaulty()) return failed('launch-failed')
      const pid = nextId++
      const ref: ProcessRef = { sandbox: sandbox.id, pid, startTicks: 0, stdoutFile: '', stderrFile: '', statusFile: '' }
      const kill = new AbortController()
      const ended = runAgent(command, sandbox.labels['polar.attempt'] ?? '', kill.signal).then((exit) => {
        processes.delete(pid)
        return exit
      })
      processes.set(pid, { ref, sandbox, kill, ended })
      measure(gatewayOf(sandbox.labels))
      return { ok: true, value: ref }
    },
    async wait(process, signal) {
      const known = processes.get(process.pid)
      if (known === undefined || signal.aborted) return { type: 'lost' }
      const stopped = new Promise<ProcessExit>((resolve) =>
        signal.addEventListener('abort', () => resolve({ type: 'lost' }), { once: true }),
      )
      return Promise.race([known.ended, stopped])
    },
    async kill(process, graceMs) {
      const known = processes.get(process.pid)
      if (known !== undefined) await end(known, graceMs)
      return true
    },
    exec,
    async prepare(sandbox, action) {
      return action.type === 'exec' ? exec(sandbox, { command: action.command, env: {}, label: 'prepare' }) : { ok: true, value: null }
    },
    async writeFile(sandbox) {
      await latency()
      if (!sandboxes.has(sandbox.id)) return failed('sandbox-gone')
      return isFaulty() ? failed('upload-failed') : { ok: true, value: undefined }
    },
    async readFile(sandbox) {
      await latency()
      if (!sandboxes.has(sandbox.id)) return failed('sandbox-gone')
      return isFaulty() ? failed('download-failed') : { ok: true, value: new Uint8Array() }
    },
    list: async () => [...sandboxes.values()],
    attach: async (sandbox) => (sandboxes.has(sandbox.id) ? { ok: true, value: sandbox } : failed('sandbox-gone')),
    async stop(sandbox) {
      for (const process of [...processes.values()]) if (process.sandbox.id === sandbox.id) await end(process, 0)
      await latency()
      sandboxes.delete(sandbox.id)
    },
    modelUrl: (_sandbox, port) => `http://model-port:${port}`,
    peaks: peaksOf,
    liveSandboxes: () => sandboxes.size + starting.size,
    liveProcesses: () => processes.size,
  }
}

function failed(code: RuntimeError['code']): { readonly ok: false; readonly error: RuntimeError } {
  return { ok: false, error: { code, detail: `simulated ${code}` } }
}

function finished(code: number, stdout: string): { readonly ok: true; readonly value: ExecResult } {
  return { ok: true, value: { exit: { type: 'exited', code }, stdout, stderr: '', truncated: false, durationMs: 1 } }
}
