// What the boundary reads of the embedded engine's streams: the plain answer, whatever the tokens of a text are.
import { afterEach, describe, expect, it } from 'vitest'
import { openEngineOf } from '../../src/engine/embedded/engine.ts'
import type { ChatMessage, Tool } from '../../src/proxy/chat.ts'
import type { EngineRequest, HttpRequest } from '../../src/proxy/engines/engine.ts'
import { sglangNative } from '../../src/proxy/engines/sglang-native.ts'
import { type Follow, undiciTransport } from '../../src/proxy/engines/transport.ts'
import { vllm } from '../../src/proxy/engines/vllm.ts'
import type { AnswerDelta } from '../../src/proxy/live/answer-delta.ts'
import { END, openByteVocabulary, openScriptedModel } from '../lib/scripted-model.ts'

const vocabulary = openByteVocabulary()
const messages: readonly ChatMessage[] = [{ role: 'user', content: 'hi' }]
const tools: readonly Tool[] = [{ type: 'function', function: { name: 'edit', parameters: { type: 'object' } } }]
const CALL = '<tool_call>\n{"name": "edit", "arguments": {"path": "é 👋"}}\n</tool_call>'

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function open(shape: 'vllm' | 'sglang', text: string, tokenBytes: number) {
  const bytes = Buffer.from(text)
  const ids = Array.from({ length: Math.ceil(bytes.length / tokenBytes) }, (_, at) =>
    vocabulary.idOf(bytes.subarray(at * tokenBytes, (at + 1) * tokenBytes)),
  )
  const model = openScriptedModel(vocabulary, [...ids, END])
  const opened = await openEngineOf(async () => ({ ok: true, model }), { modelPath: 'first.gguf', sequences: 1, shape, model: 'scripted' })
  if (!opened.ok) throw new Error(opened.error)
  const connection = undiciTransport(opened.engine.url, 2 ** 20)
  closing.push(opened.engine.close, connection.close)
  return (request: HttpRequest, follow?: Follow) => connection.send(request, new AbortController().signal, follow)
}

describe.each([
  { adapter: vllm, shape: 'vllm' },
  { adapter: sglangNative, shape: 'sglang' },
] as const)('$adapter.kind', ({ adapter, shape }) => {
  it.each([
    ['words', 'one two three', 4],
    ['characters that tokens share', 'é 👋 ü 日本', 1],
    ['a thought', '<think>\nHm 👋.\n</think>\n\nYes.', 3],
    ['a call', `I edit.\n${CALL}\n${CALL}`, 5],
    ['a call that is none', `I edit.\n<tool_call>\n{"name": \n</tool_call>`, 3],
  ])('is read as it is plain: %s', async (_name, text, tokenBytes) => {
    const send = await open(shape, text, tokenBytes)
    const request: EngineRequest = {
      prompt: { kind: 'messages', messages, tools },
      parameters: { max_tokens: 500 },
      model: 'scripted',
      topLogprobs: 0,
      format: { reasoning: 'think-tags', opensThinking: false, calls: 'json' },
    }
    const told: AnswerDelta[] = []
    const named = (outcome: unknown): unknown => JSON.parse(JSON.stringify(outcome).replace(/"id":"[^"]*"/g, '"id":""'))
    // What was in the cache for the second one is not what the stream is asked about.
    await adapter.generate(request, send)
    const plain = await adapter.generate(request, send)
    const streamed = await adapter.stream?.(request, send, (delta) => told.push(delta))
    expect(named(streamed)).toEqual(named(plain))
    expect(streamed).toMatchObject({ type: 'answer', tokens: { error: null } })
    expect(told.length).toBeGreaterThan(0)
  })
})
