// What requests may cost before anything is sampled, by session and by thread, and what is mended of them.
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { sessionId } from '../../src/contract/ids.ts'
import { valuesIn } from '../../src/proxy/json-values.ts'
import { openRequestMemory } from '../../src/proxy/request-memory.ts'
import { HELLO, openProxy, type ProxyFixture } from '../lib/proxy-fixture.ts'

const [one, other] = [sessionId('one'), sessionId('other')]
const LIMITS = { requestsPerSession: 2, bytesPerSession: 100, bytesPerThread: 150 }

describe('a hold', () => {
  it('takes no more than its session may have', () => {
    const memory = openRequestMemory(LIMITS)
    const [first, second] = [memory.open(one), memory.open(one)]
    expect([first?.take(60), second?.take(50), second?.take(40), first?.take(1)]).toEqual([true, false, true, false])
    expect(memory.bytes()).toBe(100)
  })

  it('leaves the others of the thread their part', () => {
    const memory = openRequestMemory(LIMITS)
    expect([memory.open(one)?.take(100), memory.open(other)?.take(51), memory.open(other)?.take(50)]).toEqual([true, false, true])
  })

  it('is one of so many, and makes room when it is released, once', () => {
    const memory = openRequestMemory(LIMITS)
    const first = memory.open(one)
    first?.take(100)
    memory.open(one)
    expect(memory.open(one)).toBeNull()
    first?.release()
    first?.release()
    expect(first?.take(1)).toBe(false)
    expect(memory.bytes()).toBe(0)
    expect(memory.open(one)?.take(100)).toBe(true)
    expect(memory.open(one)).toBeNull()
  })

  it('does uncounted work of one session one after the other, a failed one too', async () => {
    const memory = openRequestMemory(LIMITS)
    const [first, second] = [memory.open(one), memory.open(one)]
    const done: string[] = []
    const step = async (name: string): Promise<void> => {
      done.push(`${name} begins`)
      await Promise.resolve()
      done.push(`${name} ends`)
      throw new Error(name)
    }
    const outcomes = await Promise.allSettled([first?.alone(() => step('first')), second?.alone(() => step('second'))])
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(done).toEqual(['first begins', 'first ends', 'second begins', 'second ends'])
  })
})

describe('the values of a JSON text', () => {
  const count = (value: unknown): number => {
    if (typeof value !== 'object' || value === null) return 1
    const inner = Object.values(value)
    return inner.length === 0 ? 2 : 1 + inner.reduce((sum: number, each) => sum + count(each), 0)
  }

  it('are counted without parsing it', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), (text) => {
        expect(valuesIn(Buffer.from(text))).toBe(count(JSON.parse(text)))
      }),
    )
  })

  it.each([
    ['[",[{"]', 2],
    ['["\\"","\\\\",","]', 4],
    ['["\\\\\\",,"]', 2],
    ['"', 1],
    ['"\\', 1],
    ['', 1],
  ])('of %s are %i', (text, values) => {
    expect(valuesIn(Buffer.from(text))).toBe(values)
  })
})

let proxy: ProxyFixture | undefined

afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

const open = (requestMemory: Partial<typeof LIMITS>): ProxyFixture => {
  const opened = openProxy({ settings: { requestMemory: { ...WIDE, ...requestMemory } } })
  proxy = opened
  return opened
}
const WIDE = { requestsPerSession: 128, bytesPerSession: 2 ** 30, bytesPerThread: 2 ** 30 }

describe('a session that sends more than it may', () => {
  it('is told to come back later, while another is served', async () => {
    const { openDoor, chat, generations } = open({ requestsPerSession: 1 })
    const [greedy, modest] = [openDoor(), openDoor()]
    await chat(greedy)
    const second = await chat(greedy, { ...HELLO, user: 'again' })
    expect([second.status(), second.headers()['retry-after']]).toEqual([429, '2'])
    await chat(modest)
    expect(generations).toHaveLength(2)
  })

  it('has its room back when the turn has its record', async () => {
    const { openDoor, chat, settle, generations } = open({ requestsPerSession: 1 })
    const door = openDoor()
    const first = await chat(door)
    generations[0]?.answer()
    await settle()
    expect(first.status()).toBe(200)
    await chat(door)
    expect(generations).toHaveLength(2)
  })

  it('holds what its turn holds after its client left', async () => {
    const { openDoor, chat, settle } = open({ requestsPerSession: 1 })
    const door = openDoor()
    const first = await chat(door)
    first.leave()
    await settle()
    expect((await chat(door, { ...HELLO, messages: [{ role: 'user', content: 'another' }] })).status()).toBe(429)
  })

  it('has its room back after a refusal', async () => {
    const { openDoor, chat, generations } = open({ requestsPerSession: 1 })
    const door = openDoor()
    for (const body of [{}, { model: 'm' }]) expect((await chat(door, body)).status()).toBe(400)
    await chat(door)
    expect(generations).toHaveLength(1)
  })

  it.each(['/v1/tokenize', '/v1/messages/count_tokens'])('is not served by %s either', async (path) => {
    const { openDoor, chat, send } = open({ requestsPerSession: 1 })
    const door = openDoor()
    await chat(door)
    const counted = await send({ url: path, headers: { authorization: `Bearer ${door.key}` }, bytes: '{}' })
    expect(counted.status()).toBe(429)
  })
})

describe('a session that keeps more than its part', () => {
  const saying = (text: string) => ({ ...HELLO, messages: [{ role: 'user', content: text }] })
  const answered = async (fixture: ProxyFixture, door: ReturnType<ProxyFixture['openDoor']>, body: object) => {
    const sink = await fixture.chat(door, body)
    fixture.generations.at(-1)?.answer()
    await fixture.settle()
    return sink.text().includes('memory for the texts of its calls is used up') ? 'its end' : sink.status()
  }

  it('makes no more calls once all sessions keep too much, and the others do', async () => {
    const opened = openProxy({ settings: { maxTextBytesPerThread: 10_000 } })
    proxy = opened
    const [greedy, modest] = [opened.openDoor(), opened.openDoor()]
    expect(await answered(opened, modest, saying('a'))).toBe(200)
    expect(await answered(opened, greedy, saying('x'.repeat(10_000)))).toBe(200)
    expect(await answered(opened, greedy, saying('y'))).toBe('its end')
    expect(await answered(opened, modest, saying('b'))).toBe(200)
    greedy.close()
    expect(await answered(opened, modest, saying('c'))).toBe(200)
  })

  it.each([
    ['refers to its texts', { messages: Array.from({ length: 1_000 }, () => ({ role: 'user', content: 'x' })) }],
    ['is noted of its requests', Object.fromEntries(Array.from({ length: 64 }, (_, index) => [`unknown${index}`, 1]))],
  ])('has ended when what %s is too much, however few they are', async (_what, more) => {
    const opened = openProxy({ settings: { maxTextBytesPerSession: 4_000 } })
    proxy = opened
    const door = opened.openDoor()
    expect([await answered(opened, door, { ...HELLO, ...more }), await answered(opened, door, saying('y'))]).toEqual([200, 'its end'])
  })
})

describe('a body', () => {
  const post = async (text: string | Uint8Array, headers: Readonly<Record<string, string>> = {}, limits: Partial<typeof LIMITS> = {}) => {
    const { openDoor, send, settle, generations } = open(limits)
    const sink = await send({
      url: '/v1/chat/completions',
      headers: { authorization: `Bearer ${openDoor().key}`, ...headers },
      bytes: text,
    })
    // Codings are undone on other threads.
    while (sink.status() === null && generations.length === 0) await new Promise((resolve) => setImmediate(resolve)).then(settle)
    return sink
  }

  it('of more values than a conversation has is refused before it is parsed', async () => {
    const sink = await post(`{"x":[${'[],'.repeat(600_000)}1]}`)
    expect([sink.status(), sink.text()]).toEqual([413, expect.stringContaining('more than 1000000 values')])
  })

  it('of many values weighs more than its bytes', async () => {
    const text = JSON.stringify({ ...HELLO, user: Array.from({ length: 100_000 }, () => []) })
    expect((await post(text, {}, { bytesPerSession: 2 ** 22 })).status()).toBe(429)
  })

  it('that grows out of all proportion when its coding is undone is refused', async () => {
    const bomb = gzipSync(Buffer.alloc(2 ** 23, ' '))
    const sink = await post(bomb, { 'content-encoding': 'gzip' })
    expect([sink.status(), sink.text()]).toEqual([413, expect.stringContaining('exceeds 4194304 bytes')])
  })

  it('is counted with what its coding hid', async () => {
    const coded = gzipSync(JSON.stringify({ ...HELLO, user: 'x'.repeat(2 ** 21) }))
    expect((await post(coded, { 'content-encoding': 'gzip' }, { bytesPerSession: 2 ** 20 })).status()).toBe(429)
  })

  it.each([
    ['"a\\ud83d b"', 'a\ufffd b', 1],
    ['"\\uDC00"', '\ufffd', 1],
    ['"\\ud83d\\ude00"', '\ud83d\ude00', 0],
    ['"\ud83d\ude00 \\\\ud83d"', '\ud83d\ude00 \\ud83d', 0],
  ])('whose text is cut inside a character is mended, with a note: %s', async (text, sent, notes) => {
    const sink = await post(`{"model":"m","messages":[{"role":"user","content":${text}}]}`)
    expect(sink.status()).toBeNull()
    proxy?.generations[0]?.answer()
    await proxy?.settle()
    expect(proxy?.generations[0]?.body.messages).toEqual([{ role: 'user', content: sent }])
    expect(proxy?.records[0]?.diagnostics.filter(({ code }) => code === 'text-mended')).toHaveLength(notes)
  })

  it('is mended in its names too', async () => {
    const sink = await post('{"model":"m","messages":[{"role":"user","content":"q"}],"a\\ud800":1}')
    expect(sink.status()).toBeNull()
    proxy?.generations[0]?.answer()
    await proxy?.settle()
    expect(proxy?.records[0]?.diagnostics).toContainEqual({ code: 'field-dropped', detail: 'a\ufffd' })
  })

  it('of an honest size is read, coded or not', async () => {
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(2 ** 21)}` } }
    const coded = gzipSync(JSON.stringify({ ...HELLO, messages: [{ role: 'user', content: [image] }] }))
    await post(coded, { 'content-encoding': 'gzip' })
    expect(proxy?.generations).toHaveLength(1)
  })
})
