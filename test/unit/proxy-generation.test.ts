// One generation and the place it holds: whatever happens to the call, the place is given back.
import { afterEach, describe, expect, it } from 'vitest'
import { sessionId } from '../../src/contract/ids.ts'
import { type GenerationHost, generate } from '../../src/proxy/generation.ts'
import { openProfiles } from '../../src/proxy/profiles/profile.ts'
import { DEFAULT_SETTINGS } from '../../src/proxy/settings.ts'
import { openReplicas, type Replicas } from '../lib/replica-fixture.ts'

let replicas: Replicas
afterEach(async () => {
  await replicas.close()
  expect(replicas.timers()).toBe(0)
})

async function open(changes: Partial<GenerationHost> = {}) {
  replicas = openReplicas()
  replicas.add('r', 'http://r')
  await replicas.settle()
  const { kernel, pool } = replicas
  const host: GenerationHost = {
    kernel,
    pool,
    model: '',
    engineKind: 'vllm',
    settings: DEFAULT_SETTINGS,
    profileOf: openProfiles([]),
    ...changes,
  }
  const abort = new AbortController()
  const request = { messages: [{ role: 'user', content: 'hi' }], tools: null, parameters: { max_tokens: 2 } } as const
  const generated = generate(host, sessionId('s'), 'train', request, abort.signal)
  const inFlight = async (): Promise<unknown> => (await replicas.views()).map((view) => view.inFlight)
  return { generated, abort, inFlight }
}

describe('a send that is repeated', () => {
  it('waits longer each time, so that an engine that comes back is not met by all of its calls at once', async () => {
    const { generated } = await open()
    const chats = (): number => replicas.host('http://r').asked.filter(({ path }) => path === '/v1/chat/completions').length
    const before = chats()
    replicas.host('http://r').isUp = false
    await replicas.settle()
    const sends: number[] = []
    for (let waitedMs = 0; waitedMs < 1_000; waitedMs += 1) {
      if (chats() - before > sends.length) sends.push(waitedMs)
      await replicas.world.advance(1)
    }
    const { repeatDelayMs, outageMs } = DEFAULT_SETTINGS
    // Then it is down, and only its probe is sent until it serves.
    expect(sends).toEqual([0, repeatDelayMs, 3 * repeatDelayMs])
    await replicas.world.advance(outageMs)
    expect(await generated).toMatchObject({ ok: false, failure: { code: 'engine-unreachable' } })
    expect(chats() - before).toBeLessThan(3 + outageMs / DEFAULT_SETTINGS.repeatDelayMs)
  })

  it('is not waited for by a call that nobody wants any more', async () => {
    const { generated, abort } = await open()
    replicas.host('http://r').isUp = false
    await replicas.settle()
    abort.abort()
    await replicas.settle()
    expect(await generated).toMatchObject({ ok: false, failure: { code: 'cancelled' } })
  })
})

describe('a place', () => {
  it('is given back with the answer', async () => {
    const { generated, inFlight } = await open()
    await replicas.settle()
    expect(await generated).toMatchObject({ ok: true, end: { status: 'ok', replica: 'r', modelServed: 'policy' } })
    expect(await inFlight()).toEqual([0])
  })

  it('is given back by a call that is cancelled while it generates', async () => {
    const { generated, abort, inFlight } = await open()
    replicas.host('http://r').hangs = true
    expect(await inFlight()).toEqual([1])
    abort.abort()
    expect(await generated).toMatchObject({ ok: false, failure: { code: 'cancelled' }, end: { status: 'cancelled', replica: 'r' } })
    expect(await inFlight()).toEqual([0])
  })

  it('is given back when a fault of ours ends the call', async () => {
    const { generated, inFlight } = await open({
      profileOf: () => {
        throw new Error('a bug')
      },
    })
    const thrown = expect(generated).rejects.toThrow('a bug')
    expect(await inFlight()).toEqual([0])
    await thrown
  })
})
