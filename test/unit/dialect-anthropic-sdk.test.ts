// The vendor's own SDK reads what this dialect writes: every answer the same plain and streamed, every failure as the class it should be.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import Anthropic from '@anthropic-ai/sdk'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatAnswer } from '../../src/proxy/chat.ts'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import type { HttpReply } from '../../src/proxy/dialects/dialect.ts'
import { failure } from '../../src/proxy/failure.ts'
import { answer, call, IDENTITY, replyForm, SAMPLES, streamed } from '../lib/anthropic-answers.ts'

const ASK = { model: 'claude-asked', max_tokens: 10, messages: [{ role: 'user' as const, content: 'x' }] }

let server: Server
let client: Anthropic
/** What every request is answered with. */
let reply: HttpReply
let requests = 0

beforeAll(async () => {
  server = createServer((request, response) => {
    requests += 1
    request.resume().on('end', () => response.writeHead(reply.status, { ...reply.headers }).end(reply.body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // The server listens on TCP, so its address has a port.
  const { port } = server.address() as AddressInfo
  client = new Anthropic({ apiKey: 'k', baseURL: `http://127.0.0.1:${port}`, maxRetries: 2 })
})

afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const ok = (type: string, body: string): HttpReply => ({ status: 200, headers: { 'content-type': type, 'request-id': 'req_1' }, body })

async function bothForms(sample: ChatAnswer, isLate: boolean) {
  reply = ok('application/json', replyForm().plain(sample, IDENTITY))
  const plain = await client.messages.create(ASK)
  reply = ok('text/event-stream; charset=utf-8', streamed(sample, isLate))
  // What the SDK adds of its own for structured answers.
  const { parsed_output: _parsed, ...folded } = await client.messages.stream(ASK).finalMessage()
  return { plain, folded }
}

/** The same over the accumulator that Claude Code's requests (`?beta=true`) go through. */
async function bothBetaForms(sample: ChatAnswer) {
  reply = ok('application/json', replyForm().plain(sample, IDENTITY))
  const plain = await client.beta.messages.create(ASK)
  reply = ok('text/event-stream; charset=utf-8', streamed(sample))
  const { parsed_output: _parsed, ...folded } = await client.beta.messages.stream(ASK).finalMessage()
  return { plain, folded }
}

describe('an answer', () => {
  it.each(SAMPLES)('is the same message plain and streamed: %# (ST-04)', async (sample) => {
    for (const isLate of [false, true]) {
      const { plain, folded } = await bothForms(sample, isLate)
      expect(folded).toEqual(plain)
    }
    const { plain, folded } = await bothBetaForms(sample)
    expect(folded).toEqual(plain)
  })

  it('keeps every argument object that JSON can write', async () => {
    const args = fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 })
    await fc.assert(
      fc.asyncProperty(fc.array(args, { minLength: 1, maxLength: 3 }), fc.constantFrom(0, 1), async (given, indent) => {
        const calls = given.map((each, index) => call(`c${index}`, JSON.stringify(each, null, indent)))
        const { plain, folded } = await bothForms(answer({ tool_calls: calls }), false)
        expect(folded).toEqual(plain)
      }),
      { numRuns: 60 },
    )
  })

  it('names its request', async () => {
    const { plain } = await bothForms(answer({ content: 'x' }), false)
    expect(plain._request_id).toBe('req_1')
  })
})

describe('a failure', () => {
  it.each([
    { code: 'invalid-request', type: Anthropic.BadRequestError, attempts: 1 },
    { code: 'unauthenticated', type: Anthropic.AuthenticationError, attempts: 1 },
    { code: 'forbidden', type: Anthropic.PermissionDeniedError, attempts: 1 },
    { code: 'model-unknown', type: Anthropic.NotFoundError, attempts: 1 },
    { code: 'budget-exhausted', type: Anthropic.BadRequestError, attempts: 1 },
  ] as const)('$code is of the right class, and asked for once', async ({ code, type, attempts }) => {
    reply = anthropic.failure(failure(code, 'why'))
    requests = 0
    const error: unknown = await client.messages.create(ASK).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(type)
    expect((error as InstanceType<typeof Anthropic.APIError>).message).toContain('why')
    expect(requests).toBe(attempts)
  })

  it('after the head ends the stream with its own type and words', async () => {
    const stream = replyForm().stream(IDENTITY)
    reply = ok('text/event-stream', stream.open(null) + stream.beat() + stream.failure(failure('engine-failed', 'why')))
    const error: unknown = await client.messages
      .stream(ASK)
      .finalMessage()
      .catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(Anthropic.APIError)
    expect(error).toMatchObject({ type: 'overloaded_error', apiMessage: 'why' })
  })
})

it('the counts and the models are read by the SDK', async () => {
  const model = { id: 'policy', createdSeconds: 0, maxModelLen: 4_096 }
  reply = ok('application/json', anthropic.tokenCount(12, model))
  expect(await client.messages.countTokens(ASK)).toMatchObject({ input_tokens: 12 })
  reply = ok('application/json', anthropic.modelList([model]))
  const listed: string[] = []
  for await (const { id } of client.models.list()) listed.push(id)
  expect(listed).toEqual(['policy'])
  reply = ok('application/json', anthropic.modelItem(model))
  expect(await client.models.retrieve('policy')).toMatchObject({ id: 'policy', max_input_tokens: 4_096 })
})
