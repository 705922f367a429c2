// Google's dialect through the boundary: sessions of its clients, each with its own way of losing things, and streams that wait.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SessionDoor } from '../../src/proxy/boundary.ts'
import { openProxy, type ProxyFixture } from '../lib/proxy-fixture.ts'

let proxy: ProxyFixture
let door: SessionDoor

beforeEach(async () => {
  proxy = openProxy()
  door = proxy.openDoor()
  await proxy.settle()
})
afterEach(() => proxy.close())

type Part = {
  readonly text?: string
  readonly thought?: boolean
  readonly thoughtSignature?: string
  readonly functionCall?: { readonly id?: string; readonly name: string; readonly args: object }
}
type Content = { readonly role: string; readonly parts: readonly object[] }

const ARGUMENTS = '{"path": "a.txt",  "limit": 1.0}'
const ANSWER = {
  role: 'assistant',
  content: '\n\nI look.',
  reasoning_content: ' Hm.\n',
  tool_calls: [
    { id: 'call_x', type: 'function', function: { name: 'read', arguments: ARGUMENTS } },
    { id: 'call_y', type: 'function', function: { name: 'read', arguments: '{}' } },
  ],
}

function ask(action: string, body: object) {
  const url = `${door.basePath}/v1beta/models/gemini-asked:${action}`
  return proxy.send({ url, headers: { 'x-goog-api-key': door.key }, bytes: JSON.stringify(body) })
}

async function answered(contents: readonly Content[]): Promise<readonly Part[]> {
  const sink = await ask('streamGenerateContent?alt=sse', { contents })
  proxy.generations.at(-1)?.answer({ message: ANSWER, finish: 'tool_calls' })
  await proxy.settle()
  expect([sink.status(), sink.headers()['content-type'], sink.isEnded()]).toEqual([200, 'text/event-stream; charset=utf-8', true])
  return sink.events().flatMap((event) => JSON.parse(event).candidates[0].content.parts)
}

const results = (id: (index: number) => string | undefined): Content => ({
  role: 'user',
  parts: ['X', 'Y'].map((output, index) => ({ functionResponse: { id: id(index), name: 'read', response: { output } } })),
})
const FIRST: Content = { role: 'user', parts: [{ text: 'q' }] }

describe('a session', () => {
  it.each([
    {
      client: 'that keeps everything',
      keep: (parts: readonly Part[]) => parts,
      id: (parts: readonly Part[], index: number) => parts.filter((part) => part.functionCall)[index]?.functionCall?.id,
    },
    {
      client: 'that drops thoughts and puts the name before each id',
      keep: (parts: readonly Part[]) =>
        parts
          .filter((part) => part.thought !== true)
          .map((part) =>
            part.functionCall === undefined
              ? part
              : { ...part, functionCall: { ...part.functionCall, id: `read__${part.functionCall.id}` } },
          ),
      id: (parts: readonly Part[], index: number) => `read__${parts.filter((part) => part.functionCall)[index]?.functionCall?.id}`,
    },
    {
      client: 'that has no ids and a signature of its own',
      keep: (parts: readonly Part[]) =>
        parts
          .filter((part) => part.thought !== true)
          .map(({ thoughtSignature: _dropped, ...part }) =>
            part.functionCall === undefined
              ? part
              : {
                  functionCall: { name: part.functionCall.name, args: part.functionCall.args },
                  thoughtSignature: 'skip_thought_signature_validator',
                },
          ),
      id: () => undefined,
    },
  ])('with a client $client asks the engine with its own words', async ({ keep, id }) => {
    const parts = await answered([FIRST])
    const history = [FIRST, { role: 'model', parts: keep(parts) }, results((index) => id(parts, index))]
    await answered(JSON.parse(JSON.stringify(history)))
    expect(proxy.generations.map(({ body }) => body.messages)).toEqual([
      [{ role: 'user', content: 'q' }],
      [
        { role: 'user', content: 'q' },
        ANSWER,
        { role: 'tool', tool_call_id: 'call_x', content: '{"output":"X"}' },
        { role: 'tool', tool_call_id: 'call_y', content: '{"output":"Y"}' },
      ],
    ])
    expect(new Set(proxy.records.map(({ dialect, status, streamed }) => `${dialect} ${status} ${streamed}`))).toEqual(
      new Set(['google ok true']),
    )
    expect(proxy.faults).toEqual([])
  })
})

describe('a stream that waits', () => {
  it('beats with data, and tells its answer with one finish', async () => {
    const sink = await ask('streamGenerateContent?alt=sse', { contents: [FIRST] })
    await proxy.world.advance(25_000)
    expect(sink.status()).toBe(200)
    proxy.generations[0]?.answer()
    await proxy.settle()
    const told = sink.events().map((event) => JSON.parse(event).candidates[0])
    expect(told.map((candidate) => [candidate.content.parts[0].text, candidate.finishReason])).toEqual([
      ['', undefined],
      ['', undefined],
      ['Hello.', 'STOP'],
    ])
  })

  it('is one JSON array without alt=sse, white space while it waits', async () => {
    const sink = await ask('streamGenerateContent', { contents: [FIRST] })
    await proxy.world.advance(25_000)
    expect([sink.headers()['content-type'], sink.text()]).toEqual(['application/json', '[\n\n'])
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(sink.json()).toMatchObject([{ candidates: [{ content: { parts: [{ text: 'Hello.' }] }, finishReason: 'STOP' }] }])
  })

  it.each(['streamGenerateContent?alt=sse', 'streamGenerateContent'])('and fails in its own form: %s', async (action) => {
    const sink = await ask(action, { contents: [FIRST] })
    await proxy.world.advance(6_000)
    proxy.generations[0]?.respond(400, { message: 'no such thing' })
    await proxy.settle()
    expect(sink.isEnded()).toBe(true)
    const told = action.includes('sse') ? sink.events().map((event) => JSON.parse(event)) : sink.json()
    expect(told).toEqual([{ error: { code: 400, message: 'no such thing', status: 'INVALID_ARGUMENT' } }])
  })
})

it('a count and a refusal are no calls', async () => {
  const counted = await ask('countTokens', { contents: [FIRST] })
  proxy.generations[0]?.respond(404, {})
  await proxy.settle()
  expect([counted.status(), counted.json()]).toEqual([200, { totalTokens: expect.any(Number) }])
  const refused = await ask('generateContent', { contents: [FIRST], cachedContent: 'c' })
  expect([refused.status(), refused.json()]).toMatchObject([400, { error: { code: 400, status: 'INVALID_ARGUMENT' } }])
  expect(proxy.records).toEqual([])
})
