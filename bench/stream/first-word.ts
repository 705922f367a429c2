// How long an agent waits for the first word of an answer, and for the last one, told while it is sampled and told when it is whole.
import { Buffer } from 'node:buffer'
import { bench, group } from 'mitata'
import { replicaId, sessionId } from '../../src/contract/ids.ts'
import { openScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { threadId } from '../../src/kernel/address.ts'
import { cryptoRandom, openEventLoop } from '../../src/kernel/event-loop.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openBoundary } from '../../src/proxy/open-boundary.ts'
import type { StreamMode } from '../../src/proxy/settings.ts'
import { openArena } from '../../src/tokens/arena.ts'

const MODEL = 'qwen3-scripted'
const TEXT = 'First, and then one word after another. '.repeat(25)
const LATENCY = { ttftMs: 20, msPerToken: 1 }

export function registerStreamBenches(): void {
  group('an answer of some 225 tokens, the first after 20 ms and each other after 1 ms more', () => {
    for (const mode of ['synthetic', 'live'] as const) {
      register(`first word, ${mode}`, mode, 'First')
      register(`last event, ${mode}`, mode, '[DONE]')
    }
  })
}

function register(name: string, mode: StreamMode, words: string): void {
  bench(name, function* () {
    const opened = open(mode)
    yield async () => (await opened).hear(words)
    void opened.then(({ close }) => close())
  })
}

async function open(streamMode: StreamMode) {
  const engine = await openScriptedEngine({ script: { rules: [{ choices: [{ text: TEXT }] }] }, latency: LATENCY })
  const kernel = openKernel({ thread: threadId('gateway-0'), incarnation: 1, scheduler: openEventLoop(), random: cryptoRandom(), peers: 0 })
  const boundary = openBoundary({
    kernel,
    arena: openArena({ maxSlabs: 1, slabTokens: 2 ** 20 }),
    model: MODEL,
    replicas: [{ id: replicaId('r0'), url: engine.url, engine: 'vllm' }],
    // The rest of earlier answers is still sampled when the next one is asked for.
    settings: { streamMode, callsPerSession: 1_024 },
    recordCall: async () => true,
  })
  while ((await boundary.replicas())[0]?.state !== 'up') await new Promise((resolve) => setTimeout(resolve, 5))
  const opened = boundary.openDoor({ session: sessionId('bench'), attempt: 1, tier: 'train', pins: {}, notify: () => {} })
  if (!opened.ok) throw new Error(opened.error)
  const { door } = opened
  let calls = 0

  /** Until the client has read these words; the rest of the answer is read, too. */
  async function hear(words: string): Promise<void> {
    calls += 1
    const bytes = Buffer.from(JSON.stringify({ model: MODEL, stream: true, messages: [{ role: 'user', content: `hello ${calls}` }] }))
    await new Promise<void>((resolve) => {
      let text = ''
      const take = (chunk: string | Uint8Array = ''): void => {
        text += String(chunk)
        if (text.includes(words)) resolve()
      }
      void boundary.handle(
        {
          method: 'POST',
          url: `${door.basePath}/v1/chat/completions`,
          headers: { authorization: `Bearer ${door.key}` },
          body: async () => ({ ok: true, bytes }),
        },
        {
          head() {},
          write(chunk) {
            take(chunk)
            return true
          },
          drained: () => Promise.resolve(),
          async end(chunk) {
            take(chunk)
            return 'yes'
          },
          destroy() {},
          onClosed() {},
        },
      )
    })
  }

  return {
    hear,
    async close() {
      await boundary.close()
      await kernel.close()
      await engine.close()
    },
  }
}
