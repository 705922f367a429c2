// Google's own SDK against the dialect's replies: what it sends is read, and what it reads in every form is what was answered.
import { createServer, type Server, type ServerResponse } from 'node:http'
import { ApiError, type Content, type GenerateContentResponse, GoogleGenAI, type Part } from '@google/genai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatAnswer, NormalisedCall } from '../../src/proxy/chat.ts'
import { detect } from '../../src/proxy/detect.ts'
import { google } from '../../src/proxy/dialects/google/dialect.ts'
import { failure } from '../../src/proxy/failure.ts'
import { isObject, parseJson } from '../../src/proxy/json.ts'
import { ANSWERS, answer, canonicalArguments, saidOf, toolCall } from '../lib/dialect-answers.ts'

const identity = { id: 'ab'.repeat(16), createdSeconds: 0, model: 'm' }
const models = [{ id: 'Qwen/Qwen3-8B', createdSeconds: 0, maxModelLen: 40_960 }]

/** What the server answers next: how often it beats before the answer or the failure, which comes with a status or in the stream. */
type Plan = { readonly answer: ChatAnswer | null; readonly beats: number }

let plan: Plan = { answer: null, beats: 0 }
let asked: NormalisedCall | null = null
let server: Server
let ai: GoogleGenAI
const REASON = failure('engine-aborted', 'the engine gave up')

function serve(url: string, body: unknown, response: ServerResponse, method: string): ServerResponse {
  const { route } = detect(method, url, {})
  const json = (text: string, status = 200): ServerResponse => response.writeHead(status, { 'content-type': 'application/json' }).end(text)
  if (route.type === 'models') return json(google.modelList(models))
  if (route.type === 'model') return json(google.modelItem({ id: route.model, createdSeconds: 0, maxModelLen: 5 }))
  if (!isObject(body) || (route.type !== 'generate' && route.type !== 'count')) return json('{}', 404)
  const context = { tier: 'eval', pins: {}, url: route.url } as const
  if (route.type === 'count') {
    const counted = google.readCount(body, context)
    return counted.ok ? json(google.tokenCount(7, models[0]!)) : json(google.failure(counted.failure).body, counted.failure.status)
  }
  const read = google.read(body, context)
  if (!read.ok) return json(google.failure(read.failure).body, read.failure.status)
  asked = read.call
  if (!read.call.stream) {
    return plan.answer === null ? json(google.failure(REASON).body, REASON.status) : json(read.reply.plain(plan.answer, identity))
  }
  const stream = read.reply.stream(identity)
  response.writeHead(200, { 'content-type': read.reply.streamType })
  const frames = [stream.open(plan.answer), ...Array.from({ length: plan.beats }, () => stream.beat())]
  frames.push(...(plan.answer === null ? [stream.failure(REASON) ?? ''] : stream.answer(plan.answer)))
  // In awkward pieces: clients may not count on whole events.
  for (const piece of frames.join('').match(/.{1,4099}/gsu) ?? []) response.write(piece)
  return response.end()
}

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const chunks: Uint8Array[] = []
    for await (const chunk of request) chunks.push(chunk)
    const parsed = parseJson(Buffer.concat(chunks))
    serve(request.url ?? '/', parsed.ok ? parsed.value : null, response, request.method ?? 'GET')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  ai = new GoogleGenAI({ apiKey: 'k', httpOptions: { baseUrl: `http://127.0.0.1:${port}`, retryOptions: { attempts: 1 } } })
})

afterAll(() => new Promise((resolve) => server.close(resolve)))

function saidIn(responses: readonly GenerateContentResponse[]) {
  const parts = responses.flatMap((response) => response.candidates?.[0]?.content?.parts ?? [])
  const texts = (isThought: boolean) =>
    parts
      .filter((part) => (part.thought ?? false) === isThought)
      .map((part) => part.text ?? '')
      .join('')
  const usage = responses.at(-1)?.usageMetadata
  const finishes = responses.flatMap((response) => response.candidates?.[0]?.finishReason ?? [])
  return {
    reasoning: texts(true),
    text: texts(false),
    calls: responses
      .flatMap((response) => response.functionCalls ?? [])
      .map(({ id, name, args }) => ({ id, name, arguments: canonicalArguments(JSON.stringify(args)) })),
    finish: finishes,
    usage: {
      prompt: usage?.promptTokenCount,
      completion: (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0),
      cached: usage?.cachedContentTokenCount ?? 0,
    },
  }
}

function expected(given: ChatAnswer) {
  const said = saidOf(given)
  return { ...said, finish: [said.finish === 'length' ? 'MAX_TOKENS' : said.finish === 'filtered' ? 'SAFETY' : 'STOP'] }
}

async function collect(stream: AsyncIterable<GenerateContentResponse>): Promise<readonly GenerateContentResponse[]> {
  const found: GenerateContentResponse[] = []
  for await (const chunk of stream) found.push(chunk)
  return found
}

describe('the SDK reads', () => {
  it.each(Object.entries(ANSWERS))('%s, plain and streamed, with beats and without', async (_name, given) => {
    plan = { answer: given, beats: 0 }
    expect(saidIn([await ai.models.generateContent({ model: 'm', contents: 'q' })])).toEqual(expected(given))
    for (const beats of [0, 3]) {
      plan = { answer: given, beats }
      const chunks = await collect(await ai.models.generateContentStream({ model: 'm', contents: 'q' }))
      expect(saidIn(chunks)).toEqual(expected(given))
      expect(chunks.length).toBeGreaterThan(beats)
      expect(chunks.every(({ responseId, modelVersion }) => responseId === identity.id && modelVersion === 'm')).toBe(true)
    }
  })

  it('a failure by its status, and one inside a stream', async () => {
    plan = { answer: null, beats: 2 }
    const failures = [
      ai.models.generateContent({ model: 'm', contents: 'q' }),
      ai.models.generateContentStream({ model: 'm', contents: 'q' }).then(collect),
    ]
    for (const failed of failures) {
      const error = await failed.then(
        () => null,
        (reason: unknown) => reason,
      )
      expect(error).toBeInstanceOf(ApiError)
      expect(error).toMatchObject({ status: 503, message: expect.stringContaining('the engine gave up') })
    }
  })

  it('a list of models, one of them, and a count', async () => {
    const listed = await ai.models.list()
    expect(listed.page).toMatchObject([
      {
        name: 'models/Qwen/Qwen3-8B',
        inputTokenLimit: 40_960,
        supportedActions: ['generateContent', 'streamGenerateContent', 'countTokens'],
      },
    ])
    expect(await ai.models.get({ model: 'any/name' })).toMatchObject({ name: 'models/any/name', outputTokenLimit: 5 })
    expect(await ai.models.countTokens({ model: 'm', contents: ['a', 'b'] })).toMatchObject({ totalTokens: 7 })
  })
})

describe('a chat session of the SDK', () => {
  it.each([0, 2])('returns the whole turn that it was streamed, after %i beats, and it is one message', async (beats) => {
    const chat = ai.chats.create({ model: 'm', config: { systemInstruction: 'S', tools: [{ functionDeclarations: [{ name: 'edit' }] }] } })
    const turns: readonly ChatAnswer[] = [
      answer({
        reasoning_content: 'R\n',
        content: 'T'.repeat(9_000),
        tool_calls: [toolCall('call_a', '{"x": 1.0}'), toolCall('call_b', '{}')],
      }),
      answer({ reasoning_content: 'R2', content: ' done ' }),
      answer({ content: null }),
      answer({ content: 'last' }),
    ]
    const messages: readonly (string | readonly Part[])[] = [
      'q',
      ['call_a', 'call_b'].map((id) => ({ functionResponse: { id, name: 'edit', response: { output: id } } })),
      'more',
      'and?',
    ]
    for (const [index, given] of turns.entries()) {
      plan = { answer: given, beats }
      await collect(await chat.sendMessageStream({ message: messages[index] as string | Part[] }))
    }
    const signed = { origin: identity.id }
    expect(asked?.request.messages).toEqual([
      { role: 'system', content: 'S' },
      { role: 'user', content: 'q' },
      {
        role: 'assistant',
        content: 'T'.repeat(9_000),
        reasoning_content: 'R\n',
        tool_calls: [toolCall('call_a', '{"x":1}'), toolCall('call_b', '{}')],
        ...signed,
      },
      { role: 'tool', tool_call_id: 'call_a', content: '{"output":"call_a"}' },
      { role: 'tool', tool_call_id: 'call_b', content: '{"output":"call_b"}' },
      { role: 'assistant', content: ' done ', reasoning_content: 'R2', ...signed },
      { role: 'user', content: 'more' },
      { role: 'assistant', content: '', ...signed },
      { role: 'user', content: 'and?' },
    ])
    expect(asked?.diagnostics).toEqual([])
  })

  it('sends what the reader knows', async () => {
    plan = { answer: ANSWERS.text ?? null, beats: 0 }
    const contents: Content[] = [{ role: 'user', parts: [{ text: 'see' }, { inlineData: { mimeType: 'image/png', data: 'AAAA' } }] }]
    await ai.models.generateContent({
      model: 'm',
      contents,
      config: {
        temperature: 0.5,
        topK: 3,
        maxOutputTokens: 9,
        thinkingConfig: { includeThoughts: true },
        stopSequences: ['x'],
        responseMimeType: 'application/json',
        responseSchema: { type: 'OBJECT', properties: { a: { type: 'STRING', nullable: true } } } as never,
        tools: [{ functionDeclarations: [{ name: 'f', parametersJsonSchema: { type: 'object' } }] }],
        toolConfig: { functionCallingConfig: { mode: 'ANY' as never } },
        safetySettings: [],
      },
    })
    expect(asked).toMatchObject({ modelRequested: 'm', stream: false, maxTokensRequested: 9, diagnostics: [] })
    expect(asked?.request).toEqual({
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'see' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
          ],
        },
      ],
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
      parameters: {
        temperature: 0.5,
        top_k: 3,
        max_tokens: 9,
        stop: ['x'],
        chat_template_kwargs: { enable_thinking: true },
        tool_choice: 'required',
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'google_response', schema: { type: 'object', properties: { a: { type: ['string', 'null'] } } } },
        },
      },
    })
  })
})
