// OpenAI's own SDK reads both forms of every answer, and finds the same response in them.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import OpenAI from 'openai'
import type { Response } from 'openai/resources/responses/responses'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatAnswer } from '../../src/proxy/chat.ts'
import { openaiResponses } from '../../src/proxy/dialects/openai-responses/dialect.ts'
import { failure } from '../../src/proxy/failure.ts'
import { answer, call, IDENTITY, SAMPLES, TOOLS } from '../lib/responses-fixture.ts'

let server: Server
let client: OpenAI
/** What the server answers with; a failure when there is none. */
let sample: ChatAnswer | null = null

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  let text = ''
  for await (const chunk of request) text += chunk
  return JSON.parse(text)
}

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const body = await bodyOf(request)
    const read = openaiResponses.read(body, { tier: 'eval', pins: {}, url: { model: null, form: null } })
    if (request.url?.endsWith('/input_tokens')) {
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(openaiResponses.tokenCount(41, { id: 'm', createdSeconds: 0, maxModelLen: null }))
      return
    }
    if (!read.ok) {
      const told = openaiResponses.failure(read.failure)
      response.writeHead(told.status, told.headers).end(told.body)
      return
    }
    if (!read.call.stream) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(read.reply.plain(sample ?? answer({}), IDENTITY))
      return
    }
    response.writeHead(200, { 'content-type': read.reply.streamType })
    const stream = read.reply.stream(IDENTITY)
    response.write(stream.open(sample) + stream.beat())
    if (sample === null) {
      response.end(stream.failure(failure('overloaded', 'busy', { retryAfterMs: 2_000 })))
      return
    }
    for (const frame of stream.answer(sample)) response.write(frame)
    response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // a TCP server has no other kind of address
  client = new OpenAI({ apiKey: 'k', baseURL: `http://127.0.0.1:${port}/v1`, maxRetries: 0 })
})

afterAll(async () => {
  server.close()
  await once(server, 'close')
})

/** The tools as the SDK's own types have them. */
const asked = { model: 'gpt-asked', input: 'hi', tools: TOOLS.map((tool) => ({ ...tool })) as unknown as OpenAI.Responses.Tool[] } // written for the wire, where `strict` may be missing

/** What the SDK adds to what it was sent. */
function wire({ output_text: _text, ...response }: Response & { readonly output_parsed?: unknown }): object {
  const { output_parsed: _parsed, ...rest } = response
  return {
    ...rest,
    output: rest.output.map((item) => {
      if (item.type === 'function_call') return withoutParsed(item)
      return item.type === 'message' ? { ...item, content: item.content.map(withoutParsed) } : item
    }),
  }
}

function withoutParsed(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([name]) => name !== 'parsed' && name !== 'parsed_arguments'))
}

describe.each(SAMPLES.map((each, index) => ({ each, index })))('sample $index', ({ each }) => {
  it('is one response as plain answer, as accumulated stream and as bare events', async () => {
    sample = each
    const plain = await client.responses.create({ ...asked })
    expect(plain.output_text).toBe(each.message.content ?? '')
    const accumulated = await client.responses.stream({ ...asked }).finalResponse()
    expect(wire(accumulated)).toEqual(wire(plain))
    expect(accumulated.output_text).toBe(plain.output_text)
    const items: unknown[] = []
    let last: Response | null = null
    for await (const event of await client.responses.create({ ...asked, stream: true })) {
      if (event.type === 'response.output_item.done') items.push(event.item)
      if (event.type === 'response.completed' || event.type === 'response.incomplete') last = event.response
    }
    expect(items).toEqual(plain.output)
    expect(last).toEqual(wire(plain))
  })
})

it('hears a failure after the head', async () => {
  sample = null
  const events = []
  for await (const event of await client.responses.create({ ...asked, stream: true })) events.push(event)
  expect(events.at(-1)).toMatchObject({
    type: 'response.failed',
    response: { status: 'failed', error: { code: 'rate_limit_exceeded', message: 'busy (please try again in 2s)' } },
  })
})

it('hears a refusal as an error of its own kind', async () => {
  await expect(client.responses.create({ ...asked, previous_response_id: 'resp_unknown' })).rejects.toMatchObject({
    status: 400,
    code: 'previous_response_not_found',
    param: 'previous_response_id',
    type: 'invalid_request_error',
  })
})

it('counts input tokens', async () => {
  expect(await client.responses.inputTokens.count({ model: 'm', input: 'hi' })).toMatchObject({
    object: 'response.input_tokens',
    input_tokens: 41,
  })
})

it('takes a whole answer back as input of the next request', async () => {
  sample = answer({ reasoning_content: 'R', content: 'T', tool_calls: [call('a', '{"x": 1.0}')] })
  const first = await client.responses.create({ ...asked })
  const next = await client.responses.create({
    ...asked,
    input: [
      { role: 'user', content: 'hi' },
      ...(first.output as OpenAI.Responses.ResponseInput),
      { type: 'function_call_output', call_id: 'a', output: 'ok' },
    ], // what the vendor's manual tells callers to do
  })
  expect(next.status).toBe('completed')
})
