// A session over each kind of engine, through the whole boundary: every prompt extends the last one and its answer, and tokens are the engine's.
import { afterEach, describe, expect, it } from 'vitest'
import type { EngineKind } from '../../src/contract/call.ts'
import type { EngineSettings } from '../../src/engine/scripted/engine.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import { openEngineSession, SHAPES } from '../lib/engine-session.ts'

const tools = [
  { type: 'function', function: { name: 'bash', parameters: { type: 'object', properties: { command: { type: 'string' } } } } },
]
const look = (command: string) => ({ text: 'I look.', reasoning: 'Hm.', tool_calls: [{ name: 'bash', arguments: { command } }] })
const script = {
  rules: [
    { match: { turn: 1 }, choices: [look('ls')] },
    { match: { turn: 2 }, choices: [look('cat "a b"')] },
    { match: { turn: 3 }, choices: [{ text: 'Done.', reasoning: 'So.' }] },
  ],
}

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

async function open(kind: EngineKind, settings: EngineSettings = {}) {
  const session = await openEngineSession(kind, script, settings)
  closing.push(session.close)
  return session
}

describe.each(Object.keys(SHAPES) as EngineKind[])('%s', (kind) => {
  it('carries a session of three turns, token for token', async () => {
    const { door, records, chat, generated } = await open(kind)
    const messages: object[] = [{ role: 'user', content: 'go' }]
    for (const expected of ['ls', 'cat "a b"', null]) {
      const { json } = await chat({ messages, tools })
      const { message, finish_reason: finish } = json.choices[0]
      messages.push(message)
      if (expected === null) {
        expect([message.content, finish]).toEqual(['Done.', 'stop'])
        continue
      }
      const [call] = message.tool_calls
      expect([message.content, message.reasoning_content, JSON.parse(call.function.arguments), finish]).toEqual([
        'I look.',
        'Hm.',
        { command: expected },
        'tool_calls',
      ])
      messages.push({ role: 'tool', tool_call_id: call.id, content: 'a file' })
    }

    const requests = generated()
    const sealed = await door.seal()
    const captured = readCalls(sealed.tokens)
    expect(captured).toHaveLength(3)
    for (const [index, request] of requests.entries()) {
      const { promptIds, sampledIds, logprobs } = captured[index]!
      expect([[...promptIds], [...sampledIds]]).toEqual([request.promptIds, request.sampledIds])
      expect([...(logprobs ?? [])]).toEqual(request.logprobs)
      const next = requests[index + 1]
      const before = [...request.promptIds, ...request.sampledIds]
      if (next !== undefined) expect(next.promptIds.slice(0, before.length)).toEqual(before)
    }
    expect(records.filter(({ captureError }) => captureError !== null)).toEqual([])
    expect(records[0]).toMatchObject({ engine: kind, logprobMode: SHAPES[kind] === 'sglang' ? 'processed' : 'raw', diagnostics: [] })
    door.releaseSealed()
  })

  it('gives the same answer, token for token, when its generation is given up on the way', async () => {
    const { engine, records, chat, generated } = await open(kind)
    const ask = () => chat({ messages: [{ role: 'user', content: 'go' }], tools })
    const { json: whole } = await ask()
    engine.setFault({ fault: 'abort', times: 2 })
    const { json: cut } = await ask()
    const told = ({ choices: [{ message, finish_reason: finish }] }: typeof whole) => [
      message.content,
      message.reasoning_content,
      message.tool_calls[0].function,
      finish,
    ]
    expect([told(cut), cut.usage]).toEqual([told(whole), whole.usage])
    const [first, ...parts] = generated()
    expect(parts).toHaveLength(3)
    expect(parts.flatMap(({ sampledIds }) => sampledIds)).toEqual(first?.sampledIds)
    expect(records[1]).toMatchObject({
      captureError: null,
      usage: { promptTokens: records[0]?.usage?.promptTokens, completionTokens: first?.sampledIds.length },
      diagnostics: [{ code: 'generation-aborted' }, { code: 'generation-aborted' }],
    })
  })

  it('TO-06 cuts a budget that cannot fit instead of failing', async () => {
    const { records, chat } = await open(kind, { maxModelLen: 500 })
    expect((await chat({ messages: [{ role: 'user', content: 'go' }], tools, max_tokens: 500 })).status).toBe(200)
    const [record] = records.filter(({ sampling }) => sampling.maxTokens !== null)
    expect(record).toMatchObject({ maxTokensRequested: 500, diagnostics: [{ code: 'max-tokens-clamped' }] })
    expect(record!.sampling.maxTokens! + record!.usage!.promptTokens).toBe(500)
  })

  it('TO-06 cuts a budget that this prompt leaves no room for, in whatever words the engine refuses it', async () => {
    const { records, chat, generated } = await open(kind, { maxModelLen: 500 })
    expect((await chat({ messages: [{ role: 'user', content: 'go' }], tools, max_tokens: 490 })).status).toBe(200)
    const promptTokens = generated()[0]!.promptTokens
    // llama.cpp refuses no budget: it ends at its context by itself.
    const budget = kind === 'llamacpp' ? 490 : 500 - promptTokens
    expect(records[0]).toMatchObject({ status: 'ok', maxTokensRequested: 490, sampling: { maxTokens: budget } })
  })

  it('TO-06 tells that the context is used up, after which no budget is asked for again', async () => {
    const { engine, records, chat } = await open(kind, { maxModelLen: 40 })
    const before = engine.requests().length
    const { status, json } = await chat({ messages: [{ role: 'user', content: 'word '.repeat(100) }], max_tokens: 20 })
    expect([status, json.error.code]).toEqual([400, 'context_length_exceeded'])
    expect(engine.requests()).toHaveLength(before + 1)
    expect(records[0]).toMatchObject({ status: 'failed', diagnostics: [] })
  })
})

it('an engine that serves a Qwen3.5 model does not think, unless the client wants it to', async () => {
  const { chat, generated } = await open('vllm', { model: '/models/Qwen3.5-4B' })
  const messages = [{ role: 'user', content: 'go' }]
  await chat({ messages })
  await chat({ messages, chat_template_kwargs: { enable_thinking: true } })
  const [silent, wished] = generated()
  expect([silent?.body, wished?.body]).toMatchObject([
    { chat_template_kwargs: { enable_thinking: false } },
    { chat_template_kwargs: { enable_thinking: true } },
  ])
  expect(silent!.promptTokens).toBeGreaterThan(wished!.promptTokens)
})
