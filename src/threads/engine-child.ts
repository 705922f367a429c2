// The module the embedded engine's process runs.
import { type EmbeddedEngine, openEmbeddedEngine } from '../engine/embedded/engine.ts'
import { serveChild } from '../kernel/child-entry.ts'
import { type Drain, openDrain } from '../kernel/drain.ts'
import { openEventLoop } from '../kernel/event-loop.ts'
import type { EngineBoot, EngineReady } from './engine.ts'

/** For the generations that are told to end. */
const DRAIN_MS = 30_000

let engine: EmbeddedEngine | null = null
let drain: Drain | null = null

serveChild<EngineBoot, EngineReady>({
  async boot({ setup, port, seed }) {
    const opened = await openEmbeddedEngine({
      modelPath: setup.modelPath,
      port,
      // Of the three the one that says with each answer which weights it came from; llama.cpp's and vLLM's chat do not.
      shape: 'sglang',
      logprobMode: 'raw',
      seed,
      sequences: setup.sequences,
      threads: setup.threads,
      ...(setup.servedAs === null ? {} : { model: setup.servedAs }),
      ...(setup.maxModelLen === null ? {} : { contextTokens: setup.maxModelLen }),
    })
    if (!opened.ok) throw new Error(opened.error)
    const running = opened.engine
    engine = running
    drain = openDrain(openEventLoop(), [{ name: 'generations', deadlineMs: DRAIN_MS, run: () => running.close() }])
    return { url: running.url, port: running.port, model: running.model, parameters: running.parameters }
  },
  async drain() {
    return drain === null ? { isDrained: true, steps: [] } : drain.run()
  },
  async stop() {
    await engine?.close()
  },
  inject(fault) {
    switch (fault) {
      case 'crash':
        // As a fault of the native library ends its process.
        process.kill(process.pid, 'SIGSEGV')
        break
      case 'spin': {
        for (;;) Atomics.load(new Int32Array(1), 0)
      }
      default:
        throw new Error(`the engine's process has no fault '${fault}'; it has: crash, spin`)
    }
  },
})
