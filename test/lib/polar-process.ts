// A real `polar` process for end-to-end tests: run to its end, or started until it says it is ready.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { vi } from 'vitest'

export const root = resolve(import.meta.dirname, '../..')
const polar = resolve(root, 'bin/polar.js')

// Processes: a machine with much else to do takes longer than one test is given elsewhere.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

export type Finished = { readonly code: number | null; readonly stdout: string; readonly stderr: string }

export async function runToEnd(command: string, args: readonly string[], options: { readonly cwd?: string } = {}): Promise<Finished> {
  const child = spawn(command, args, { cwd: options.cwd ?? root, stdio: ['ignore', 'pipe', 'pipe'] })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}

export const runPolar = (...args: readonly string[]): Promise<Finished> => runToEnd(process.execPath, [polar, ...args])

export type Serving = {
  readonly child: ChildProcess
  readonly url: string
  readonly token: string
  readonly modelPort: number
  /** What its start had to say. */
  readonly notes: readonly string[]
  /** The last event of each name up to `ready`. */
  readonly said: ReadonlyMap<string, Readonly<Record<string, unknown>>>
  /** All it has printed beside its events. */
  stderr(): string
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

/** `polar serve --json` with this configuration file; ports are taken from what it says. */
export async function startServing(config: string): Promise<Serving> {
  const child = spawn(process.execPath, [polar, 'serve', '--json', '--config', config], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text
  })
  const notes: string[] = []
  const said = new Map<string, Readonly<Record<string, unknown>>>()
  for await (const line of createInterface({ input: child.stdout })) {
    const event: Readonly<Record<string, unknown>> = JSON.parse(line)
    said.set(String(event.event), event)
    if (event.event === 'note') notes.push(String(event.note))
    if (event.event === 'ready') break
  }
  if (!said.has('ready')) throw new Error(`the node did not start: ${complaints}`)
  child.stdout.resume()
  return {
    child,
    url: String(said.get('control')?.url),
    // Said once, at the first start; later it is in the file only.
    token: String(said.get('token')?.token ?? readFileSync(String(said.get('token')?.file), 'utf8').trim()),
    modelPort: Number(said.get('gateway')?.port),
    notes,
    said,
    stderr: () => complaints,
    async stop(signal = 'SIGTERM') {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode
      const gone = once(child, 'exit')
      child.kill(signal)
      const [code] = (await gone) as [number | null]
      return code
    },
  }
}
