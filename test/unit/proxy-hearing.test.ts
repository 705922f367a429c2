// One connection that hears an answer grow, in virtual time: what it is told when, and how it ends.
import { afterEach, describe, expect, it } from 'vitest'
import { callId } from '../../src/contract/ids.ts'
import { threadId } from '../../src/kernel/address.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld } from '../../src/kernel/world.ts'
import { answerTurn } from '../../src/proxy/exchange.ts'
import { failure } from '../../src/proxy/failure.ts'
import { openLiveAnswer } from '../../src/proxy/live/live-answer.ts'
import { DEFAULT_SETTINGS } from '../../src/proxy/settings.ts'
import type { Turn, TurnOutcome } from '../../src/proxy/turn.ts'
import { answer } from '../lib/dialect-answers.ts'
import { type NeutralRequest, REQUESTS } from '../lib/dialect-cases.ts'
import { encode } from '../lib/dialect-codec.ts'
import { anthropicCodec } from '../lib/dialect-codecs/anthropic.ts'
import { openFakeSink } from '../lib/proxy-fixture.ts'

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

function hear() {
  const world = openWorld({ seed: 1 })
  const kernel = openKernel({ thread: threadId('gateway-0'), incarnation: 1, scheduler: world, random: world.random, peers: 0 })
  closing.push(() => kernel.close())
  const read = anthropicCodec.dialect.read(encode(anthropicCodec, REQUESTS['a user alone'] as NeutralRequest, true), {
    tier: 'eval',
    pins: {},
    url: anthropicCodec.url(true),
  })
  if (!read.ok) throw new Error(read.failure.message)
  const live = openLiveAnswer()
  const ended = Promise.withResolvers<TurnOutcome>()
  const turn: Turn = { call: callId('ab'.repeat(16)), createdSeconds: 1, earlierFailures: 0, live, outcome: ended.promise }
  const sink = openFakeSink()
  const exchange = {
    kernel,
    settings: DEFAULT_SETTINGS,
    dialect: anthropicCodec.dialect,
    reply: read.reply,
    isStream: true,
    model: 'm',
    isHeld: () => false,
  }
  const delivery = answerTurn(exchange, turn, sink)
  return { world, live, end: ended.resolve, sink, delivery, pings: () => sink.text().split('event: ping').length - 1 }
}

const said = (text: string): TurnOutcome => ({ ok: true, answer: answer({ content: text }) })

describe('a client that hears an answer grow', () => {
  it('is sent the head with the first word, and not before', async () => {
    const { world, live, sink } = hear()
    await world.advance(0)
    expect(sink.status()).toBeNull()
    live.tell({ type: 'content', text: 'One' })
    await world.advance(0)
    expect([sink.status(), sink.text()]).toEqual([200, expect.stringContaining('One')])
  })

  it('is told the rest with the end, once', async () => {
    const { world, live, end, sink, delivery } = hear()
    live.tell({ type: 'content', text: 'One' })
    await world.advance(0)
    end(said('One, two'))
    expect(await delivery).toBe('yes')
    expect(anthropicCodec.said(anthropicCodec.fold(sink.text())).text).toBe('One, two')
  })

  it('is given beats only while nothing comes', async () => {
    const { world, live, pings } = hear()
    const { beatEveryMs } = DEFAULT_SETTINGS
    live.tell({ type: 'content', text: 'One' })
    for (let beat = 0; beat < 3; beat += 1) {
      await world.advance(beatEveryMs / 2)
      live.tell({ type: 'content', text: ' word' })
      await world.advance(beatEveryMs / 2)
    }
    expect(pings()).toBe(0)
    await world.advance(3 * beatEveryMs)
    expect(pings()).toBeGreaterThan(1)
  })

  it('is written no more while its socket has no room, and then all at once', async () => {
    const { world, live, sink } = hear()
    sink.block()
    for (const word of ['One', ' two', ' three', ' four']) {
      live.tell({ type: 'content', text: word })
      await world.advance(0)
    }
    expect(sink.text()).toContain('One')
    expect(sink.text()).not.toContain('two')
    sink.drain()
    await world.advance(0)
    expect(sink.text()).toContain('" two three four"')
  })

  it.each<[string, TurnOutcome]>([
    ['the engine fails', { ok: false, failure: failure('engine-failed', 'it broke') }],
    ['the answer is another one in the end', said('Two')],
  ])('is told so in the stream when %s', async (_name, outcome) => {
    const { world, live, end, sink, delivery } = hear()
    live.tell({ type: 'content', text: 'One' })
    await world.advance(0)
    end(outcome)
    const taken = await delivery
    expect(sink.text()).toMatch(/event: error\n.*\n\n$/)
    expect(sink.text()).not.toContain('message_stop')
    if (outcome.ok) expect(taken).toBe('partial')
  })
})
