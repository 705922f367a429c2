// One session over a real engine of scripts: sockets, boundary and model port as they are, in one process.
import { expect } from 'vitest'
import type { CallRecord, EngineKind } from '../../src/contract/call.ts'
import { replicaId, sessionId } from '../../src/contract/ids.ts'
import { type EngineSettings, openScriptedEngine } from '../../src/engine/scripted/engine.ts'
import type { ScriptInput } from '../../src/engine/scripted/script.ts'
import { threadId } from '../../src/kernel/address.ts'
import { cryptoRandom, openEventLoop } from '../../src/kernel/event-loop.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openModelPort } from '../../src/proxy/model-port.ts'
import { openBoundary } from '../../src/proxy/open-boundary.ts'
import type { BoundarySettings } from '../../src/proxy/settings.ts'
import { openArena } from '../../src/tokens/arena.ts'

export const SHAPES: { readonly [kind in EngineKind]: NonNullable<EngineSettings['shape']> } = {
  vllm: 'vllm',
  sglang: 'sglang',
  'sglang-native': 'sglang',
  llamacpp: 'llamacpp',
}
export async function openEngineSession(
  kind: EngineKind,
  script: ScriptInput,
  { boundary: boundarySettings = {}, ...settings }: EngineSettings & { readonly boundary?: Partial<BoundarySettings> } = {},
) {
  const engine = await openScriptedEngine({ script, shape: SHAPES[kind], ...settings })
  const kernel = openKernel({ thread: threadId('g'), incarnation: 1, scheduler: openEventLoop(), random: cryptoRandom(), peers: 0 })
  const records: CallRecord[] = []
  const boundary = openBoundary({
    kernel,
    arena: openArena({ maxSlabs: 1, slabTokens: 2 ** 16 }),
    model: '',
    settings: boundarySettings,
    replicas: [{ id: replicaId('r0'), url: engine.url, engine: kind }],
    recordCall: async (record) => {
      records.push(record)
      return true
    },
  })
  const port = await openModelPort({ host: '127.0.0.1', port: 0, boundary })
  await expect.poll(async () => (await boundary.replicas())[0]?.state, { timeout: 20_000 }).toBe('up')
  const opened = boundary.openDoor({ session: sessionId('s'), attempt: 1, tier: 'train', pins: {}, notify: () => {} })
  if (!opened.ok) throw new Error(opened.error)
  const { door } = opened
  const chat = async (body: object) => {
    const response = await fetch(`http://127.0.0.1:${port.port}${door.basePath}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${door.key}` },
      body: JSON.stringify({ model: 'm', ...body }),
    })
    const text = await response.text()
    return { status: response.status, text, json: text.startsWith('{') ? JSON.parse(text) : null }
  }
  const generated = () => engine.requests().filter(({ promptTokens, sampledIds }) => promptTokens > 0 && sampledIds.length > 2)
  return {
    engine,
    boundary,
    door,
    records,
    chat,
    /** Generations that were not a probe's. */
    generated,
    async close() {
      for (const close of [port.close, boundary.close, kernel.close, engine.close]) await close()
    },
  }
}
