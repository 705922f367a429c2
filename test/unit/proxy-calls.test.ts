// One call through the boundary in virtual time: what the agent is told, what the engine is asked, what is kept.
import { describe, expect, it } from 'vitest'
import { WHOLE_DISTRIBUTION } from '../../src/proxy/parameters.ts'
import { HELLO, openProxy } from '../lib/proxy-fixture.ts'

const STREAM = { ...HELLO, stream: true }
const TOOL = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }
const CALL = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }

describe('an answered call', () => {
  it('is asked for without streaming, with ids and logprobs, under the served name', async () => {
    const proxy = openProxy()
    await proxy.chat(proxy.openDoor(), { ...STREAM, temperature: 0.7 })
    expect(proxy.generations.map(({ body }) => body)).toEqual([
      {
        messages: HELLO.messages,
        model: 'policy',
        ...WHOLE_DISTRIBUTION,
        temperature: 0.7,
        stream: false,
        logprobs: true,
        top_logprobs: 0,
        return_token_ids: true,
      },
    ])
  })

  it('carries the requested model and nothing of the engine', async () => {
    const proxy = openProxy()
    const sink = await proxy.chat(proxy.openDoor())
    proxy.generations[0]?.answer({ extra: { kv_transfer_params: {}, system_fingerprint: 'x' } })
    await proxy.settle()
    expect(sink.status()).toBe(200)
    expect(sink.isEnded()).toBe(true)
    expect(sink.json()).toMatchObject({ model: 'gpt-test', choices: [{ message: { content: 'Hello.' }, finish_reason: 'stop' }] })
    for (const leak of ['token_ids', 'prompt_token_ids', '-0.5', 'kv_transfer_params', 'policy']) expect(sink.text()).not.toContain(leak)
  })

  it('is captured exactly as the engine emitted it, with texts stored once', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    await proxy.chat(door)
    proxy.generations[0]?.answer()
    await proxy.settle()
    const history = [...HELLO.messages, { role: 'assistant', content: 'Hello.' }, { role: 'user', content: 'more' }]
    await proxy.chat(door, { ...HELLO, messages: history })
    proxy.generations[1]?.answer({
      promptIds: [11, 12, 21, 22, 23, 31],
      ids: [41],
      logprobs: [-2],
      usage: { prompt_tokens: 6, completion_tokens: 1 },
    })
    await proxy.settle()
    const sealed = await door.seal()
    expect(sealed.messages.map((text) => JSON.parse(text))).toEqual([...history.slice(0, 2), WHOLE_DISTRIBUTION, history[2]])
    expect(sealed.calls).toMatchObject([
      {
        sequence: 0,
        status: 'ok',
        delivery: 'yes',
        promptMessages: [0],
        responseMessage: 1,
        finishReason: 'stop',
        captureError: null,
        replica: 'r0',
      },
      { sequence: 1, status: 'ok', delivery: 'yes', promptMessages: [0, 1, 3], responseMessage: 1, parameters: 2, logprobMode: 'raw' },
    ])
    expect(sealed.tokens.calls).toMatchObject([
      { parent: -1, shared: 0, promptLength: 2, sampledLength: 3 },
      { parent: 0, shared: 5, promptLength: 6, sampledLength: 1 },
    ])
    const buffer = sealed.tokens.slabs[0]?.buffer
    expect(buffer).toBeDefined()
    const [first, second] = sealed.calls
    const model = { requested: first?.modelRequested, used: 'policy', dialect: 'openai-chat' }
    expect(proxy.facts).toEqual([
      { type: 'call-opened', call: first?.id, sequence: 0 },
      { type: 'call-closed', call: first?.id, status: 'ok', model, promptTokens: 2, sampledTokens: 3, contextExhausted: false },
      { type: 'call-opened', call: second?.id, sequence: 1 },
      { type: 'call-closed', call: second?.id, status: 'ok', model, promptTokens: 6, sampledTokens: 1, contextExhausted: false },
    ])
  })

  it('leaves only after the ledger has its record', async () => {
    let recorded: (ok: boolean) => void = () => {}
    const proxy = openProxy({
      recordCall: () =>
        new Promise((resolve) => {
          recorded = resolve
        }),
    })
    const sink = await proxy.chat(proxy.openDoor())
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(proxy.records).toHaveLength(1)
    expect(sink.status()).toBeNull()
    recorded(true)
    await proxy.settle()
    expect(sink.status()).toBe(200)
  })

  it.each(['v7', 7, undefined])('is stamped with the weights it ran under, as far as the engine says: %s', async (version) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    await proxy.chat(door)
    proxy.generations[0]?.answer({ extra: version === undefined ? {} : { metadata: { weight_version: version } } })
    await proxy.settle()
    expect((await door.seal()).calls[0]?.weightVersion).toBe(version === undefined ? null : String(version))
  })

  it('is withheld when the ledger refuses its record', async () => {
    const proxy = openProxy({ recordCall: async () => false })
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(sink.status()).toBe(503)
    expect(sink.headers()['retry-after']).toBe('1')
    expect(sink.text()).not.toContain('Hello.')
    // The socket took a refusal, not the answer: a turn that the agent never saw is not to be trained.
    expect((await door.seal()).calls).toMatchObject([{ status: 'ok', delivery: 'no' }])
  })

  it('is given although its tokens cannot be trained, and says why', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    proxy.generations[0]?.answer({ logprobs: [-1, -1] })
    await proxy.settle()
    expect(sink.json()).toMatchObject({ choices: [{ message: { content: 'Hello.' } }] })
    const sealed = await door.seal()
    expect(sealed.calls[0]?.captureError).toEqual({ code: 'lengths-differ', detail: 'token_ids has 3, logprobs has 2' })
    expect(sealed.tokens.calls[0]).toMatchObject({ sampledLength: 3, logprobs: [] })
  })

  it('keeps record i and tokens i the same call when calls end out of order or without tokens', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    await proxy.chat(door, { ...HELLO, messages: [{ role: 'user', content: 'slow' }] })
    await proxy.chat(door, { ...HELLO, messages: [{ role: 'user', content: 'bad' }] })
    await proxy.chat(door, { ...HELLO, messages: [{ role: 'user', content: 'quick' }] })
    proxy.generations[1]?.respond(500, { error: { message: 'boom' } })
    proxy.generations[2]?.answer({ ids: [9], logprobs: [-1], usage: {} })
    await proxy.settle()
    proxy.generations[0]?.answer()
    await proxy.settle()
    const { calls, tokens } = await door.seal()
    expect(calls.map(({ sequence, status }, index) => [sequence, status, tokens.calls[index]?.sampledLength])).toEqual([
      [1, 'failed', 0],
      [2, 'ok', 1],
      [0, 'ok', 3],
    ])
  })

  it('survives a full arena: the agent is answered, the record says arena-full', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    const ids = Array.from({ length: 20_000 }, (_, index) => index)
    proxy.generations[0]?.answer({ ids, logprobs: ids.map(() => -1), usage: {} })
    await proxy.settle()
    expect(sink.status()).toBe(200)
    const { calls, tokens } = await door.seal()
    expect(calls[0]?.captureError?.code).toBe('arena-full')
    expect(tokens.calls).toHaveLength(1)
  })
})

describe('sampling', () => {
  it('stands on the record with everything else that was sent beside the conversation', async () => {
    const models = [
      { pattern: 'policy', profile: { thinking: false, stop: ['<e>'], stop_token_ids: [7], max_output_tokens: { limit: 9 } } },
    ]
    const proxy = openProxy({ models })
    await proxy.settle()
    const door = proxy.openDoor()
    await proxy.chat(door, { ...HELLO, stop: 'x', max_tokens: 50, presence_penalty: 0.5 })
    proxy.generations[0]?.answer()
    await proxy.settle()
    const {
      messages: _messages,
      model: _model,
      stream,
      logprobs,
      top_logprobs,
      return_token_ids,
      ...sent
    } = proxy.generations[0]?.body ?? {}
    expect([stream, logprobs, top_logprobs, return_token_ids]).toEqual([false, true, 0, true])
    const { calls, messages } = await door.seal()
    expect(JSON.parse(messages[calls[0]?.parameters ?? -1] ?? 'null')).toEqual(sent)
    expect(sent).toEqual({
      ...WHOLE_DISTRIBUTION,
      presence_penalty: 0.5,
      max_tokens: 9,
      stop: ['x', '<e>'],
      stop_token_ids: [7],
      chat_template_kwargs: { enable_thinking: false },
    })
  })

  it('is pinned by the session, and the record states what was sent', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor({ pins: { temperature: 0.8, top_p: 1 } })
    await proxy.chat(door, { ...HELLO, temperature: 0, top_k: 20, max_completion_tokens: 50 })
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(proxy.generations[0]?.body).toMatchObject({ temperature: 0.8, top_p: 1, top_k: 20, max_tokens: 50 })
    const { calls } = await door.seal()
    expect(calls[0]?.sampling).toEqual({ temperature: 0.8, topP: 1, topK: 20, seed: null, maxTokens: 50 })
    expect(calls[0]?.diagnostics).toEqual([
      { code: 'sampling-pinned', detail: 'temperature: 0 replaced by 0.8' },
      { code: 'sampling-shaped', detail: 'top_k 20' },
    ])
  })
})

it.each([
  { form: 'a plain answer', body: HELLO, status: 200, waitMs: 0 },
  { form: 'a streamed answer', body: STREAM, status: 200, waitMs: 0 },
  { form: 'a stream committed early', body: STREAM, status: 200, waitMs: 6_000 },
  { form: 'a failure', body: HELLO, status: 500, waitMs: 0 },
])('$form names its call in a header', async ({ body, status, waitMs }) => {
  const proxy = openProxy()
  const sink = await proxy.chat(proxy.openDoor(), body)
  await proxy.world.advance(waitMs)
  if (status === 200) proxy.generations[0]?.answer()
  else proxy.generations[0]?.respond(status, { error: { message: 'CUDA error' } })
  await proxy.settle()
  expect([sink.status(), sink.headers()['x-request-id']]).toEqual([status, proxy.records[0]?.id])
})

describe('a stream', () => {
  it('ST-01: commits after five seconds and beats every ten until the answer', async () => {
    const proxy = openProxy()
    const sink = await proxy.chat(proxy.openDoor(), STREAM)
    await proxy.world.advance(4_999)
    expect(sink.status()).toBeNull()
    await proxy.world.advance(1)
    expect(sink.status()).toBe(200)
    expect(sink.headers()['content-type']).toContain('text/event-stream')
    expect(sink.events()).toHaveLength(1)
    await proxy.world.advance(29_999)
    expect(sink.events()).toHaveLength(3)
    await proxy.world.advance(1)
    expect(sink.events()).toHaveLength(4)
    expect(JSON.parse(sink.events()[3] ?? '')).toMatchObject({ choices: [{ index: 0, delta: {}, finish_reason: null }] })
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(sink.events().at(-1)).toBe('[DONE]')
    expect(sink.isEnded()).toBe(true)
    const length = sink.text().length
    await proxy.world.advance(60_000)
    expect(sink.text()).toHaveLength(length)
  })

  it('gives a plain request no early head', async () => {
    const proxy = openProxy()
    const sink = await proxy.chat(proxy.openDoor())
    await proxy.world.advance(600_000)
    expect(sink.status()).toBeNull()
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(sink.status()).toBe(200)
  })

  it.each([
    { afterMs: 0, status: 500, isDestroyed: false },
    { afterMs: 6_000, status: 200, isDestroyed: true },
  ])('that fails after $afterMs ms has status $status, cut: $isDestroyed', async ({ afterMs, status, isDestroyed }) => {
    const proxy = openProxy()
    const sink = await proxy.chat(proxy.openDoor(), STREAM)
    await proxy.world.advance(afterMs)
    proxy.generations[0]?.respond(500, { error: { message: 'CUDA error' } })
    await proxy.settle()
    expect([sink.status(), sink.isDestroyed()]).toEqual([status, isDestroyed])
    expect(sink.text()).not.toContain('[DONE]')
  })

  it('ST-08: waits for a slow reader and sends each frame once', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door, STREAM)
    sink.block()
    const content = 'x'.repeat(100_000)
    proxy.generations[0]?.answer({ message: { role: 'assistant', content } })
    await proxy.settle()
    expect(sink.text().length).toBeLessThan(20_000)
    for (let round = 0; round < 20; round += 1) {
      sink.drain()
      sink.block()
      await proxy.settle()
    }
    sink.drain()
    await proxy.settle()
    const deltas = sink.events().filter((event) => event !== '[DONE]')
    expect(deltas.map((event) => JSON.parse(event).choices[0].delta.content ?? '').join('')).toBe(content)
    expect(sink.isEnded()).toBe(true)
  })

  it('ST-08: stops pouring when the reader goes, keeps the capture and says partial', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door, STREAM)
    sink.block()
    proxy.generations[0]?.answer({ message: { role: 'assistant', content: 'x'.repeat(100_000) } })
    await proxy.settle()
    sink.leave()
    await proxy.settle()
    const { calls, tokens } = await door.seal()
    expect(calls).toMatchObject([{ status: 'ok', delivery: 'partial' }])
    expect(tokens.calls[0]).toMatchObject({ sampledLength: 3 })
    // The ledger was told `yes` before the bytes left; now it is told better.
    expect(proxy.records.map(({ delivery }) => delivery)).toEqual(['yes', 'partial'])
  })

  it('ST-08: does not beat to a client that does not read', async () => {
    const proxy = openProxy()
    const sink = await proxy.chat(proxy.openDoor(), STREAM)
    sink.block()
    await proxy.world.advance(100_000)
    expect(sink.events()).toHaveLength(1)
    sink.drain()
    await proxy.world.advance(10_000)
    expect(sink.events()).toHaveLength(2)
  })
})

describe('what the engine does wrong', () => {
  it.each([
    { given: 'an error', status: 500, body: { error: { message: 'boom' } }, told: 500, code: 'engine_failed', upstream: 1 },
    { given: 'overload', status: 429, body: { message: 'full' }, told: 429, code: 'rate_limit_exceeded', upstream: 1 },
    { given: 'a refusal of the request', status: 422, body: { error: { message: 'no' } }, told: 422, code: 'engine_rejected', upstream: 0 },
    { given: 'its own credentials', status: 401, body: {}, told: 502, code: 'engine_failed', upstream: 1 },
    { given: 'no JSON', status: 200, body: '<html>', told: 502, code: 'engine_failed', upstream: 1 },
    { given: 'no choices', status: 200, body: { choices: [] }, told: 502, code: 'engine_failed', upstream: 1 },
    {
      given: 'context overflow',
      status: 400,
      body: {
        object: 'error',
        message: "This model's maximum context length is 32768 tokens. However, you requested 45000 tokens in the messages.",
      },
      told: 400,
      code: 'context_length_exceeded',
      upstream: 0,
    },
  ])('$given is told as $told $code', async ({ status, body, told, code, upstream }) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    proxy.generations[0]?.respond(status, body)
    await proxy.settle()
    expect(sink.status()).toBe(told)
    expect(sink.json()).toMatchObject({ error: { code } })
    expect(proxy.generations).toHaveLength(1)
    const sealed = await door.seal()
    expect(sealed.calls).toMatchObject([{ status: 'failed', httpStatus: told, delivery: 'yes' }])
    expect(sealed.upstreamFailures).toBe(upstream)
    expect(proxy.facts.at(-1)).toMatchObject({ contextExhausted: code === 'context_length_exceeded' })
  })

  it.each([
    {
      given: 'a call left in the text',
      content: '<tool_call>\n{"name": "f"}\n</tool_call>',
      asked: { tools: [TOOL] },
      codes: ['tool-call-unparsed'],
    },
    { given: 'a call nobody could parse', content: 'So: <tool_call>', asked: { tools: [TOOL] }, codes: ['tool-call-unparsed'] },
    { given: 'text', content: 'Hi.', asked: { tools: [TOOL] }, codes: [] },
    { given: 'such text where there are no tools', content: '<tool_call>', asked: {}, codes: [] },
    { given: 'such text where none may be called', content: '<tool_call>', asked: { tools: [TOOL], tool_choice: 'none' }, codes: [] },
    { given: 'such text beside a call', content: '<tool_call>', calls: [CALL], asked: { tools: [TOOL] }, codes: [] },
    { given: 'nothing', content: '', asked: {}, codes: ['empty-visible'] },
    { given: 'nothing but a promise', content: 'x', finish: 'tool_calls', asked: {}, codes: ['tool-calls-missing'] },
  ])('$given is answered as it is, and told: $codes', async ({ content, calls, finish = 'stop', asked, codes }) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door, { ...HELLO, ...asked })
    proxy.generations[0]?.answer({ finish, message: { role: 'assistant', content, ...(calls === undefined ? {} : { tool_calls: calls }) } })
    await proxy.settle()
    expect(sink.json()).toMatchObject({ choices: [{ message: { content } }] })
    expect((await door.seal()).calls[0]?.diagnostics.map(({ code }) => code)).toEqual(codes)
  })

  it('clamps a budget that does not fit, once, and says so', async () => {
    const proxy = openProxy({ promptTokens: null })
    const door = proxy.openDoor()
    await proxy.chat(door, { ...HELLO, max_tokens: 32_000 })
    proxy.generations[0]?.respond(400, { message: "'max_tokens' is too large: 32000. (32000 > 32768 - 17459)." })
    await proxy.settle()
    expect(proxy.generations[1]?.body).toMatchObject({ max_tokens: 15_309 })
    proxy.generations[1]?.answer()
    await proxy.settle()
    const { calls } = await door.seal()
    expect(calls).toMatchObject([
      { status: 'ok', maxTokensRequested: 32_000, sampling: { maxTokens: 15_309 }, diagnostics: [{ code: 'max-tokens-clamped' }] },
    ])
  })

  it('does not clamp for ever for an engine that keeps refusing', async () => {
    const proxy = openProxy({ promptTokens: null })
    const sink = await proxy.chat(proxy.openDoor(), { ...HELLO, max_tokens: 32_000 })
    for (const generation of [0, 1]) {
      proxy.generations[generation]?.respond(400, { message: 'too large (32000 > 32768 - 17459).' })
      await proxy.settle()
    }
    expect([proxy.generations.length, sink.status()]).toEqual([2, 400])
  })

  it.each(['abort', null, 'surprise'])('CP-02: finish reason %s is generated again, never answered', async (finish) => {
    const proxy = openProxy({ settings: { aborted: 'restart' } })
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    proxy.generations[0]?.answer({ message: { role: 'assistant', content: 'Let me ch' }, finish })
    await proxy.world.advance(1_000)
    proxy.generations[1]?.answer()
    await proxy.settle()
    expect(sink.json()).toMatchObject({ choices: [{ message: { content: 'Hello.' }, finish_reason: 'stop' }] })
    const { calls } = await door.seal()
    expect(calls).toMatchObject([{ status: 'ok', diagnostics: [{ code: 'generation-aborted' }] }])
  })

  it('gives up after the third abort with an error that invites a retry', async () => {
    const proxy = openProxy({ settings: { aborted: 'restart' } })
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    for (const round of [0, 1, 2]) {
      proxy.generations[round]?.answer({ finish: 'abort' })
      await proxy.world.advance(1_000)
    }
    expect(proxy.generations).toHaveLength(3)
    expect([sink.status(), sink.headers()['retry-after']]).toEqual([503, '1'])
    const sealed = await door.seal()
    expect(sealed.calls).toMatchObject([{ status: 'aborted', finishReason: 'abort', responseMessage: null }])
    expect(sealed.tokens.calls[0]).toMatchObject({ sampledLength: 3 })
    expect(sealed.upstreamFailures).toBe(1)
  })

  it('ends a call at its own deadline, and not before', async () => {
    const proxy = openProxy({ settings: { engineDeadlineMs: 900_000 } })
    const sink = await proxy.chat(proxy.openDoor())
    await proxy.world.advance(899_999)
    expect([sink.status(), proxy.generations[0]?.isCancelled()]).toEqual([null, false])
    await proxy.world.advance(1)
    expect([sink.status(), proxy.generations[0]?.isCancelled()]).toEqual([504, true])
    expect(proxy.generations).toHaveLength(1)
  })
})
