// OpenAI Responses over several turns of one session: what was sampled goes back to the engine byte for byte.
import { describe, expect, it } from 'vitest'
import type { SessionDoor } from '../../src/proxy/boundary.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { type FakeSink, openProxy, type ProxyFixture } from '../lib/proxy-fixture.ts'
import { call, eventsOf, TOOLS } from '../lib/responses-fixture.ts'

const go = { role: 'user', content: 'go' }

function ask(proxy: ProxyFixture, door: SessionDoor, body: JsonObject): Promise<FakeSink> {
  return proxy.send({
    url: `${door.basePath}/v1/responses`,
    headers: { authorization: `Bearer ${door.key}` },
    bytes: JSON.stringify({ model: 'gpt-asked', tools: TOOLS, ...body }),
  })
}

/** Asks, has the engine say `message`, and gives the response. */
async function turn(proxy: ProxyFixture, door: SessionDoor, body: JsonObject, message: object, stream = false): Promise<JsonObject> {
  const sink = await ask(proxy, door, { ...body, stream })
  proxy.generations.at(-1)?.answer({ message })
  await proxy.settle()
  expect(sink.status()).toBe(200)
  if (!stream) return sink.json() as JsonObject // a response, as its own suite tests
  return eventsOf([sink.text()]).at(-1)?.response as JsonObject // likewise
}

const outputOf = ({ output }: JsonObject): readonly JsonObject[] => output as readonly JsonObject[] // as its own suite tests

const SAMPLED = [
  { id: 'TI-03', name: 'f', text: '{"path": "a.txt", "limit": 10}' },
  { id: 'TI-03', name: 'f', text: '{"10": "b", "2": "a"}' },
  { id: 'TI-03', name: 'f', text: '{"x": 1.0, "id": 12345678901234567890}' },
  { id: 'TI-03', name: 'f', text: '{"s": "caf\\u00e9"}' },
  { id: 'TI-04', name: 'apply_patch', text: '{"input": "*** Begin Patch\\n*** End Patch\\n"}' },
  { id: 'TI-04', name: 'apply_patch', text: '{"patch": "*** Begin Patch\\n*** End Patch\\n"}' },
  { id: 'TI-04', name: 'apply_patch', text: '*** Begin Patch\n*** End Patch\n' },
  { id: 'TI-05', name: 'mcp__files____status', text: '{ }' },
  { id: 'shell', name: 'shell', text: '{"commands": ["ls"],  "timeout_ms": 5}' },
  { id: 'local shell', name: 'local_shell', text: '{"command": ["ls"]}' },
  { id: 'tool search', name: 'tool_search', text: '{"query":  "x"}' },
]

describe.each([true, false])('an answer told as a stream: %s', (stream) => {
  it.each(SAMPLED)('$id: returned with its result, goes to the engine as it was sampled: $text', async ({ name, text }) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const message = { role: 'assistant', content: 'T', reasoning_content: ' R\n', tool_calls: [call('c1', text, name)] }
    const first = await turn(proxy, door, { input: [go] }, message, stream)
    const [reasoning, said, called] = outputOf(first)
    const type = String(called?.type).replace(/_call$/, name === 'tool_search' ? '_output' : '_call_output')
    const result = { type, call_id: called?.call_id, output: 'ok', tools: [] }
    // Codex puts the message behind the calls.
    await turn(proxy, door, { input: [go, reasoning, called, said, result, go] }, { role: 'assistant', content: 'done' }, stream)
    expect(proxy.generations[1]?.body.messages).toMatchObject([go, message, { role: 'tool', tool_call_id: 'c1' }, go])
    const { calls } = await door.seal()
    expect(calls[1]?.promptMessages[1]).toBe(calls[0]?.responseMessage)
  })
})

describe('TI-17: previous_response_id', () => {
  it('of this session is expanded to the whole conversation', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const message = { role: 'assistant', content: null, reasoning_content: 'R', tool_calls: [call('c1', '{"a":  1}')] }
    const first = await turn(proxy, door, { input: [go] }, message)
    const result = { type: 'function_call_output', call_id: 'c1', output: 'ok' }
    await turn(proxy, door, { previous_response_id: first.id, input: [result] }, { role: 'assistant', content: 'done' })
    expect(proxy.generations[1]?.body.messages).toEqual([go, message, { role: 'tool', tool_call_id: 'c1', content: 'ok' }])
  })

  it.each<{ given: string; body: (known: unknown) => JsonObject; code: string }>([
    { given: 'of another session', body: (known) => ({ previous_response_id: known, input: [go] }), code: 'previous_response_not_found' },
    {
      given: 'that nobody gave',
      body: () => ({ previous_response_id: `resp_${'0'.repeat(32)}`, input: [go] }),
      code: 'previous_response_not_found',
    },
    {
      given: 'of a foreign form',
      body: () => ({ previous_response_id: 'resp_unknown', input: [go] }),
      code: 'previous_response_not_found',
    },
  ])('$given is refused before an engine is asked', async ({ body, code }) => {
    const proxy = openProxy()
    const [door, stranger] = [proxy.openDoor(), proxy.openDoor()]
    const first = await turn(proxy, stranger, { input: [go] }, { role: 'assistant', content: 'x' })
    const sink = await ask(proxy, door, body(first.id))
    expect([sink.status(), sink.json()]).toMatchObject([400, { error: { code, param: 'previous_response_id' } }])
    expect(proxy.generations).toHaveLength(1)
  })

  it('with a conversation that grew from one text to more than a body is refused', async () => {
    const proxy = openProxy({ settings: { maxBodyBytes: 5_000 } })
    const door = proxy.openDoor()
    const long = { role: 'user', content: 'x'.repeat(3_000) }
    const first = await turn(proxy, door, { input: [long] }, { role: 'assistant', content: 'a' })
    const second = await turn(proxy, door, { previous_response_id: first.id, input: [long] }, { role: 'assistant', content: 'b' })
    const third = await ask(proxy, door, { previous_response_id: second.id, input: [long] })
    expect([third.status(), third.json()]).toMatchObject([413, { error: { code: 'too_large', param: 'previous_response_id' } }])
    expect(proxy.generations).toHaveLength(2)
  })

  it('with a result of a call that its conversation does not hold is refused with the id of the call', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const first = await turn(proxy, door, { input: [go] }, { role: 'assistant', content: 'x' })
    const result = { type: 'function_call_output', call_id: 'call_9', output: 'x' }
    const sink = await ask(proxy, door, { previous_response_id: first.id, input: [result] })
    expect([sink.status(), sink.text()]).toEqual([400, expect.stringContaining('call_9')])
    expect(proxy.generations).toHaveLength(1)
  })
})

describe('ST-01: an engine that takes its time', () => {
  it('leaves the client with events after 5 s and every 10 s, and no comment', async () => {
    const proxy = openProxy()
    const sink = await ask(proxy, proxy.openDoor(), { input: [go], stream: true })
    await proxy.world.advance(4_999)
    expect(sink.status()).toBeNull()
    await proxy.world.advance(20_001)
    expect(eventsOf([sink.text()]).map(({ type, sequence_number: number }) => [type, number])).toEqual([
      ['response.created', 0],
      ['response.in_progress', 1],
      ['response.in_progress', 2],
      ['response.in_progress', 3],
    ])
    proxy.generations[0]?.answer()
    await proxy.settle()
    const events = eventsOf([sink.text()])
    expect(events.at(-1)).toMatchObject({ type: 'response.completed', sequence_number: events.length - 1 })
    expect(sink.text()).not.toMatch(/^:/m)
    expect(sink.isEnded()).toBe(true)
  })

  it('and fails then is told as response.failed, after which the stream ends', async () => {
    const proxy = openProxy()
    const sink = await ask(proxy, proxy.openDoor(), { input: [go], stream: true })
    await proxy.world.advance(6_000)
    proxy.generations[0]?.respond(500, { error: { message: 'broken' } })
    await proxy.settle()
    expect(eventsOf([sink.text()]).at(-1)).toMatchObject({ type: 'response.failed', response: { error: { code: 'server_error' } } })
    expect(sink.isEnded()).toBe(true)
  })
})

it.each([true, false])('TO-06: a prompt that is too long is 400 with the code clients compact upon, stream: %s', async (stream) => {
  const proxy = openProxy()
  const sink = await ask(proxy, proxy.openDoor(), { input: [go], stream })
  const message = "This model's maximum context length is 32768 tokens. However, your messages resulted in 45000 tokens."
  proxy.generations[0]?.respond(400, { error: { message: `${message} Do less.`, type: 'BadRequestError', code: 400 } })
  await proxy.settle()
  expect([sink.status(), sink.json()]).toEqual([
    400,
    { error: { message, type: 'invalid_request_error', param: 'input', code: 'context_length_exceeded' } },
  ])
  expect(proxy.generations).toHaveLength(1)
})
