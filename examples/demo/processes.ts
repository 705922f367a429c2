// The demo's long-lived processes, each started by its own command and stopped at the end: a node, and with --scripted an engine.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'

const root = resolve(import.meta.dirname, '../..')
const polar = join(root, 'bin/polar.js')
const START_MS = 60_000

type Running = { stop(): Promise<void> }

export async function startScriptedEngine(script: string, interrupted: AbortSignal): Promise<Running & DemoEngine> {
  const model = 'demo-policy'
  const child = run(['engine', '--scripted', '--script', script, '--port', '0', '--model', model, '--ms-per-token', '2'])
  const url = await firstMatch(child, interrupted, (line) => /(http:\/\/\S+)/.exec(line)?.[1] ?? null)
  return { url, model, about: 'scripted, real Qwen3 tokenizer', stop: () => stop(child, interrupted) }
}

/** Who answers the agents' calls. */
export type DemoEngine = { readonly url: string; readonly model: string; readonly about: string }

type DemoNode = Running & { readonly url: string; readonly token: string; readonly engine: DemoEngine }

/** A node with its data in `folder`, taking free ports. Without a scripted engine it is left to its own, the real model. */
export async function startNode(folder: string, scripted: DemoEngine | null, interrupted: AbortSignal): Promise<DemoNode> {
  const config = join(folder, 'polar.yaml')
  const served = scripted === null ? {} : { model_served: scripted.model, inference: { engine: 'vllm', base_url: scripted.url } }
  writeFileSync(
    config,
    JSON.stringify({
      rollout: { port: 0 },
      gateway: { nodes: [{ id: 'demo', port: 0, ...served }] },
      polar_node: { data_dir: join(folder, 'data'), upload_roots: [import.meta.dirname] },
    }),
  )
  const child = run(['serve', '--json', '--config', config])
  const found: { url?: string; token?: string; engine?: DemoEngine } = scripted === null ? {} : { engine: scripted }
  await firstMatch(child, interrupted, (line) => {
    const event = line.startsWith('{') ? (JSON.parse(line) as Readonly<Record<string, string>>) : {} // the command's own JSON lines
    if (event.event === 'control' && event.url !== undefined) found.url = event.url
    if (event.event === 'token' && event.token !== undefined) found.token = event.token
    if (event.event === 'embedded-engine' && event.url !== undefined && event.model !== undefined)
      found.engine = {
        url: event.url,
        model: event.model,
        about: `embedded: a transformer of ${(Number(event.parameters) / 1e6).toPrecision(2)} M parameters`,
      }
    return event.event === 'ready' ? line : null
  })
  const { url, token, engine } = found
  if (url === undefined || token === undefined || engine === undefined) throw new Error('the node did not say where it listens')
  return { url, token, engine, stop: () => stop(child, interrupted) }
}

function run(args: readonly string[]): ChildProcess {
  return spawn(process.execPath, [polar, ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
}

/** What `find` makes of the first line it accepts. A process that does not say it is stopped. */
async function firstMatch(child: ChildProcess, interrupted: AbortSignal, find: (line: string) => string | null): Promise<string> {
  const { stdout, stderr } = child
  if (stdout === null || stderr === null) throw new Error('the process has no output')
  let complaints = ''
  stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints = (complaints + text).slice(-2_000)
  })
  const lines = createInterface({ input: stdout })
  const { promise, resolve: settle, reject } = Promise.withResolvers<string>()
  const timer = setTimeout(() => reject(new Error(`not ready after ${START_MS} ms: ${complaints}`)), START_MS)
  const giveUp = (): void => reject(interrupted.reason)
  if (interrupted.aborted) giveUp()
  interrupted.addEventListener('abort', giveUp)
  lines.on('line', (line) => {
    const found = find(line)
    if (found !== null) settle(found)
  })
  child.once('exit', (code) => reject(interrupted.reason ?? new Error(`ended with exit code ${code}: ${complaints}`)))
  try {
    return await promise
  } catch (error) {
    await stop(child, interrupted)
    throw error
  } finally {
    clearTimeout(timer)
    interrupted.removeEventListener('abort', giveUp)
  }
}

/** A node that is told to stop again does not wait for its running sessions: nobody does after an interruption. */
async function stop(child: ChildProcess, interrupted: AbortSignal): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  const hurry = setInterval(() => (interrupted.aborted ? child.kill('SIGTERM') : null), 300)
  const killer = setTimeout(() => child.kill('SIGKILL'), 30_000)
  await gone
  clearInterval(hurry)
  clearTimeout(killer)
}
