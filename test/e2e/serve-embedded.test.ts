// `polar serve` that is told of no inference server: it samples from a model of its own, survives that model's process, and leaves nothing.
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { runPolar, type Serving, startServing } from '../lib/polar-process.ts'
import { openReplicaNode, type ReplicaNode } from '../lib/replica-node.ts'
import { type TinyModel, writeTinyModel } from '../lib/tiny-model.ts'

let model: TinyModel
beforeAll(() => {
  model = writeTinyModel()
})
afterAll(() => model.remove())

let folder = ''
const started: Serving[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'polar-embedded-'))
})
afterEach(async () => {
  for (const serving of started.splice(0)) await serving.stop('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

/** `embedded` undefined: the file says nothing of it. */
function writeConfig(embedded?: unknown): string {
  const file = join(folder, 'polar.yaml')
  const own = { data_dir: join(folder, 'data'), ...(embedded === undefined ? {} : { embedded }) }
  writeFileSync(file, JSON.stringify({ rollout: { port: 0 }, gateway: { nodes: [{ id: 'g', port: 0 }] }, polar_node: own }))
  return file
}

async function serve(embedded?: unknown): Promise<ReplicaNode> {
  const serving = await startServing(writeConfig(embedded))
  started.push(serving)
  return openReplicaNode(serving, join(folder, 'data', 'logs'))
}

const NOISE = { sequences: 2, max_model_len: 4_096 }
const serveNoise = (): Promise<ReplicaNode> => serve({ ...NOISE, model: model.path })

/** The process of the engine, a child of the node's. */
function enginePid({ serving }: ReplicaNode): number {
  const parent = serving.child.pid
  const children = readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('engine-child') && parentOf(name) === parent
    } catch {
      return false
    }
  })
  expect(children).toHaveLength(1)
  return Number(children[0])
}

/** What the node has done to come to rest, in this order, once it has. */
async function drainSteps({ serving }: ReplicaNode): Promise<readonly unknown[]> {
  const { stdout } = serving.child
  if (stdout === null) throw new Error('the node has no output')
  const steps: unknown[] = []
  for await (const line of createInterface({ input: stdout })) {
    const event: Readonly<Record<string, unknown>> = JSON.parse(line)
    if (event.event === 'drain') steps.push(event.name)
  }
  return steps
}

function parentOf(pid: string): number {
  return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

const isUp = (rows: Awaited<ReturnType<ReplicaNode['replicas']>>): boolean => rows.every(({ state }) => state === 'up')

describe('polar serve without an inference server', () => {
  it('serves the tiny policy of the package, says so, and may train', async () => {
    const node = await serve()
    const { said } = node.serving
    expect(said.get('embedded-engine')).toMatchObject({ model: 'tiny-policy', asked_for: false })
    await node.until(isUp)
    expect(await node.replicas()).toMatchObject([
      { id: 'embedded', embedded: true, tier: 'train', logprob_mode: 'raw', url: said.get('embedded-engine')?.url },
    ])
    expect(await (await node.control('/health')).json()).toEqual({ status: 'ok', nodes: 1, engine: 'embedded' })
    expect((await node.engines('list')).stdout).toMatch(/replica embedded {2}http:\S+ {2}embedded engine {2}up, train/)

    expect(await node.serving.stop()).toBe(0)
  }, 120_000)

  it('trains from its model and knows of which weights, and is drained of that last', async () => {
    const node = await serveNoise()
    await node.submit(2, 3)
    expect((await node.finished()).map(({ outcome, error }) => [outcome, error])).toEqual(Array(2).fill(['completed', null]))
    for (const { trajectory } of await node.results()) {
      expect(trajectory.traces.flatMap(({ loss_mask }) => loss_mask)).toContain(1)
    }
    expect(await node.replicas()).toMatchObject([{ weight_version: 'default' }])
    const pid = enginePid(node)
    const steps = drainSteps(node)
    expect(await node.serving.stop()).toBe(0)
    expect(await steps).toEqual(['admission', 'gateway g', 'sessions', 'callback', 'sandboxes', 'engine'])
    expect([isAlive(pid), node.serving.stderr().includes('engine-lost')]).toEqual([false, false])
  }, 120_000)

  it('stops at once at a second signal while the model writes', async () => {
    const node = await serveNoise()
    await node.until(isUp)
    const pid = enginePid(node)
    await node.submit(2, 0)
    await vi.waitUntil(async () => (await node.rows()).some(({ status }) => status === 'RUNNING'), { timeout: 60_000, interval: 50 })
    const { child } = node.serving
    const draining = once(child.stdout ?? child, 'data')
    const gone = node.serving.stop()
    // Two that come at once may be one.
    await draining
    child.kill('SIGTERM')
    expect(await gone).toBe(0)
    expect(isAlive(pid)).toBe(false)
  }, 120_000)

  it('outlives the death of the model’s process, and so do its sessions', async () => {
    const node = await serveNoise()
    await node.until(isUp)
    const { url } = (await node.replicas())[0] ?? {}
    await node.submit(2, 30)
    await vi.waitUntil(async () => (await node.rows()).every(({ status }) => status === 'RUNNING'), { timeout: 60_000, interval: 50 })
    const pid = enginePid(node)
    process.kill(pid, 'SIGKILL')
    // No attempt is spent on it: their calls wait until the engine serves again.
    expect((await node.finished()).map(({ outcome, attempt }) => [outcome, attempt])).toEqual(Array(2).fill(['completed', 1]))
    await node.until(isUp)
    expect((await node.replicas())[0]?.url).toBe(url)
    expect(enginePid(node)).not.toBe(pid)
    expect(node.serving.stderr()).toContain('engine-lost')
    expect(await node.serving.stop()).toBe(0)
  }, 120_000)

  it('ends its model’s process with itself when it is killed', async () => {
    const node = await serveNoise()
    const pid = enginePid(node)
    await node.serving.stop('SIGKILL')
    await expect.poll(() => isAlive(pid), { timeout: 60_000 }).toBe(false)
  }, 120_000)
})

describe('polar serve whose model’s process cannot be started again', () => {
  it('ends, and says why', async () => {
    const path = join(folder, 'brief.gguf')
    copyFileSync(model.path, path)
    const node = await serve({ ...NOISE, model: path })
    const pid = enginePid(node)
    const gone = once(node.serving.child, 'exit')
    rmSync(path)
    process.kill(pid, 'SIGKILL')
    expect(await gone).toEqual([1, null])
    expect(node.serving.stderr()).toMatch(/polar: the embedded engine is lost: it died too often, at last with: .*brief\.gguf/)
  }, 120_000)
})

describe('polar serve does not start', () => {
  it('from a file that is no model, and says what to do', async () => {
    const path = join(folder, 'text.gguf')
    writeFileSync(path, 'no model')
    const { code, stderr } = await runPolar('serve', '--config', writeConfig({ model: path }))
    expect(stderr).toMatch(/^polar: the embedded engine does not start: .*text\.gguf.*polar_node\.embedded.*base_url/)
    expect([code, stderr.split('\n').length]).toEqual([1, 2])
  })

  it('with the embedded engine off and no server named', async () => {
    const { code, stderr } = await runPolar('serve', '--config', writeConfig(false))
    expect(stderr).toMatch(/polar\.yaml:1:\d+: polar_node\.embedded: is off, and no inference server is named/)
    expect(code).toBe(2)
  })

  it('with the kind of a server whose address is not given', async () => {
    const { code, stderr } = await runPolar('serve', '--config', writeConfig(), '--engine', 'vllm')
    expect([code, stderr]).toEqual([2, 'polar: --engine says what --engine-url leads to; no inference server is named\n'])
  })
})
