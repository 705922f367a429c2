// The embedded engine over a real transformer of random weights: what the SDK, the adapters and a trainer find in its answers.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readGguf, writeGguf } from '../../examples/tiny-policy/gguf.ts'
import { makeModel } from '../../examples/tiny-policy/make.ts'
import { runEngineCommand } from '../../src/cli/engine.ts'
import { type EmbeddedEngine, type EmbeddedEngineOptions, openEmbeddedEngine } from '../../src/engine/embedded/engine.ts'
import type { Engine } from '../../src/proxy/engines/engine.ts'
import { llamacpp } from '../../src/proxy/engines/llamacpp.ts'
import { probe } from '../../src/proxy/engines/probe.ts'
import { sglang } from '../../src/proxy/engines/sglang.ts'
import { sglangNative } from '../../src/proxy/engines/sglang-native.ts'
import { undiciTransport } from '../../src/proxy/engines/transport.ts'
import { vllm } from '../../src/proxy/engines/vllm.ts'
import { openProfiles } from '../../src/proxy/profiles/profile.ts'
import { type TinyModel, writeTinyModel } from '../lib/tiny-model.ts'

const CONTEXT = 1024
const eventually = <T>(read: () => T) => expect.poll(read, { timeout: 20_000 })

/** Random weights know next to nothing: sharper logits make some tokens likelier than others. */
function sharpen(path: string): void {
  const read = readGguf(readFileSync(path))
  if (!read.ok) throw new Error(read.error)
  const { metadata, tensors } = read.file
  const scaled = tensors.map((tensor) =>
    tensor.name === 'output_norm.weight' ? { ...tensor, data: tensor.data.map((each) => each * 12) } : tensor,
  )
  writeFileSync(path, writeGguf({ metadata, tensors: scaled }))
}

let files: TinyModel
let other: string
const opened: EmbeddedEngine[] = []
async function open(options: Partial<EmbeddedEngineOptions> = {}): Promise<EmbeddedEngine> {
  const result = await openEmbeddedEngine({ modelPath: files.path, contextTokens: CONTEXT, sequences: 3, ...options })
  if (!result.ok) throw new Error(result.error)
  opened.push(result.engine)
  return result.engine
}

beforeAll(() => {
  files = writeTinyModel()
  sharpen(files.path)
  other = join(files.folder, 'other.gguf')
  writeFileSync(other, makeModel({ seed: 2, merges: 512, width: 32, layers: 1, heads: 2, keyHeads: 1, headWidth: 16, feedForward: 48 }))
  sharpen(other)
})
afterAll(async () => {
  for (const engine of opened) await engine.close()
  files.remove()
})

const post = (engine: EmbeddedEngine, path: string, body: object) =>
  fetch(`${engine.url}${path}`, { method: 'POST', body: JSON.stringify(body) })
const json = async (response: Promise<Response>) => JSON.parse(await (await response).text())
const messages = [{ role: 'user' as const, content: 'Tell me a story.' }]
const chat = (engine: EmbeddedEngine, extra: object = {}) =>
  json(post(engine, '/v1/chat/completions', { messages, return_token_ids: true, ...extra }))
const metric = async (engine: EmbeddedEngine, name: string) => {
  const text = await (await fetch(`${engine.url}/metrics`)).text()
  return Number(new RegExp(`^vllm:${name}\\{.*\\} (.+)$`, 'm').exec(text)?.[1])
}

describe('a real model', () => {
  let engine: EmbeddedEngine
  beforeAll(async () => {
    engine = await open({ weightVersion: 'v1' })
  })
  const client = () => new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: 'none', maxRetries: 0 })
  const asked = { model: 'noise', messages, max_tokens: 24, seed: 7, logprobs: true, return_token_ids: true }

  it('gives the OpenAI SDK the same answer whole and streamed: text, ids and logprobs', async () => {
    const whole = await client().chat.completions.create(asked)
    const streamed = { text: '', ids: [] as number[], logprobs: [] as number[], usage: 0 }
    const stream = await client().chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } })
    for await (const chunk of stream) {
      const [choice] = chunk.choices
      streamed.text += choice?.delta.content ?? ''
      // The SDK passes on what its types do not know.
      streamed.ids.push(...((choice as { token_ids?: number[] | null } | undefined)?.token_ids ?? []))
      streamed.logprobs.push(...(choice?.logprobs?.content?.map(({ logprob }) => logprob) ?? []))
      streamed.usage = chunk.usage?.completion_tokens ?? 0
    }
    const [choice] = whole.choices
    const ids = (choice as unknown as { token_ids: number[] }).token_ids
    const logprobs = choice?.logprobs?.content?.map(({ logprob }) => logprob) ?? []
    expect(streamed).toMatchObject({ text: choice?.message.content ?? '', ids, usage: whole.usage?.completion_tokens })
    expect([ids.length, logprobs.length]).toEqual([whole.usage?.completion_tokens, ids.length])
    for (const [at, logprob] of logprobs.entries()) {
      expect(logprob).toBeLessThanOrEqual(0)
      expect(streamed.logprobs[at]).toBeCloseTo(logprob, 3)
    }
  })

  it('has drawn the tokens whose text it shows', async () => {
    const { choices } = await chat(engine, { max_tokens: 40, seed: 3, ignore_eos: true })
    const { prompt } = await json(post(engine, '/detokenize', { tokens: choices[0].token_ids }))
    expect(choices[0].token_ids).toHaveLength(40)
    expect(prompt.replaceAll(/<\|[^|]*\|>/g, '').startsWith(choices[0].message.content)).toBe(true)
  })

  it('takes the most probable token at temperature 0, as often as it is asked', async () => {
    const [a, b] = [
      await chat(engine, { temperature: 0, max_tokens: 12, logprobs: true, top_logprobs: 1 }),
      await chat(engine, { temperature: 0, max_tokens: 12 }),
    ]
    expect(b.choices[0].token_ids).toEqual(a.choices[0].token_ids)
    for (const { token, top_logprobs: top } of a.choices[0].logprobs.content) expect(top[0].token).toBe(token)
  })

  it('draws choices that differ, each as long as it may be', async () => {
    const { choices, usage } = await chat(engine, { n: 5, max_tokens: 8, ignore_eos: true })
    expect(new Set(choices.map(({ token_ids: ids }: { token_ids: number[] }) => ids.join())).size).toBe(5)
    expect([choices.length, usage.completion_tokens]).toEqual([5, 40])
  })

  it('reads of a second turn only what is new, and counts it', async () => {
    const session = { messages: [{ role: 'user', content: 'A question of its own.' }], max_tokens: 8, ignore_eos: true }
    const first = await chat(engine, session)
    const before = [await metric(engine, 'prefix_cache_queries_total'), await metric(engine, 'prefix_cache_hits_total')]
    const [choice] = first.choices
    const second = await chat(engine, { ...session, messages: [...session.messages, choice.message, { role: 'user', content: 'And?' }] })
    const cached = second.usage.prompt_tokens_details.cached_tokens
    expect(cached).toBeGreaterThanOrEqual(first.usage.prompt_tokens - 1)
    const after = [await metric(engine, 'prefix_cache_queries_total'), await metric(engine, 'prefix_cache_hits_total')]
    expect(after).toEqual([before[0]! + second.usage.prompt_tokens, before[1]! + cached])
  })

  it('stops for a client that has left', async () => {
    const before = await metric(engine, 'generation_tokens_total')
    const leaving = new AbortController()
    const response = await fetch(`${engine.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ messages, stream: true, ignore_eos: true }),
      signal: leaving.signal,
    })
    await response.body?.getReader().read()
    expect(await metric(engine, 'kv_cache_usage_perc')).toBeGreaterThan(0)
    leaving.abort()
    await eventually(() => metric(engine, 'num_requests_running')).toBe(0)
    expect(await metric(engine, 'kv_cache_usage_perc')).toBe(0)
    await eventually(() => metric(engine, 'generation_tokens_total')).toBeGreaterThan(before)
    expect((await metric(engine, 'generation_tokens_total')) - before).toBeLessThan(CONTEXT - 100)
  })

  it('draws over a pause by keep what it would have drawn without', async () => {
    const wish = { seed: 11, max_tokens: 200, ignore_eos: true }
    const whole = await chat(engine, wish)
    const answer = chat(engine, wish)
    await eventually(() => metric(engine, 'num_requests_running')).toBe(1)
    await post(engine, '/pause?mode=keep', {})
    await post(engine, '/resume', {})
    expect((await answer).choices[0].token_ids).toEqual(whole.choices[0].token_ids)
  })

  it('draws otherwise under new weights, whose version it names', async () => {
    const wish = { seed: 5, max_tokens: 16, ignore_eos: true }
    const before = await chat(engine, wish)
    const update = await json(post(engine, '/update_weights_from_disk', { model_path: other, weight_version: 'v2' }))
    expect(update).toMatchObject({ success: true })
    expect(await json(fetch(`${engine.url}/weight_info`))).toEqual({ weight_version: 'v2' })
    const after = await chat(engine, wish)
    expect(after.prompt_token_ids).toEqual(before.prompt_token_ids)
    expect(after.choices[0].token_ids).not.toEqual(before.choices[0].token_ids)
    expect(after.usage.prompt_tokens_details.cached_tokens).toBe(0)
    await engine.load(files.path, 'v1')
    expect((await chat(engine, wish)).choices[0].token_ids).toEqual(before.choices[0].token_ids)
  })

  it.each([
    ['a file cut in half', () => readFileSync(files.path).subarray(0, 40_000)],
    ['no GGUF', () => Buffer.from('weights')],
  ])('goes on serving when new weights are %s', async (_name, bytes) => {
    const path = join(files.folder, 'bad.gguf')
    writeFileSync(path, bytes())
    const response = await post(engine, '/update_weights_from_disk', { model_path: path, weight_version: 'v3' })
    expect([response.status, JSON.parse(await response.text())]).toEqual([400, { success: false, message: expect.stringContaining(path) }])
    expect((await chat(engine, { max_tokens: 2 })).choices).toHaveLength(1)
    expect(engine.weightVersion()).toBe('v1')
  })
})

const ADAPTERS = [
  { adapter: vllm, shape: 'vllm', logprobMode: 'raw' },
  { adapter: sglang, shape: 'sglang', logprobMode: 'processed' },
  { adapter: sglangNative, shape: 'sglang', logprobMode: 'processed' },
  { adapter: llamacpp, shape: 'llamacpp', logprobMode: 'raw' },
] as const satisfies readonly { readonly adapter: Engine; readonly shape: EmbeddedEngineOptions['shape']; readonly logprobMode: string }[]

describe.each(ADAPTERS.map((each) => ({ ...each, kind: each.adapter.kind })))('the $kind adapter', ({ adapter, shape, logprobMode }) => {
  let engine: EmbeddedEngine
  beforeAll(async () => {
    engine = await open({ shape, sequences: 1, weightVersion: '3' })
  })
  const connect = () => undiciTransport(engine.url, 2 ** 24)

  it('finds it fit for training, and what its logprobs mean', async () => {
    const connection = connect()
    const found = await probe(adapter, connection, { model: '', profileOf: openProfiles([]) }, new AbortController().signal)
    await connection.close()
    expect(found).toEqual({
      type: 'serving',
      tier: 'train',
      model: 'noise',
      maxModelLen: CONTEXT,
      weightVersion: shape === 'sglang' ? '3' : null,
      logprobMode,
      // Not asked for: answers are told when they are whole.
      streams: false,
      detail: null,
    })
  })

  it('is told when a prompt is longer than the context', async () => {
    const connection = connect()
    const prompt = { kind: 'messages' as const, messages: [{ role: 'user' as const, content: 'word '.repeat(2 * CONTEXT) }], tools: null }
    const format = openProfiles([])('noise').format
    const reply = await adapter.generate({ prompt, parameters: {}, model: 'noise', topLogprobs: 0, format }, (request) =>
      connection.send(request, new AbortController().signal),
    )
    await connection.close()
    expect(reply).toMatchObject({ type: 'rejected', status: 400, reason: 'context-overflow' })
  })
})

describe('polar engine', () => {
  it('serves a file under the name and version it is given, until it is stopped', async () => {
    const lines: string[] = []
    let found: unknown = null
    const options = { modelPath: files.path, maxModelLen: '512', sequences: '1', model: 'mine', weightVersion: '9', shape: 'sglang' }
    const code = await runEngineCommand(options, {
      out: (line) => lines.push(line),
      error: (line) => lines.push(line),
      stopped: async () => {
        const [url = ''] = /http:\S+/.exec(lines[0] ?? '') ?? []
        found = await json(fetch(`${url}/get_model_info`))
      },
    })
    expect([code, lines]).toEqual([
      0,
      [expect.stringMatching(/^embedded engine \(sglang\) serving mine \([\d,]+ parameters, context 512\) at http:/)],
    ])
    expect(found).toMatchObject({ model_path: 'mine', weight_version: '9' })
  })
})
