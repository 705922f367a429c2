// Live streaming over the engine's sockets: what is told, when, and that the record is the one that a plain answer would have left.
import { afterEach, describe, expect, it } from 'vitest'
import type { CallRecord } from '../../src/contract/call.ts'
import type { ScriptInput } from '../../src/engine/scripted/script.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import { type NeutralRequest, REQUESTS } from '../lib/dialect-cases.ts'
import type { Codec } from '../lib/dialect-codec.ts'
import { anthropicCodec } from '../lib/dialect-codecs/anthropic.ts'
import { googleCodec } from '../lib/dialect-codecs/google.ts'
import { chatCodec } from '../lib/dialect-codecs/openai-chat.ts'
import { responsesCodec } from '../lib/dialect-codecs/openai-responses.ts'
import type { FakeSink } from '../lib/proxy-fixture.ts'
import { until } from '../sdk/gateway.ts'
import { type LiveScene, type LiveSceneOptions, openLiveScene } from './live-scene.ts'

const CODECS = [chatCodec, responsesCodec, anthropicCodec, googleCodec].map((codec) => ({ codec, name: codec.dialect.name }))
const BASE = REQUESTS['a user alone'] as NeutralRequest
const TOOLS = (REQUESTS['some tool'] as NeutralRequest).tools
const TEXT = 'One. 👋 Two is é. Three follows, and then nothing.'

const call = (command: string) => ({ name: TOOLS[0]?.name ?? '', arguments: { command, n: [1, 2.5], é: '👋' } })
const SCRIPT: ScriptInput = {
  rules: [
    { match: { last_contains: 'think' }, choices: [{ reasoning: 'Well.\n\nHm.', text: TEXT }] },
    { match: { last_contains: 'act' }, choices: [{ reasoning: 'Hm.', text: 'I look.', tool_calls: [call('ls'), call('pwd')] }] },
    { match: { last_contains: 'plainly' }, choices: [{ text: 'One. Two.' }] },
    { match: { last_contains: 'cut' }, choices: [{ text: TEXT, finish_reason: 'length' }] },
    { choices: [{ text: TEXT }] },
  ],
}
const asking = (text: string): NeutralRequest => ({ ...BASE, tools: TOOLS, maxTokens: 512, turns: [{ type: 'user', text, image: null }] })
const HELLO = asking('hello')
const AT_ONCE = { ttftMs: 0, msPerToken: 0 }
const SLOWLY = { ttftMs: 1_000, msPerToken: 1_000 }

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

async function open(options: Partial<LiveSceneOptions> = {}): Promise<LiveScene> {
  const scene = await openLiveScene({ script: SCRIPT, streamMode: 'live', ...options })
  closing.push(scene.close)
  return scene
}

const slow = (options: Partial<LiveSceneOptions> = {}) => open({ engine: { latency: SLOWLY }, ...options })

/** The engine has had the call and samples until the client reads these words. */
async function passUntil(scene: LiveScene, sink: FakeSink, words: string): Promise<void> {
  await until(async () => {
    await scene.pass(1_000)
    return sink.text().includes(words)
  })
}

async function passAll(scene: LiveScene, isOver: () => boolean): Promise<void> {
  await until(async () => {
    await scene.pass(60_000)
    return isOver()
  })
}

const saidTo = (codec: Codec, sink: FakeSink) => codec.said(codec.fold(sink.text()))

describe.each(CODECS)('$name', ({ codec }) => {
  it('is told the first words while the engine samples, and the last event when the call has its record', async () => {
    let record = (_isTaken: boolean): void => {}
    const recordCall = () => new Promise<boolean>((resolve) => (record = resolve))
    const scene = await slow({ recordCall })
    const door = scene.openDoor()
    const sink = scene.call(door, codec, HELLO)
    await passUntil(scene, sink, 'One')
    expect([scene.records, sink.isEnded()]).toEqual([[], false])
    expect(scene.asked()[0]?.sampledIds).toEqual([])
    await passAll(scene, () => scene.records.length > 0)
    expect(sink.isEnded()).toBe(false)
    record(true)
    await until(sink.isEnded)
    expect(saidTo(codec, sink).text).toBe(TEXT)
    expect(scene.records).toMatchObject([{ status: 'ok', captureError: null, delivery: 'yes', streamed: true }])
    expect(scene.reports).toEqual([])
  })

  it.each(['hello', 'think', 'act', 'cut'])('is told the same live and whole, and leaves the same record, asked to %s', async (words) => {
    const [live, whole] = [await answerIn('live', codec, words), await answerIn('synthetic', codec, words)]
    expect(live.asked).toEqual([{ stream: true, stream_options: { include_usage: true } }])
    expect(whole.asked).toEqual([{ stream: false, stream_options: undefined }])
    expect(live.said).toEqual(whole.said)
    expect(live.said.calls).toHaveLength(words === 'act' ? 2 : 0)
    expect(live.record).toEqual(whole.record)
    expect(live.tokens).toEqual(whole.tokens)
  })

  it('is told in its own way that the engine broke off, and no other answer is begun', async () => {
    const scene = await slow()
    const sink = scene.call(scene.openDoor(), codec, HELLO)
    await passUntil(scene, sink, 'One')
    await scene.engine.close()
    await until(() => sink.isEnded() || sink.isDestroyed())
    if (codec.streamFailure === null) expect([sink.isDestroyed(), sink.text()]).toEqual([true, expect.not.stringContaining('[DONE]')])
    else expect(() => codec.fold(sink.text())).toThrow()
    expect(scene.asked()).toHaveLength(1)
    expect(scene.records.at(-1)).toMatchObject({ status: 'failed' })
  })
})

/** One call in a scene of its own: what the client read, and what is kept of it but for names and times. */
async function answerIn(streamMode: 'live' | 'synthetic', codec: Codec, words: string, kind: LiveSceneOptions['kind'] = 'vllm') {
  const scene = await open({ streamMode, kind, engine: { latency: AT_ONCE } })
  const door = scene.openDoor()
  const sink = scene.call(door, codec, asking(words))
  await until(sink.isEnded)
  const sealed = await door.seal()
  const [tokens] = readCalls(sealed.tokens)
  const named = new Map<string, string>()
  const name = (text: string): string => {
    const known = named.get(text) ?? `name-${named.size}`
    named.set(text, known)
    return known
  }
  const messages = sealed.messages.map((text) => text.replace(/"id":"[^"]*"/g, name))
  const [{ id: _id, startedAtMs: _at, durationMs: _took, ...record } = {} as CallRecord] = sealed.calls
  const said = saidTo(codec, sink)
  return {
    asked: scene.asked().map(({ body }) => {
      const { stream, stream_options } = body as { stream: unknown; stream_options: unknown }
      return { stream, stream_options }
    }),
    said: { ...said, calls: said.calls.map((each) => ({ ...each, id: '' })) },
    record: { ...record, messages },
    tokens: { prompt: [...(tokens?.promptIds ?? [])], sampled: [...(tokens?.sampledIds ?? [])], logprobs: [...(tokens?.logprobs ?? [])] },
  }
}

describe('SGLang’s own route', () => {
  it.each(['hello', 'think', 'act', 'cut'])('leaves the same record live and whole, asked to %s', async (words) => {
    const live = await answerIn('live', chatCodec, words, 'sglang-native')
    const whole = await answerIn('synthetic', chatCodec, words, 'sglang-native')
    expect(live.asked[0]).toMatchObject({ stream: true })
    expect({ ...live, asked: null }).toEqual({ ...whole, asked: null })
  })
})

describe('before anything was told', () => {
  it.each(['reset', 'reset-before-body'] as const)('a generation that ends in %s is repeated as ever', async (fault) => {
    const scene = await open({ engine: { latency: AT_ONCE } })
    scene.engine.setFault({ fault, times: 1 })
    const sink = scene.call(scene.openDoor(), anthropicCodec, HELLO)
    await passAll(scene, sink.isEnded)
    expect(saidTo(anthropicCodec, sink).text).toBe(TEXT)
    expect(scene.asked()).toHaveLength(2)
  })

  it('a refusal keeps its status', async () => {
    const scene = await open({ engine: { latency: AT_ONCE } })
    scene.engine.setFault({ fault: 'http-429' })
    const sink = scene.call(scene.openDoor(), chatCodec, HELLO)
    await until(sink.isEnded)
    expect(sink.status()).toBe(429)
  })
})

it('a question that may fail for good is answered whole: its last failure must have a status', async () => {
  const scene = await open({ engine: { latency: AT_ONCE } })
  const door = scene.openDoor()
  scene.engine.setFault({ fault: 'http-500', times: 2 })
  const ask = async (): Promise<number | null> => {
    const sink = scene.call(door, chatCodec, HELLO)
    await until(sink.isEnded)
    return sink.status()
  }
  expect([await ask(), await ask(), await ask()]).toEqual([500, 500, 200])
  expect(scene.asked().map(({ body }) => (body as { stream: boolean }).stream)).toEqual([true, true, false])
})

describe('after something was told', () => {
  it.each(['reset-in-body', 'truncated-json'] as const)('a generation that ends in %s fails in the stream', async (fault) => {
    const scene = await open({ engine: { latency: AT_ONCE } })
    scene.engine.setFault({ fault, times: 1 })
    const sink = scene.call(scene.openDoor(), anthropicCodec, HELLO)
    await passAll(scene, sink.isEnded)
    expect(sink.text()).toContain('One')
    expect(sink.text()).toMatch(/event: error\n.*\n\n$/)
    expect(scene.asked()).toHaveLength(1)
    expect(scene.records.at(-1)).toMatchObject({ status: 'failed' })
  })

  it.each(CODECS)('an answer that its engine gave up goes on where it was, for a client of $name', async ({ codec }) => {
    const scene = await open({ engine: { latency: AT_ONCE } })
    const door = scene.openDoor()
    scene.engine.setFault({ fault: 'abort', times: 1 })
    const sink = scene.call(door, codec, HELLO)
    await passAll(scene, sink.isEnded)
    expect(saidTo(codec, sink).text).toMatch(/^One\. 👋 /)
    expect(scene.asked()).toHaveLength(2)
    expect(scene.records.at(-1)).toMatchObject({ status: 'ok', delivery: 'yes' })
  })

  it('an answer that cannot be recorded is not ended as one', async () => {
    const scene = await open({ engine: { latency: AT_ONCE }, recordCall: async () => false })
    const sink = scene.call(scene.openDoor(), anthropicCodec, HELLO)
    await until(sink.isEnded)
    expect(sink.text()).toContain('One')
    expect(sink.text()).not.toContain('message_stop')
  })
})

describe('a client', () => {
  it('that does not read holds neither the engine nor the record', async () => {
    const scene = await slow()
    const sink = scene.call(scene.openDoor(), anthropicCodec, HELLO)
    await passUntil(scene, sink, 'One')
    sink.block()
    await passAll(scene, () => scene.records.length > 0)
    expect(sink.text()).not.toContain('nothing.')
    sink.drain()
    await until(sink.isEnded)
    expect(saidTo(anthropicCodec, sink).text).toBe(TEXT)
  })

  it('that left and asks again hears the same answer from its beginning, as it grows', async () => {
    const scene = await slow()
    const door = scene.openDoor()
    const first = scene.call(door, anthropicCodec, HELLO)
    await passUntil(scene, first, 'One')
    first.leave()
    await scene.pass(0)
    const second = scene.call(door, anthropicCodec, HELLO)
    await until(() => second.text().includes('One'))
    expect(scene.records).toEqual([])
    await passAll(scene, second.isEnded)
    expect(saidTo(anthropicCodec, second).text).toBe(TEXT)
    expect(scene.asked()).toHaveLength(1)
    expect(scene.records.at(-1)).toMatchObject({ delivery: 'yes' })
  })

  it('that left and asks again after the end is told the whole answer', async () => {
    const scene = await slow()
    const door = scene.openDoor()
    const first = scene.call(door, anthropicCodec, HELLO)
    await passUntil(scene, first, 'One')
    first.leave()
    await passAll(scene, () => scene.records.length > 0)
    await scene.pass(0)
    const second = scene.call(door, anthropicCodec, HELLO)
    await until(second.isEnded)
    expect(saidTo(anthropicCodec, second).text).toBe(TEXT)
    // What the prompt costs is known by now, and told at the head.
    expect(/"input_tokens":(\d+)/.exec(second.text())?.[1]).not.toBe('0')
    expect(scene.asked()).toHaveLength(1)
  })

  it('that wants no stream is answered whole, by a plain generation', async () => {
    const scene = await open({ engine: { latency: AT_ONCE } })
    const sink = scene.call(scene.openDoor(), chatCodec, HELLO, false)
    await until(sink.isEnded)
    expect(scene.asked()[0]?.body).toMatchObject({ stream: false })
    expect(chatCodec.said(sink.json() as never).text).toBe(TEXT)
  })

  it('that comes back with what it was told is known by it', async () => {
    const scene = await open({ engine: { latency: AT_ONCE } })
    const door = scene.openDoor()
    const first = scene.call(door, anthropicCodec, asking('act'))
    await until(first.isEnded)
    const reply = anthropicCodec.fold(first.text())
    const { calls } = anthropicCodec.said(reply)
    const results = calls.map(({ id, name }) => ({ id, name, value: { said: 'hello' } }))
    const items = [...anthropicCodec.items(asking('act').turns[0]!), ...anthropicCodec.returned(reply)]
    const codec: Codec = {
      ...anthropicCodec,
      request: (asked, added, isStream) => anthropicCodec.request(asked, [...items, ...added], isStream),
    }
    const second = scene.call(door, codec, { ...HELLO, turns: [{ type: 'results', results, late: null }] })
    await until(second.isEnded)
    const [before, after] = scene.asked()
    const grown = [...(before?.promptIds ?? []), ...(before?.sampledIds ?? [])]
    expect(after?.promptIds.slice(0, grown.length)).toEqual(grown)
  })

  it('is given beats while nothing comes, and none between words', async () => {
    const scene = await slow({ settings: { commitAfterMs: 5, beatEveryMs: 5 } })
    const sink = scene.call(scene.openDoor(), anthropicCodec, HELLO)
    await until(() => sink.text().includes('ping'))
    await passUntil(scene, sink, 'One')
    const beats = sink.text().split('ping').length
    await until(() => sink.text().split('ping').length > beats)
    await passAll(scene, sink.isEnded)
    expect(saidTo(anthropicCodec, sink).text).toBe(TEXT)
  })
})

describe('an engine', () => {
  it.each(['sglang', 'llamacpp'] as const)('whose streams lose ids (%s) answers whole where that is allowed', async (kind) => {
    const scene = await open({ kind, streamMode: 'auto', engine: { latency: AT_ONCE } })
    const sink = scene.call(scene.openDoor(), chatCodec, asking('plainly'))
    await until(sink.isEnded)
    expect(saidTo(chatCodec, sink).text).toBe('One. Two.')
    expect(scene.asked()[0]?.body).toMatchObject({ stream: false })
    expect(scene.records.at(-1)).toMatchObject({ status: 'ok', captureError: null })
    expect((await scene.boundary.replicas())[0]).toMatchObject({ tier: 'train', detail: expect.stringContaining('whole') })
  })

  it.each(['sglang', 'llamacpp'] as const)('whose streams lose ids (%s) trains no session that must be live', async (kind) => {
    const scene = await open({ kind, engine: { latency: AT_ONCE } })
    const sink = scene.call(scene.openDoor(), chatCodec, HELLO)
    await until(sink.isEnded)
    expect([sink.status(), sink.text()]).toEqual([expect.any(Number), expect.stringContaining('whole')])
    expect(sink.status()).toBeGreaterThanOrEqual(400)
    expect(scene.asked()).toEqual([])
  })

  it('whose stream lost ids once is asked for no other', async () => {
    const scene = await open({ streamMode: 'auto', engine: { latency: AT_ONCE } })
    const door = scene.openDoor()
    scene.engine.setFault({ fault: 'missing-token-ids', times: 1 })
    for (const text of ['hello', 'hello again']) {
      const sink = scene.call(door, chatCodec, asking(text))
      await until(sink.isEnded)
      expect(saidTo(chatCodec, sink).text).toBe(TEXT)
    }
    expect(scene.asked().map(({ body }) => (body as { stream: boolean }).stream)).toEqual([true, false])
    expect(scene.records.filter(({ captureError }) => captureError !== null)).toHaveLength(1)
  })
})
