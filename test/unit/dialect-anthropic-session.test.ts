// A session of an Anthropic client at the boundary, in virtual time: patience, failures, counts, and a second turn that extends the first.
import { describe, expect, it } from 'vitest'
import type { SessionDoor } from '../../src/proxy/boundary.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { asked, BILLING, result, said, told, tool, user, words } from '../lib/anthropic-requests.ts'
import { openProxy, type ProxyFixture } from '../lib/proxy-fixture.ts'

const ASK = { model: 'claude-asked', max_tokens: 100, messages: [user] }

function send(proxy: ProxyFixture, door: SessionDoor, body: JsonObject, path = '/v1/messages') {
  return proxy.send({
    url: `${door.basePath}${path}?beta=true`,
    headers: { 'x-api-key': door.key, 'anthropic-version': '2023-06-01' },
    bytes: JSON.stringify(body),
  })
}

const data = (text: string) => [...text.matchAll(/^data: (.*)$/gm)].map(([, json = '']) => JSON.parse(json))

describe('a waiting stream', () => {
  it('begins with message_start once and pings until the answer, whose usage ends it (ST-01)', async () => {
    const proxy = openProxy()
    const sink = await send(proxy, proxy.openDoor(), { ...ASK, stream: true })
    await proxy.world.advance(25_000)
    const types = (): readonly string[] => [...sink.text().matchAll(/^event: (\w+)$/gm)].map(([, type = '']) => type)
    expect(types()).toEqual(['message_start', 'ping', 'ping'])
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(types()).toEqual([
      ...['message_start', 'ping', 'ping', 'content_block_start', 'content_block_delta', 'content_block_stop'],
      ...['message_delta', 'message_stop'],
    ])
    expect(data(sink.text())[0].message.usage).toMatchObject({ input_tokens: 0 })
    expect(data(sink.text()).at(-2).usage).toMatchObject({ input_tokens: 2, output_tokens: 3 })
    expect(sink.isEnded()).toBe(true)
  })

  it('whose answer comes soon starts with the size of its prompt', async () => {
    const proxy = openProxy()
    const sink = await send(proxy, proxy.openDoor(), { ...ASK, stream: true })
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(data(sink.text())[0].message.usage).toMatchObject({ input_tokens: 2, output_tokens: 0 })
  })

  it('is given to a client whose base URL ends before the version, as everybody’s in the environment does', async () => {
    const proxy = openProxy()
    const sink = await send(proxy, proxy.openDoor(), { ...ASK, stream: true }, '/messages')
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(data(sink.text()).at(-1)).toEqual({ type: 'message_stop' })
  })

  it('that fails for now ends with an error event after which Claude Code asks again', async () => {
    const proxy = openProxy()
    const sink = await send(proxy, proxy.openDoor(), { ...ASK, stream: true })
    await proxy.world.advance(6_000)
    proxy.generations[0]?.respond(500, { error: { message: 'CUDA error' } })
    await proxy.settle()
    expect(sink.text()).toContain('event: error\n')
    expect(data(sink.text()).at(-1)).toMatchObject({ type: 'error', error: { type: 'overloaded_error', message: 'CUDA error' } })
    expect([sink.isEnded(), sink.isDestroyed()]).toEqual([true, false])
  })
})

describe('a failure', () => {
  it('of a prompt too long is final, in the words of the vendor, and names its call (TO-06)', async () => {
    const proxy = openProxy({ promptTokens: 45_000 })
    const sink = await send(proxy, proxy.openDoor(), ASK)
    const message = 'maximum context length is 32768 tokens, you requested 45000'
    proxy.generations[0]?.respond(400, { error: { message } })
    await proxy.settle()
    expect(sink.status()).toBe(400)
    expect(sink.json()).toMatchObject({
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 45000 tokens > 32768 maximum' },
    })
    expect(sink.headers()).toMatchObject({ 'x-should-retry': 'false', 'request-id': proxy.records[0]?.id })
    expect(proxy.generations).toHaveLength(1)
  })

  it('of the request has the envelope too', async () => {
    const proxy = openProxy()
    const sink = await send(proxy, proxy.openDoor(), { ...ASK, messages: [{ role: 'user' }] })
    expect([sink.status(), sink.headers()['x-should-retry']]).toEqual([400, 'false'])
    expect(sink.json()).toMatchObject({ type: 'error', error: { message: expect.stringContaining('messages[0].content') } })
  })
})

it.each([
  { status: 200, body: { count: 4_321 }, tokens: 4_321, kind: undefined },
  { status: 404, body: {}, tokens: expect.toSatisfy((tokens: number) => tokens > 4_000), kind: 'estimate' },
])('a count is asked of the engine’s tokenizer with status $status, and never recorded (TO-05)', async ({ status, body, tokens, kind }) => {
  const proxy = openProxy()
  await proxy.settle()
  const content = 'x'.repeat(20_000)
  const ask = { ...ASK, system: 'S', tools: [tool], messages: [asked([result('t', content)])] }
  const sink = await send(proxy, proxy.openDoor(), ask, '/v1/messages/count_tokens')
  expect(proxy.generations[0]?.body).toMatchObject({ messages: [told('S'), { role: 'tool', tool_call_id: 't', content }], tools: [{}] })
  proxy.generations[0]?.respond(status, body)
  await proxy.settle()
  expect([sink.status(), sink.json(), sink.headers()['x-polar-token-count']]).toEqual([200, { input_tokens: tokens }, kind])
  expect(proxy.records).toEqual([])
})

it('a second turn sends the first turn’s messages and its answer, byte for byte (TI-01, TI-02, TI-03, TI-12)', async () => {
  const proxy = openProxy()
  const door = proxy.openDoor()
  const body = (hash: string, messages: readonly unknown[]) => ({
    ...ASK,
    system: [words(BILLING.replace('11111', hash)), words('You are a coding agent.')],
    tools: [tool],
    messages,
  })
  const first = [asked([{ ...words('task'), cache_control: { type: 'ephemeral' } }]), told('1000 left')]
  const sink = await send(proxy, door, body('11111', first))
  const sampled = {
    role: 'assistant',
    content: '\n\n  I will.  \n',
    reasoning_content: ' R\n',
    tool_calls: [{ id: 'functions.f:0', type: 'function', function: { name: 'f', arguments: '{"a":  "x", "10": 1.0}' } }],
  }
  proxy.generations[0]?.answer({ message: sampled, finish: 'tool_calls' })
  await proxy.settle()
  // As the API promises: sent back as it was received.
  const { content } = sink.json() as { content: readonly { readonly id: string }[] }
  const { id = '' } = content.at(-1) ?? {}
  await send(proxy, door, body('22222', [asked('task'), first[1], said(content), asked([result(id, 'ok')]), told('900 left')]))
  const [before, after] = proxy.generations.map((generation) => generation.body.messages as readonly unknown[])
  expect(before).toEqual([told('You are a coding agent.'), asked('task'), told('1000 left')])
  expect(after).toEqual([...(before ?? []), sampled, { role: 'tool', tool_call_id: 'functions.f:0', content: 'ok' }, told('900 left')])
})
