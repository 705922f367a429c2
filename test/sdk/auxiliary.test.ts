// Everything an SDK may ask beside a generation, answered in its vendor's shape and never recorded as a call.
import { once } from 'node:events'
import { request } from 'node:http'
import { describe, expect, it } from 'vitest'
import { chatClient } from './drivers/chat.ts'
import type { Endpoint } from './drivers/driver.ts'
import { googleClient, vertexClient } from './drivers/google.ts'
import { anthropicClient } from './drivers/messages.ts'
import { describeEveryDialect } from './every-dialect.ts'
import { type Gateway, MODEL, openGateway } from './gateway.ts'
import { followUp, KINDS, scenario } from './scenarios.ts'

describeEveryDialect((driver) => {
  it.for(KINDS)('counts the tokens of %s as the real call does, turn by turn', async (kind, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const { ask, results } = scenario(kind)
    const begun = driver.begin(ask)
    const counted = await driver.count(opened.endpoint, begun)
    expect(opened.asked()).toEqual([])
    const { answer, history } = await driver.send(opened.endpoint, begun, { form: 'plain' })
    expect(counted).toBe(answer.usage.input)
    const next =
      results.length === 0
        ? driver.withUser(history, followUp)
        : driver.withResults(
            history,
            answer.calls.map((call, index) => ({ call, output: results[index] ?? '' })),
          )
    const countedNext = await driver.count(opened.endpoint, next)
    const second = await driver.send(opened.endpoint, next, { form: 'stream' })
    expect(countedNext).toBe(second.answer.usage.input)
    expect((await opened.door.seal()).calls).toHaveLength(2)
  })

  it('refuses an unknown key with 401, and another session’s URL with 403', async ({ onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const other = opened.openDoor()
    const begun = driver.begin(scenario('text').ask)
    for (const [endpoint, status] of [
      [{ ...opened.endpoint, key: '0'.repeat(64) }, 401],
      [{ ...opened.endpoint, key: 'sk-other' }, 401],
      [{ ...opened.endpoint, basePath: other.basePath }, 403],
    ] as const) {
      for (const form of ['plain', 'stream'] as const) {
        const error = await driver.send(endpoint, begun, { form }).catch((thrown: unknown) => thrown)
        expect(driver.isStatusError(error, status), String(error)).toBe(true)
        expect(driver.errorWord(error)).toBe(driver.errorWords[status])
      }
      const error = await driver.count(endpoint, begun).catch((thrown: unknown) => thrown)
      expect(driver.isStatusError(error, status), String(error)).toBe(true)
    }
    expect(opened.asked()).toEqual([])
    expect((await opened.door.seal()).calls).toEqual([])
    expect((await other.seal()).calls).toEqual([])
  })

  it('refuses the key of an ended session with 403', async ({ onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    await opened.door.seal()
    const error = await driver
      .send(opened.endpoint, driver.begin(scenario('text').ask), { form: 'plain' })
      .catch((thrown: unknown) => thrown)
    expect(driver.isStatusError(error, 403), String(error)).toBe(true)
    expect(driver.errorWord(error)).toBe(driver.errorWords[403])
  })
})

describe('google', () => {
  it('counts bare contents on the developer API’s route', async ({ onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const asked = { model: 'gemini-any', contents: 'Please show me text.' }
    const { totalTokens } = await googleClient(opened.endpoint).models.countTokens(asked)
    const { usageMetadata } = await googleClient(opened.endpoint).models.generateContent(asked)
    expect(totalTokens).toBe(usageMetadata?.promptTokenCount)
  })

  it('answers on the longer paths of Vertex', async ({ onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const asked = { model: 'gemini-any', contents: 'Please show me text.' }
    const { text } = await vertexClient(opened.endpoint).models.generateContent(asked)
    let streamed = ''
    for await (const chunk of await vertexClient(opened.endpoint).models.generateContentStream(asked)) streamed += chunk.text ?? ''
    expect(streamed).toBe(text)
    expect(opened.asked()).toHaveLength(2)
  })
})

describe('models', () => {
  it('lists and names them as OpenAI does', async ({ onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const { models } = chatClient(opened.endpoint)
    expect(await collect(models.list())).toMatchObject([{ id: MODEL, object: 'model' }])
    expect(await models.retrieve('Qwen/Qwen3-8B')).toMatchObject({ id: 'Qwen/Qwen3-8B', object: 'model' })
    await expectNothingRecorded(opened)
  })

  it('lists and names them as Anthropic does', async ({ onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const { models } = anthropicClient(opened.endpoint)
    expect(await collect(models.list({ limit: 1_000 }))).toMatchObject([{ id: MODEL, type: 'model' }])
    expect(await models.retrieve('claude-any')).toMatchObject({ id: 'claude-any', type: 'model' })
    await expectNothingRecorded(opened)
  })

  it('lists and names them as Google does', async ({ onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const { models } = googleClient(opened.endpoint)
    expect(await collect(await models.list())).toMatchObject([
      { name: `models/${MODEL}`, supportedActions: expect.arrayContaining(['generateContent', 'countTokens']), inputTokenLimit: 131_072 },
    ])
    expect(await models.get({ model: 'gemini-any' })).toMatchObject({ name: 'models/gemini-any' })
    await expectNothingRecorded(opened)
  })
})

describe('routes nobody serves', () => {
  const cases: readonly { readonly route: string; readonly ask: (endpoint: Endpoint) => PromiseLike<unknown>; readonly shape: object }[] = [
    {
      route: 'OpenAI embeddings',
      ask: (endpoint) => chatClient(endpoint).embeddings.create({ model: 'm', input: 'text' }),
      shape: { status: 404, type: 'not_found_error' },
    },
    {
      route: 'OpenAI completions',
      ask: (endpoint) => chatClient(endpoint).completions.create({ model: 'm', prompt: 'text' }),
      shape: { status: 404, type: 'not_found_error' },
    },
    {
      route: 'a stored OpenAI response',
      ask: (endpoint) => chatClient(endpoint).responses.retrieve('resp_0'),
      shape: { status: 404, type: 'not_found_error' },
    },
    {
      route: 'Anthropic batches',
      ask: (endpoint) => anthropicClient(endpoint).messages.batches.list(),
      shape: { status: 404, type: 'not_found_error', error: { type: 'error', error: { type: 'not_found_error' } } },
    },
    {
      route: 'Google embeddings',
      ask: (endpoint) => googleClient(endpoint).models.embedContent({ model: 'm', contents: 'text' }),
      shape: { name: 'ApiError', status: 404, message: expect.stringContaining('"status":"NOT_FOUND"') },
    },
    {
      route: 'Google files',
      ask: (endpoint) => googleClient(endpoint).files.get({ name: 'files/none' }),
      shape: { name: 'ApiError', status: 404, message: expect.stringContaining('"status":"NOT_FOUND"') },
    },
  ]
  it.for(cases)('$route: 404 in the vendor’s shape', async ({ ask, shape }, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const error: unknown = await Promise.resolve(ask(opened.endpoint)).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject(shape)
    await expectNothingRecorded(opened)
  })
})

describe('probes', () => {
  it.for(['HEAD', 'GET'])('%s / says who is there, with the session’s prefix and without', async (method, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const { origin, basePath } = opened.endpoint
    for (const path of ['/', basePath, `${basePath}/`]) {
      const response = await fetch(`${origin}${path}`, { method })
      expect(response.status).toBe(200)
      expect(await response.text()).toEqual(method === 'HEAD' ? '' : expect.stringContaining('polar-gateway'))
    }
    await expectNothingRecorded(opened)
  })

  it.for(['/v1/responses', '/v1/messages', '/v1/chat/completions', '/v1beta/models/m:generateContent', '/'])(
    'answers a WebSocket upgrade of %s with 426 at once',
    async (path, { onTestFinished }) => {
      const opened = await openGateway()
      onTestFinished(opened.close)
      const { origin, basePath, key } = opened.endpoint
      const asking = request(`${origin}${basePath}${path}`, {
        headers: {
          authorization: `Bearer ${key}`,
          connection: 'Upgrade',
          upgrade: 'websocket',
          'sec-websocket-version': '13',
          'sec-websocket-key': Buffer.alloc(16).toString('base64'),
        },
      }).end()
      const [response] = await once(asking, 'response')
      expect(response.statusCode).toBe(426)
      expect(response.headers['content-type']).toBe('application/json')
      const chunks: Buffer[] = []
      for await (const chunk of response) chunks.push(chunk)
      expect(JSON.parse(Buffer.concat(chunks).toString())).toHaveProperty('error.message')
      await expectNothingRecorded(opened)
    },
  )

  it('lets a WebSocket client fail instead of hang', async ({ onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const socket = new WebSocket(`${opened.endpoint.origin.replace('http', 'ws')}${opened.endpoint.basePath}/v1/responses`)
    await once(socket, 'error')
    expect(socket.readyState).not.toBe(WebSocket.OPEN)
  })
})

async function collect<T>(pages: AsyncIterable<T>): Promise<readonly T[]> {
  const all: T[] = []
  for await (const each of pages) all.push(each)
  return all
}

async function expectNothingRecorded(opened: Gateway): Promise<void> {
  expect(opened.asked()).toEqual([])
  expect((await opened.door.seal()).calls).toEqual([])
  expect(opened.reports).toEqual([])
}
