// A generation that its engine gave up: gone on with where that is the same answer, begun again where it is not, and never told as it was.
import { describe, expect, it } from 'vitest'
import type { SessionDoor } from '../../src/proxy/boundary.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import { type Completion, openProxy, type ProxyFixture, type ProxyOptions } from '../lib/proxy-fixture.ts'

const [FIRST, THEN] = ['/v1/chat/completions', '/v1/completions']
const tools = [{ type: 'function', function: { name: 'ls', parameters: {} } }]
const ask = (more: object = {}) => ({ model: 'm', messages: [{ role: 'user', content: 'hi' }], max_tokens: 100, ...more })
/** What a text is spelt of; 3 ends an answer. */
const SPELLING = {
  1: 'Let me ',
  2: 'look.',
  3: '<|im_end|>',
  4: '<tool_call>\n{"name": "ls", "arg',
  5: 'uments": {}}\n</tool_call>',
  11: 'hi',
  12: '\n',
}

const drawn = (ids: readonly number[], finish: string | null, more: Completion = {}): Completion => ({
  ids,
  logprobs: ids.map((id) => -id / 8),
  finish,
  message: { role: 'assistant', content: 'what the engine made of a part' },
  ...more,
})
const chatted = (ids: readonly number[], finish: string | null, more: Completion = {}): Completion =>
  drawn(ids, finish, { usage: { prompt_tokens: 2, completion_tokens: ids.length }, ...more })

async function open(body: object = ask(), options: ProxyOptions = {}) {
  const proxy = openProxy({ spelling: SPELLING, ...options })
  const door = proxy.openDoor(options.models === undefined ? {} : { tier: 'eval' })
  const sink = await proxy.chat(door, body)
  /** The next generation is answered so; then there is time for another one. */
  let at = 0
  const answer = async (completion: Completion): Promise<void> => {
    proxy.generations[at]?.answer(completion)
    at += 1
    await proxy.world.advance(1_000)
  }
  return { proxy, door, sink, answer, paths: () => proxy.generations.map(({ path }) => path) }
}

async function sealed(proxy: ProxyFixture, door: SessionDoor) {
  const { calls, tokens } = await door.seal()
  const [captured] = readCalls(tokens)
  await proxy.close()
  return { record: calls[0], captured }
}

describe('an answer that was given up', () => {
  it('is gone on with from its token ids, as often as it is given up, and is one answer of all its tokens', async () => {
    const { proxy, door, sink, answer, paths } = await open()
    await answer(chatted([1], 'abort'))
    await answer(drawn([], 'abort', { logprobs: [] }))
    await answer(drawn([2], 'abort'))
    await answer(drawn([3], 'stop'))
    expect(paths()).toEqual([FIRST, THEN, THEN, THEN])
    expect(proxy.generations.map(({ body }) => [body.prompt, body.max_tokens])).toEqual([
      [undefined, 100],
      [[11, 12, 1], 99],
      [[11, 12, 1], 99],
      [[11, 12, 1, 2], 98],
    ])
    expect(sink.json()).toMatchObject({
      choices: [{ message: { content: 'Let me look.' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 2, completion_tokens: 3 },
    })
    const { record, captured } = await sealed(proxy, door)
    expect(record).toMatchObject({ status: 'ok', captureError: null, sampling: { maxTokens: 100 } })
    expect(record?.diagnostics.map(({ code }) => code)).toEqual(Array(3).fill('generation-aborted'))
    expect([[...(captured?.promptIds ?? [])], [...(captured?.sampledIds ?? [])], [...(captured?.logprobs ?? [])]]).toEqual([
      [11, 12],
      [1, 2, 3],
      [-1 / 8, -2 / 8, -3 / 8],
    ])
  })

  it('is read as a whole: a tool call that was cut in two is one', async () => {
    const { sink, answer } = await open(ask({ tools }))
    await answer(chatted([1, 2, 4], 'abort'))
    await answer(drawn([5, 3], 'stop'))
    expect(sink.json()).toMatchObject({
      choices: [
        {
          message: { content: 'Let me look.', tool_calls: [{ function: { name: 'ls', arguments: '{}' } }] },
          finish_reason: 'tool_calls',
        },
      ],
    })
  })

  it('ends at its budget when both parts together have reached it', async () => {
    const { sink, answer, proxy } = await open(ask({ max_tokens: 3 }))
    await answer(chatted([1], 'abort'))
    await answer(drawn([2, 2], 'length'))
    expect(proxy.generations[1]?.body.max_tokens).toBe(2)
    expect(sink.json()).toMatchObject({ choices: [{ message: { content: 'Let me look.look.' }, finish_reason: 'length' }] })
  })

  it('without a budget may have what the context leaves', async () => {
    const { answer, proxy } = await open({ model: 'm', messages: [{ role: 'user', content: 'hi' }] })
    await answer(chatted([1, 2], 'abort'))
    expect(proxy.generations[1]?.body.max_tokens).toBe(4096 - 4)
  })

  it('is in no row as it was when nobody goes on with it, and the call has failed', async () => {
    const { proxy, door, sink, answer, paths } = await open()
    await answer(chatted([1, 2], 'abort'))
    for (let round = 0; round < 3; round += 1) await answer(drawn([], 'abort', { logprobs: [] }))
    expect([paths().length, sink.status()]).toEqual([4, 503])
    const { record, captured } = await sealed(proxy, door)
    expect(record).toMatchObject({ status: 'aborted', responseMessage: null })
    expect([...(captured?.sampledIds ?? [])]).toEqual([1, 2])
  })

  it.each<[string, object, ProxyOptions, Completion]>([
    ['the node is told to', ask(), { settings: { aborted: 'restart' } }, chatted([1], 'abort')],
    ['nothing was drawn', ask(), {}, chatted([], 'abort', { logprobs: [] })],
    ['its end was not said', ask(), {}, chatted([1, 2, 3], null)],
    ['its end is not known', ask(), {}, chatted([1, 2, 3], 'surprise')],
    ['its tokens did not come', ask(), {}, chatted([1], 'abort', { ids: undefined })],
    ['its logprobs did not come', ask(), {}, chatted([1], 'abort', { logprobs: null })],
    ['a stop string may lie across the cut', ask({ stop: ['x'] }), {}, chatted([1], 'abort')],
    ['a penalty looks at what was sampled', ask({ presence_penalty: 1 }), {}, chatted([1], 'abort')],
    ['so may a penalty of repetitions', ask({ repetition_penalty: 1.5 }), {}, chatted([1], 'abort')],
    ['nothing may follow', ask({ max_tokens: 1 }), {}, chatted([1], 'abort')],
    [
      'an image is in its prompt',
      ask({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] }] }),
      {},
      chatted([1], 'abort'),
    ],
  ])('is begun again when %s', async (_, body, options, cut) => {
    const { proxy, door, sink, answer, paths } = await open(body, options)
    await answer(cut)
    await answer(chatted([2, 3], 'stop', { message: { role: 'assistant', content: 'Anew.' } }))
    expect(paths()).toEqual([FIRST, FIRST])
    expect(sink.json()).toMatchObject({ choices: [{ message: { content: 'Anew.' } }] })
    const { record, captured } = await sealed(proxy, door)
    expect([record?.status, [...(captured?.sampledIds ?? [])]]).toEqual(['ok', [2, 3]])
  })

  it.each<[string, ProxyOptions, (proxy: ProxyFixture) => void]>([
    ['has no such route', {}, ({ generations }) => generations[1]?.respond(404, { detail: 'Not Found' })],
    ['answers no completion', {}, ({ generations }) => generations[1]?.respond(200, 'no')],
    ['spells no token ids', { spelling: null }, ({ generations }) => generations[1]?.answer(drawn([3], 'stop'))],
  ])('is begun again, and then to its end, when the server %s', async (_, options, refuse) => {
    const { proxy, door, sink, paths } = await open(ask(), options)
    proxy.generations[0]?.answer(chatted([1], 'abort'))
    await proxy.world.advance(1_000)
    refuse(proxy)
    await proxy.world.advance(1_000)
    proxy.generations[2]?.answer(chatted([2], 'abort'))
    await proxy.world.advance(1_000)
    proxy.generations[3]?.answer(chatted([2, 3], 'stop'))
    await proxy.world.advance(1_000)
    expect([paths(), sink.status()]).toEqual([[FIRST, THEN, FIRST, FIRST], 200])
    const { record, captured } = await sealed(proxy, door)
    expect(record?.diagnostics.map(({ code }) => code)).toEqual(['generation-aborted', 'generation-begun-anew', 'generation-aborted'])
    expect([...(captured?.sampledIds ?? [])]).toEqual([2, 3])
  })
})

describe('aborts that a pause brings', () => {
  it('wait for its end and are never too many', async () => {
    const { proxy, door, sink, paths } = await open(ask(), { settings: { aborted: 'restart' } })
    const updates = 6
    for (let update = 0; update < updates; update += 1) {
      const paused = proxy.boundary.pause(60_000)
      proxy.generations[update]?.answer(chatted([1], 'abort'))
      expect(await paused).toBe('paused')
      await proxy.world.advance(600_000)
      expect(paths()).toHaveLength(update + 1)
      proxy.boundary.resume()
      await proxy.settle()
    }
    proxy.generations[updates]?.answer(chatted([2, 3], 'stop'))
    await proxy.settle()
    expect(sink.status()).toBe(200)
    expect((await sealed(proxy, door)).record?.diagnostics).toHaveLength(updates)
  })

  it('are too many without one when an answer comes no further', async () => {
    const { sink, answer, paths } = await open(ask(), { settings: { aborted: 'restart', maxRepeats: 2 } })
    for (let round = 0; round < 3; round += 1) await answer(chatted([1], 'abort'))
    expect([paths().length, sink.status()]).toEqual([3, 503])
  })

  it('are not too many when it does', async () => {
    const { sink, answer, paths } = await open(ask(), { settings: { maxRepeats: 1 } })
    await answer(chatted([1], 'abort'))
    for (let round = 0; round < 5; round += 1) await answer(drawn([1], 'abort'))
    await answer(drawn([3], 'stop'))
    expect([paths().length, sink.status()]).toEqual([7, 200])
  })
})

describe('a call whose server names its weights only when it is asked', () => {
  it('is stamped with what it said before and after, and with nothing when that is not the same', async () => {
    let weights = 'v1'
    const { proxy, door, answer } = await open(ask(), { weights: () => weights })
    await answer(chatted([2, 3], 'stop'))
    // Still in flight when the pause is taken back.
    await proxy.chat(door, ask({ user: 'again' }))
    const paused = proxy.boundary.pause(1_000)
    weights = 'v2'
    await proxy.world.advance(1_100)
    expect(await paused).toBe('timed-out')
    await answer(chatted([2, 3], 'stop'))
    await proxy.chat(door, ask({ user: 'and again' }))
    await answer(chatted([2, 3], 'stop'))
    const { calls } = await door.seal()
    await proxy.close()
    expect(calls.map(({ weightVersion, weightSpans, diagnostics }) => [weightVersion, weightSpans.length, diagnostics])).toEqual([
      ['v1', 1, []],
      [null, 1, [{ code: 'weights-unplaced', detail: 'from v1 to v2 within the call' }]],
      ['v2', 1, []],
    ])
  })
})
