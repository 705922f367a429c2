// The real OpenAI SDK over real sockets against the scripted engine: same content either way, one generation per turn, exact tokens.
import OpenAI from 'openai'
import { Agent, type RequestInit as UndiciRequestInit, fetch as undiciFetch } from 'undici'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { CallRecord } from '../../src/contract/call.ts'
import { replicaId, sessionId } from '../../src/contract/ids.ts'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { threadId } from '../../src/kernel/address.ts'
import { cryptoRandom, openEventLoop } from '../../src/kernel/event-loop.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import type { Boundary, SessionDoor } from '../../src/proxy/boundary.ts'
import { type ModelPort, openModelPort } from '../../src/proxy/model-port.ts'
import { openBoundary } from '../../src/proxy/open-boundary.ts'
import { openArena } from '../../src/tokens/arena.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import { wholeGenerations } from '../lib/whole-generations.ts'

const MODEL = 'qwen3-scripted'
const TOOLS = [
  {
    type: 'function' as const,
    function: { name: 'read', description: 'Reads a file', parameters: { type: 'object', properties: { path: { type: 'string' } } } },
  },
]
const SCRIPT = {
  rules: [
    {
      match: { has_tool: 'read', turn: 1 },
      choices: [
        {
          text: 'Two files.',
          reasoning: 'I need both.',
          tool_calls: [
            { name: 'read', arguments: { path: 'a.txt' } },
            { name: 'read', arguments: { path: 'é.txt' } },
          ],
        },
      ],
    },
    { match: { has_tool: 'read', turn: 2 }, choices: [{ text: 'Both are empty.' }] },
    { match: { first_user_contains: 'slow' }, choices: [{ text: 'At last.', latency: { ttft_ms: 350 } }] },
    { choices: [{ text: 'Hello 👋 from the engine.', reasoning: 'A greeting.' }] },
  ],
}

let engine: ScriptedEngine
let kernel: Kernel
let boundary: Boundary
let port: ModelPort
let door: SessionDoor
let records: CallRecord[] = []
let sessions = 0
/** Connections that the server saw close before their end. */
let departures = 0

beforeAll(async () => {
  engine = await openScriptedEngine({ script: SCRIPT, seed: 5 })
  kernel = openKernel({ thread: threadId('gateway-0'), incarnation: 1, scheduler: openEventLoop(), random: cryptoRandom(), peers: 0 })
  boundary = openBoundary({
    kernel,
    arena: openArena({ maxSlabs: 1, slabTokens: 2 ** 16 }),
    model: MODEL,
    replicas: [{ id: replicaId('r0'), url: engine.url, engine: 'vllm' }],
    settings: { commitAfterMs: 60, beatEveryMs: 60, repeatDelayMs: 5, lingerMs: 3_000 },
    recordCall: async (record) => {
      records.push(record)
      return true
    },
  })
  // The probe's own generation must not be counted.
  while ((await boundary.replicas())[0]?.state !== 'up') await new Promise((resolve) => setImmediate(resolve))
  const watched: Boundary = {
    ...boundary,
    handle(call, sink) {
      sink.onClosed(() => {
        departures += 1
      })
      return boundary.handle(call, sink)
    },
  }
  port = await openModelPort({ host: '127.0.0.1', port: 0, boundary: watched })
})

afterAll(async () => {
  await port.close()
  await boundary.close()
  await kernel.close()
  await engine.close()
})

beforeEach(() => {
  engine.setFault(null)
  records = []
  sessions += 1
  const opened = boundary.openDoor({ session: sessionId(`conf-${sessions}`), attempt: 1, tier: 'train', pins: {}, notify: () => {} })
  if (!opened.ok) throw new Error(opened.error)
  door = opened.door
  connections = new Agent()
})

afterEach(async () => {
  door.close()
  await connections.close()
})

/** Closing a door cuts what is still open of it, so a test must not inherit a socket from the one before. */
let connections: Agent
const fetchOwn: typeof fetch = (input, init) =>
  // The two fetches differ in their types only; undici's takes the dispatcher.
  undiciFetch(input as string, { ...(init as unknown as UndiciRequestInit), dispatcher: connections }) as unknown as Promise<Response>

const client = (options: { maxRetries?: number; timeout?: number } = {}) =>
  new OpenAI({ apiKey: door.key, baseURL: `http://127.0.0.1:${port.port}${door.basePath}/v1`, maxRetries: 0, fetch: fetchOwn, ...options })

type Turn = {
  content: string | null
  reasoning: string | undefined
  calls: readonly (readonly [string, string, string])[]
  finish: string | null
  usage: unknown
}
type Asked = { readonly messages: OpenAI.ChatCompletionMessageParam[]; readonly tools?: OpenAI.ChatCompletionTool[] }

/** The turn as the SDK's own accumulator sees it, streamed or plain. */
async function ask(sdk: OpenAI, asked: Asked, stream: boolean, abort?: AbortController): Promise<Turn> {
  const options = abort === undefined ? {} : { signal: abort.signal }
  let completion: OpenAI.ChatCompletion
  let reasoning = ''
  if (stream) {
    const runner = sdk.chat.completions.stream({ model: 'gpt-any', ...asked, stream_options: { include_usage: true } }, options)
    for await (const chunk of runner) {
      abort?.abort()
      const delta = chunk.choices[0]?.delta as { reasoning_content?: string } | undefined
      reasoning += delta?.reasoning_content ?? ''
    }
    completion = await runner.finalChatCompletion()
  } else {
    completion = await sdk.chat.completions.create({ model: 'gpt-any', ...asked }, options)
    reasoning = (completion.choices[0]?.message as { reasoning_content?: string } | undefined)?.reasoning_content ?? ''
  }
  const [choice] = completion.choices
  return {
    content: choice?.message.content || null,
    reasoning: reasoning === '' ? undefined : reasoning,
    calls: (choice?.message.tool_calls ?? []).map((call) =>
      call.type === 'function' ? [call.id, call.function.name, call.function.arguments] : ['', '', ''],
    ),
    finish: choice?.finish_reason ?? null,
    usage: completion.usage,
  }
}

const plainText: Asked = { messages: [{ role: 'user', content: 'hello' }] }
const withTools: Asked = { messages: [{ role: 'user', content: 'look' }], tools: TOOLS }
const slow = (asked: Asked): Asked => ({
  messages: [{ role: 'user', content: 'slow please' }],
  ...(asked.tools === undefined ? {} : { tools: [{ type: 'function' as const, function: { name: 'other' } }] }),
})

/** Generations the engine did for this test, by their truth. */
function emitted(since: number) {
  return wholeGenerations(engine.requests().slice(since)).filter((request) => request.status === 200 && request.sampledIds.length > 0)
}

async function expectExactTokens(since: number) {
  const sealed = await door.seal()
  const read = readCalls(sealed.tokens)
  const answered = sealed.calls.flatMap((call, index) => (call.status === 'ok' ? [{ call, tokens: read[index] }] : []))
  const truth = emitted(since).filter(({ fault }) => fault === null)
  expect(answered).toHaveLength(truth.length)
  for (const [index, { call, tokens }] of answered.entries()) {
    expect(call.captureError).toBeNull()
    expect([...(tokens?.promptIds ?? [])]).toEqual(truth[index]?.promptIds)
    expect([...(tokens?.sampledIds ?? [])]).toEqual(truth[index]?.sampledIds)
    expect([...(tokens?.logprobs ?? [])]).toEqual([...Float32Array.from((truth[index]?.logprobs ?? []).map(Number))])
  }
  for (const call of sealed.calls) expect(records.findLast(({ id }) => id === call.id)).toEqual(call)
  door.releaseSealed()
  return sealed
}

const forms = [
  { form: 'plain text', asked: plainText, stream: false },
  { form: 'streamed text', asked: plainText, stream: true },
  { form: 'plain tools', asked: withTools, stream: false },
  { form: 'streamed tools', asked: withTools, stream: true },
]

describe.each(forms)('$form', ({ asked, stream }) => {
  it('comes whole, in one generation', async () => {
    const since = engine.requests().length
    const turn = await ask(client(), asked, stream)
    if (asked.tools === undefined)
      expect(turn).toMatchObject({ content: 'Hello 👋 from the engine.', reasoning: 'A greeting.', calls: [], finish: 'stop' })
    else {
      expect(turn).toMatchObject({ content: 'Two files.', reasoning: 'I need both.', finish: 'tool_calls' })
      expect(turn.calls.map(([, name, args]) => [name, JSON.parse(args)])).toEqual([
        ['read', { path: 'a.txt' }],
        ['read', { path: 'é.txt' }],
      ])
    }
    const [truth] = emitted(since)
    expect(turn.usage).toMatchObject({ prompt_tokens: truth?.promptIds.length, completion_tokens: truth?.sampledIds.length })
    expect((await expectExactTokens(since)).calls).toMatchObject([{ delivery: 'yes', streamed: stream }])
  })

  it.each([
    { fault: 'http-429' as const, status: 429 },
    { fault: 'http-503' as const, status: 503 },
  ])('refused with $fault has that status and can be asked for again', async ({ fault, status }) => {
    const since = engine.requests().length
    engine.setFault({ fault, times: 1 })
    const refused = await ask(client(), asked, stream).catch((error: unknown) => error)
    expect(refused).toMatchObject({ status })
    expect(refused instanceof OpenAI.APIError && refused.headers?.get('retry-after')).toBe('1')
    await ask(client(), asked, stream)
    const { calls } = await expectExactTokens(since)
    expect(calls).toMatchObject([{ status: 'failed', httpStatus: status }, { status: 'ok' }])
    expect(calls[1]?.retryOf).toBe(calls[0]?.id)
  })

  it('failed by the engine is retried by the SDK into one generation', async () => {
    const since = engine.requests().length
    engine.setFault({ fault: 'http-500', times: 1 })
    await ask(client({ maxRetries: 2 }), asked, stream)
    const { calls } = await expectExactTokens(since)
    expect(calls).toMatchObject([{ status: 'failed', httpStatus: 500 }, { status: 'ok' }])
    expect(calls[1]?.retryOf).toBe(calls[0]?.id)
  })

  it('given up by the engine goes on without the client noticing', async () => {
    const since = engine.requests().length
    engine.setFault({ fault: 'abort', times: 1 })
    const turn = await ask(client(), asked, stream)
    expect(turn.finish).toBe(asked.tools === undefined ? 'stop' : 'tool_calls')
    const { calls } = await expectExactTokens(since)
    expect(calls).toMatchObject([{ status: 'ok', diagnostics: [{ code: 'generation-aborted' }] }])
  })

  it('cut by the engine is generated again without the client noticing', async () => {
    const since = engine.requests().length
    engine.setFault({ fault: 'reset-in-body', times: 1 })
    await ask(client(), asked, stream)
    expect((await expectExactTokens(since)).calls).toMatchObject([{ status: 'ok', diagnostics: [{ code: 'replica-unreachable' }] }])
  })

  it('left by the client in the middle and asked again is the same generation', async () => {
    const since = engine.requests().length
    const left = departures
    const abort = new AbortController()
    // A stream is cut at its first chunk, a plain call while the engine works.
    const first = ask(client(), slow(asked), stream, abort).catch((error: unknown) => error)
    while (!stream && engine.requests().length === since) await new Promise((resolve) => setImmediate(resolve))
    if (!stream) abort.abort()
    expect(await first).toBeInstanceOf(OpenAI.APIUserAbortError)
    // The client knows of its leaving before the server does.
    while (departures === left) await new Promise((resolve) => setImmediate(resolve))
    expect((await ask(client(), slow(asked), stream)).content).toBe('At last.')
    expect((await expectExactTokens(since)).calls).toMatchObject([{ status: 'ok', delivery: 'yes', retryOf: null }])
    expect(engine.requests().length - since).toBe(1)
  })

  it('given up by a client timeout and retried by the SDK is the same generation', async () => {
    const since = engine.requests().length
    // A stream has its head before the SDK's patience ends; a plain call has not.
    const turn = await ask(client({ maxRetries: 2, timeout: 200 }), slow(asked), stream)
    expect(turn.content).toBe('At last.')
    expect(engine.requests().length - since).toBe(1)
    expect((await expectExactTokens(since)).calls).toMatchObject([{ status: 'ok', delivery: 'yes' }])
  })
})

describe('a conversation', () => {
  it('extends its own tokens turn by turn, tool calls included', async () => {
    const since = engine.requests().length
    const sdk = client()
    const first = await sdk.chat.completions.create({ model: 'm', ...withTools })
    const message = first.choices[0]?.message
    const calls = message?.tool_calls ?? []
    const history: OpenAI.ChatCompletionMessageParam[] = [
      ...withTools.messages,
      // As clients send it back: arguments printed anew, reasoning gone, content kept.
      {
        role: 'assistant',
        content: message?.content ?? '',
        tool_calls: calls.map((call) => ({
          id: call.id,
          type: 'function' as const,
          function:
            call.type === 'function'
              ? { name: call.function.name, arguments: JSON.stringify(JSON.parse(call.function.arguments), null, 4) }
              : { name: '', arguments: '' },
        })),
      },
      ...calls.map((call) => ({ role: 'tool' as const, tool_call_id: call.id, content: 'empty' })),
    ]
    const second = await sdk.chat.completions.create({ model: 'm', messages: history, tools: TOOLS })
    expect(second.choices[0]?.message.content).toBe('Both are empty.')
    const { calls: recorded, tokens } = await expectExactTokens(since)
    expect(recorded[1]?.promptMessages.slice(0, 2)).toEqual([recorded[0]?.promptMessages[0], recorded[0]?.responseMessage])
    expect(tokens.calls[1]?.parent).toBe(0)
    expect(tokens.calls[1]?.shared).toBeGreaterThanOrEqual(tokens.calls[0]?.promptLength ?? 0)
  })
})

describe('errors as the SDK sees them', () => {
  it.each([
    { given: 'an unknown key', key: '0'.repeat(64), error: OpenAI.AuthenticationError },
    { given: 'a constrained request', extra: { response_format: { type: 'json_object' as const } }, error: OpenAI.BadRequestError },
    { given: 'two choices', extra: { n: 2 }, error: OpenAI.BadRequestError },
  ])('$given', async ({ key, extra, error }) => {
    const sdk = client().withOptions(key === undefined ? {} : { apiKey: key })
    await expect(sdk.chat.completions.create({ model: 'm', ...plainText, ...extra })).rejects.toBeInstanceOf(error)
    expect((await door.seal()).calls).toEqual([])
  })

  it('lists and names models', async () => {
    expect((await client().models.list()).data).toMatchObject([{ id: MODEL }])
    expect(await client().models.retrieve('org/any')).toMatchObject({ id: 'org/any' })
  })
})
