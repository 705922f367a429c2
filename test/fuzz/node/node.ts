// The fuzzed node as the harness holds it: a thread of engines, a thread of the gateway, and the way to ask and end both.
import { MessageChannel, Worker } from 'node:worker_threads'
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { within } from '../deadline.ts'
import type { EnginesBirth, EnginesThread } from './engines.ts'
import type { GatewayBirth, GatewayThread } from './gateway.ts'
import type { FuzzedEngine } from './settings.ts'

export type FuzzNode = {
  readonly port: number
  readonly gateway: comlink.Remote<GatewayThread>
  readonly engines: comlink.Remote<EnginesThread>
  /** Rejects with the gateway thread's death, and never resolves: to be raced with whatever waits on the thread. */
  readonly died: Promise<never>
  /** What was left behind, in words; empty when nothing was. */
  end(): Promise<readonly string[]>
}

const END_MS = 10_000

export async function openNode(seed: number, engine: FuzzedEngine): Promise<FuzzNode> {
  const ofEngines = new MessageChannel()
  const enginesBirth: EnginesBirth = { seed, engine, port: ofEngines.port2 }
  const enginesWorker = new Worker(new URL('./engines.ts', import.meta.url), { workerData: enginesBirth, transferList: [ofEngines.port2] })
  const engines = comlink.wrap<EnginesThread>(nodeEndpoint(ofEngines.port1))
  const ofGateway = new MessageChannel()
  const gatewayBirth: GatewayBirth = { engines: await engines.urls(), engine, port: ofGateway.port2 }
  const gatewayWorker = new Worker(new URL('./gateway.ts', import.meta.url), { workerData: gatewayBirth, transferList: [ofGateway.port2] })
  const gateway = comlink.wrap<GatewayThread>(nodeEndpoint(ofGateway.port1))
  let isEnding = false
  const exited = new Promise<void>((resolve) => gatewayWorker.once('exit', () => resolve()))
  const died = new Promise<never>((_resolve, reject) => {
    gatewayWorker.once('error', (error) => reject(new Error('the gateway thread died', { cause: error })))
    void exited.then(() => {
      if (!isEnding) reject(new Error('the gateway thread ended by itself'))
    })
  })
  died.catch(() => {})
  const { port } = await Promise.race([gateway.ready(), died]).catch(async (error: unknown) => {
    await Promise.all([gatewayWorker.terminate(), enginesWorker.terminate()])
    for (const end of [ofEngines.port1, ofGateway.port1]) end.close()
    throw error
  })
  return {
    port,
    gateway,
    engines,
    died,
    async end() {
      isEnding = true
      const held = await within(gateway.end(), END_MS, 'the closing of the gateway')
      const problems = held.map((name) => `the closed gateway holds a ${name}`)
      const timer = setTimeout(() => void gatewayWorker.terminate(), END_MS)
      const startedMs = performance.now()
      await exited
      clearTimeout(timer)
      if (performance.now() - startedMs >= END_MS) problems.push('the gateway thread did not end by itself')
      await engines.close()
      await enginesWorker.terminate()
      ofEngines.port1.close()
      ofGateway.port1.close()
      return problems
    },
  }
}
