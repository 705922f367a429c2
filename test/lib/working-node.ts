// A real `polar serve` with sessions that run until the test lets them end, a trainer that takes callbacks, and a look at what is left.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { vi } from 'vitest'
import { openScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { type Serving, startServing } from './polar-process.ts'

type Callback = {
  readonly task_id: string
  readonly status: string
  readonly results: readonly {
    readonly session_id: string
    readonly status: string
    readonly trajectory: { readonly error: string | null }
  }[]
}

/** Leaves a process behind in a session of its own, makes one model call, says so, and ends when the gate is open. */
const AGENT = `
import { spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
const [folder] = process.argv.slice(2)
spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' }).unref()
const reply = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY },
  body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] }),
})
if (!reply.ok) throw new Error(await reply.text())
writeFileSync(folder + '/working/' + process.pid, '')
const gate = setInterval(() => {
  if (existsSync(folder + '/gate')) clearInterval(gate)
}, 20)
`

/** `nodeKeys` go into the gateway's entry of polar.yaml. */
export async function openWorkplace(nodeKeys: Readonly<Record<string, unknown>> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'polar-work-'))
  mkdirSync(join(folder, 'working'))
  writeFileSync(join(folder, 'agent.mjs'), AGENT)
  const engine = await openScriptedEngine({ port: 0, generator: {}, model: 'm' })
  const callbacks: Callback[] = []
  const trainer = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    callbacks.push(JSON.parse(body))
    response.writeHead(200).end()
  })
  await new Promise<void>((listening) => trainer.listen(0, '127.0.0.1', listening))
  const callbackUrl = `http://127.0.0.1:${(trainer.address() as AddressInfo).port}/result`
  const config = join(folder, 'polar.yaml')
  const data = join(folder, 'data')
  const node = { id: 'g', port: 0, model_served: 'm', inference: { engine: 'vllm', base_url: engine.url }, ...nodeKeys }
  writeFileSync(config, JSON.stringify({ rollout: { port: 0 }, gateway: { nodes: [node] }, polar_node: { data_dir: data } }))
  const started: Serving[] = []

  return {
    folder,
    data,
    config,
    callbacks,
    async start(): Promise<Serving> {
      const serving = await startServing(config)
      started.push(serving)
      return serving
    },
    async submit({ url, token }: Serving, task: string, samples: number): Promise<void> {
      const response = await fetch(`${url}/rollout/task/submit`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: JSON.stringify({
          task_id: task,
          instruction: 'work until the gate opens',
          num_samples: samples,
          agent: { harness: 'shell', custom_shell: { command: `exec node ${folder}/agent.mjs ${folder}` } },
          runtime: { backend: 'local' },
          callback_url: callbackUrl,
        }),
      })
      if (!response.ok) throw new Error(await response.text())
    },
    /** Resolves when that many agents have had an answer of the model. */
    async working(agents: number): Promise<void> {
      await vi.waitUntil(() => readdirSync(join(folder, 'working')).length >= agents, { timeout: 60_000, interval: 20 })
    },
    openGate: () => writeFileSync(join(folder, 'gate'), ''),
    sandboxes: () => readdirSync(join(data, 'sandboxes')),
    /** Command lines of every process that has this place in its arguments or its environment. */
    processes: () => processesNaming(folder),
    async close(): Promise<void> {
      for (const serving of started) await serving.stop('SIGKILL')
      for (const { pid } of processesNaming(folder)) process.kill(pid, 'SIGKILL')
      await engine.close()
      await new Promise((closed) => trainer.close(closed))
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export type Workplace = Awaited<ReturnType<typeof openWorkplace>>

export function processesNaming(folder: string): readonly { readonly pid: number; readonly command: string }[] {
  const found: { readonly pid: number; readonly command: string }[] = []
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const command = readFileSync(`/proc/${name}/cmdline`, 'latin1')
      const environment = readFileSync(`/proc/${name}/environ`, 'latin1')
      if (`${command}${environment}`.includes(folder)) found.push({ pid: Number(name), command: command.replaceAll('\0', ' ') })
    } catch {
      // Gone since it was listed, or another user's.
    }
  }
  return found
}
