// The embedded engine over a model that draws when it is told to: seats, streams, pauses and new weights, over real sockets.
import { afterEach, describe, expect, it } from 'vitest'
import { type EmbeddedEngine, type EmbeddedEngineOptions, openEngineOf } from '../../src/engine/embedded/engine.ts'
import { BrokenDistributionError } from '../../src/engine/embedded/llama-errors.ts'
import type { LoadResult, ModelFile } from '../../src/engine/embedded/model.ts'
import { END, openByteVocabulary, openScriptedModel, type ScriptedModel, TEXT_END } from '../lib/scripted-model.ts'

const vocabulary = openByteVocabulary()
const idsOf = (...words: readonly string[]) => [...words.map((word) => vocabulary.idOf(Buffer.from(word))), END]
const WORDS = idsOf('one', ' two', ' three')

/** The machine may be busy: what has to happen is waited for, not timed. */
const eventually = <T>(read: () => T) => expect.poll(read, { timeout: 20_000 })

/** Tokens that a model may draw: none until they are granted. */
function openGrants() {
  let granted = 0
  const waiting = new Set<() => void>()
  return {
    until: async (drawn: number) => {
      while (drawn >= granted) await new Promise<void>((resolve) => waiting.add(resolve))
    },
    grant(tokens: number) {
      granted = tokens
      for (const wake of waiting) wake()
      waiting.clear()
    },
  }
}

/** Files that have been read, in order. */
const asked: string[] = []
const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function open(model: ScriptedModel, options: Partial<EmbeddedEngineOptions> = {}, others: Readonly<Record<string, LoadResult>> = {}) {
  const files: Readonly<Record<string, LoadResult>> = { 'first.gguf': { ok: true, model }, ...others }
  const read = async ({ path }: ModelFile) => {
    asked.push(path)
    return files[path] ?? { ok: false as const, error: `there is no file ${path}` }
  }
  const opened = await openEngineOf(read, { modelPath: 'first.gguf', sequences: 4, ...options })
  if (!opened.ok) throw new Error(opened.error)
  closing.push(opened.engine.close)
  return opened.engine
}

const post = (engine: EmbeddedEngine, path: string, body: object = {}, signal?: AbortSignal) =>
  fetch(`${engine.url}${path}`, { method: 'POST', body: JSON.stringify(body), ...(signal === undefined ? {} : { signal }) })
const json = async (response: Promise<Response>) => JSON.parse(await (await response).text())
const ask = (extra: object = {}) => ({ messages: [{ role: 'user', content: 'hi' }], ...extra })
const chat = (engine: EmbeddedEngine, extra: object = {}, signal?: AbortSignal) => post(engine, '/v1/chat/completions', ask(extra), signal)
const running = async (engine: EmbeddedEngine) => {
  const text = await (await fetch(`${engine.url}/metrics`)).text()
  return Number(/(?:num_requests_running|num_running_reqs)\{.*\} (.+)/.exec(text)?.[1])
}
/** Reads the events of a stream as they come. */
async function* events(response: Response) {
  const decoder = new TextDecoder()
  let text = ''
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true })
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const data = text.slice('data: '.length, end)
      text = text.slice(end + 2)
      yield data === '[DONE]' ? data : JSON.parse(data)
    }
  }
}

describe('a generation', () => {
  it('is asked for with everything that the request says', async () => {
    const model = openScriptedModel(vocabulary, WORDS)
    const engine = await open(model, { logprobMode: 'processed' })
    await json(chat(engine, { temperature: 0.5, top_p: 0.9, top_k: 7, min_p: 0.1, logprobs: true, top_logprobs: 3 }))
    expect(model.orders[0]).toMatchObject({
      promptIds: [...vocabulary.encode('hi')],
      sampling: { temperature: 0.5, topP: 0.9, topK: 7, minP: 0.1 },
      logprobMode: 'processed',
      alternatives: 3,
    })
  })

  it('has the seed of its request, and without one a new one each time, fixed by the engine’s', async () => {
    const seeds = async (seed: number) => {
      const model = openScriptedModel(vocabulary, WORDS)
      const engine = await open(model, { seed })
      for (const extra of [{ seed: 5 }, { seed: 5 }, {}, {}, { n: 2, seed: 5 }]) await json(chat(engine, extra))
      return model.orders.map((order) => order.sampling.seed)
    }
    const [a, b, other] = [await seeds(1), await seeds(1), await seeds(2)]
    expect(b).toEqual(a)
    expect(a[1]).toBe(a[0])
    expect(new Set(a.slice(1, 4)).size).toBe(3)
    expect(new Set(a.slice(4)).size).toBe(2)
    expect(a[4]).toBe(a[0])
    expect([other[0] === a[0], other[2] === a[2]]).toEqual([true, false])
  })

  it('streams each token when it has been drawn', async () => {
    const { until, grant } = openGrants()
    const engine = await open(openScriptedModel(vocabulary, WORDS, { until }))
    grant(1)
    const stream = events(await chat(engine, { stream: true, return_token_ids: true, stream_options: { include_usage: true } }))
    const next = async () => (await stream.next()).value
    expect(await next()).toMatchObject({ choices: [{ delta: { role: 'assistant' } }], prompt_token_ids: vocabulary.encode('hi') })
    expect(await next()).toMatchObject({ choices: [{ delta: { content: 'one' }, token_ids: [WORDS[0]] }] })
    grant(2)
    expect(await next()).toMatchObject({ choices: [{ delta: { content: ' two' }, finish_reason: null }] })
    grant(9)
    expect(await next()).toMatchObject({ choices: [{ delta: { content: ' three' } }] })
    expect(await next()).toMatchObject({ choices: [{ delta: {}, finish_reason: 'stop', token_ids: [END] }] })
    expect(await next()).toMatchObject({ choices: [], usage: { completion_tokens: 4, prompt_tokens_details: { cached_tokens: 2 } } })
    expect(await next()).toBe('[DONE]')
  })

  it.each([
    ['sglang', '/generate', { text: 'hi' }, (event: { output_ids: number[] }) => event.output_ids.length],
    ['llamacpp', '/completion', { prompt: 'hi', return_tokens: true }, (event: { tokens_predicted: number }) => event.tokens_predicted],
  ] as const)('streams on the engines’ own routes, too (%s)', async (shape, path, body, count) => {
    const { until, grant } = openGrants()
    const engine = await open(openScriptedModel(vocabulary, WORDS, { until }), { shape })
    grant(1)
    const stream = events(await post(engine, path, { ...body, stream: true }))
    expect(count((await stream.next()).value)).toBe(1)
    grant(2)
    expect(count((await stream.next()).value)).toBe(2)
    grant(9)
    for await (const _ of stream) {
      // To its end.
    }
  })

  it.each([
    ['vllm', '/v1/chat/completions', { ...ask(), return_token_ids: true }, 'adds', 2000],
    ['sglang', '/generate', { text: 'hi', sampling_params: { max_new_tokens: null } }, 'repeats', 200],
  ] as const)('gathers its tokens for a client that does not read (%s)', async (shape, path, body, how, tokens) => {
    const words = Array.from({ length: tokens }, (_, index) => `${index}`.padEnd(4000, '.'))
    const engine = await open(openScriptedModel(vocabulary, idsOf(...words)), { shape })
    const response = await post(engine, path, { ...body, stream: true })
    await eventually(() => running(engine)).toBe(0)
    let [pieces, ids]: [number, number[]] = [0, []]
    for await (const event of events(response)) {
      const shown = event.output_ids ?? event.choices?.[0]?.token_ids ?? []
      ids = how === 'adds' ? [...ids, ...shown] : event === '[DONE]' ? ids : shown
      pieces += 1
    }
    expect(ids).toEqual(idsOf(...words))
    expect(pieces).toBeLessThan(tokens)
  })

  it('counts each token when it has been drawn, under the name it is served by', async () => {
    const { until, grant } = openGrants()
    const engine = await open(openScriptedModel(vocabulary, WORDS, { until }), { model: 'a "b"\\c' })
    grant(2)
    const stream = events(await chat(engine, { stream: true }))
    for (let event = 0; event < 3; event += 1) await stream.next()
    const counted = 'vllm:generation_tokens_total{engine="0",model_name="a \\"b\\"\\\\c"} 2.0'
    expect(await (await fetch(`${engine.url}/metrics`)).text()).toContain(counted)
  })

  it('ends when its client leaves, and gives back its seat', async () => {
    const { until } = openGrants()
    const model = openScriptedModel(vocabulary, WORDS, { until: (drawn) => (drawn < 1 ? Promise.resolve() : until(drawn)) })
    const engine = await open(model, { sequences: 1 })
    const leaving = new AbortController()
    const stream = events(await chat(engine, { stream: true }, leaving.signal))
    await stream.next()
    expect(await running(engine)).toBe(1)
    leaving.abort()
    await eventually(() => running(engine)).toBe(0)
  })

  it('that begins in a thought which its template has opened is told apart', async () => {
    const model = openScriptedModel(vocabulary, idsOf('Hm.', '\n</think>', '\n\nHi.'), { chatTemplate: 'Q<think>\n' })
    const engine = await open(model)
    expect((await json(chat(engine))).choices[0].message).toMatchObject({ reasoning: 'Hm.', content: 'Hi.' })
  })

  it('of several choices that find too few seats waits for them', async () => {
    const model = openScriptedModel(vocabulary, WORDS)
    const engine = await open(model, { sequences: 2 })
    const { choices, usage } = await json(chat(engine, { n: 5 }))
    expect(choices.map(({ message, index }: { message: { content: string }; index: number }) => [index, message.content])).toEqual(
      [0, 1, 2, 3, 4].map((index) => [index, 'one two three']),
    )
    expect(usage.completion_tokens).toBe(20)
  })

  it('for which there is no room is refused, and takes no seat', async () => {
    const engine = await open(openScriptedModel(vocabulary, WORDS), { sequences: 1, waiting: 1 })
    expect((await chat(engine, { n: 3 })).status).toBe(503)
    expect((await chat(engine, { n: 2 })).status).toBe(200)
  })

  it.each([
    ['that the engine cannot draw so', { presence_penalty: 1 }, 400, /presence_penalty.*temperature, top_p, top_k and min_p/],
    [
      'whose prompt is too long',
      { messages: [{ role: 'user', content: 'x'.repeat(100) }], max_tokens: 1 },
      400,
      /context length is only 64/,
    ],
    ['with ids that are none', { input_ids: [5_000_000] }, 400, /out of vocabulary/],
    ['for another model', { model: 'other' }, 404, /does not exist/],
  ])('%s is refused with the reason', async (_name, extra, status, expected) => {
    const engine = await open(openScriptedModel(vocabulary, WORDS, { contextTokens: 64 }))
    const response = await chat(engine, extra)
    expect([response.status, await response.text()]).toEqual([status, expect.stringMatching(expected)])
  })

  it.each([
    ['vllm', '/v1/chat/completions', ask({ messages: [{ role: 'user', content: 'x'.repeat(1e6) }] })],
    ['sglang', '/generate', { text: 'x'.repeat(1e6) }],
    ['llamacpp', '/completion', { prompt: 'x'.repeat(1e6) }],
    ['vllm', '/tokenize', { prompt: 'x'.repeat(1e6) }],
    ['sglang', '/v1/tokenize', { prompt: 'x'.repeat(1e6) }],
    ['llamacpp', '/tokenize', { content: 'x'.repeat(1e6) }],
  ] as const)('of a text far beyond the context is refused before all of it is read (%s, %s)', async (shape, path, body) => {
    const lengths: number[] = [0]
    const encode = (text: string) => {
      lengths.push(text.length)
      return vocabulary.encode(text)
    }
    const model = openScriptedModel({ ...vocabulary, encode }, WORDS, { contextTokens: 64 })
    expect((await post(await open(model, { shape }), path, body)).status).toBe(400)
    expect(Math.max(...lengths)).toBeLessThan(1e4)
  })

  it.each([
    ['sglang', '/generate', { text: 'hi', return_logprob: true, top_logprobs_num: 1e6 }, 'top_logprobs_num'],
    ['llamacpp', '/completion', { prompt: 'hi', n_probs: 1e6 }, 'n_probs'],
  ] as const)('with more alternatives than are kept is refused (%s)', async (shape, path, body, field) => {
    const response = await post(await open(openScriptedModel(vocabulary, WORDS), { shape }), path, body)
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining(field)])
  })

  it('of damaged weights is told so, in no words of ours', async () => {
    const until = async () => {
      throw new BrokenDistributionError()
    }
    const answer = await json(chat(await open(openScriptedModel(vocabulary, WORDS, { until }))))
    expect(answer.error.message).toBe(new BrokenDistributionError().message)
  })

  it.each([false, true])('that breaks is no answer, and the next one is one (stream: %s)', async (stream) => {
    let breaks = true
    const until = async () => {
      if (breaks) throw new Error('the library broke')
    }
    const engine = await open(openScriptedModel(vocabulary, WORDS, { until }), { sequences: 1 })
    const response = await chat(engine, { stream, n: 2 })
    expect([response.status, await response.text()]).toEqual([500, expect.stringContaining('the library broke')])
    breaks = false
    expect((await chat(engine)).status).toBe(200)
  })
})

describe('a model without a chat template', () => {
  const model = () => openScriptedModel(vocabulary, idsOf('ok'), { chatTemplate: null })
  const ids = vocabulary.encode('Hi')
  const sampled = idsOf('ok')

  it.each(['vllm', 'sglang', 'llamacpp'] as const)('refuses chats and says where it can be asked (%s)', async (shape) => {
    const response = await chat(await open(model(), { shape }))
    expect([response.status, await response.text()]).toEqual([400, expect.stringMatching(/no chat template.*\/generate.*\/completion/)])
  })

  it('answers SGLang’s /generate', async () => {
    const engine = await open(model(), { shape: 'sglang' })
    const answer = await json(post(engine, '/generate', { input_ids: ids, return_logprob: true, sampling_params: { max_new_tokens: 9 } }))
    expect(answer).toMatchObject({
      text: 'ok',
      output_ids: sampled,
      meta_info: { prompt_tokens: 2, cached_tokens: 2, weight_version: 'default', finish_reason: { type: 'stop', matched: END } },
    })
    expect(answer.meta_info.output_token_logprobs).toEqual([
      [-1, sampled[0], null],
      [-2, END, null],
    ])
    const none = await json(post(engine, '/generate', { text: 'Hi', sampling_params: { max_new_tokens: 0 } }))
    expect(none).toMatchObject({ text: '', output_ids: [], meta_info: { finish_reason: { type: 'length' } } })
  })

  it('names the one of its end tokens that it has drawn', async () => {
    const engine = await open(openScriptedModel(vocabulary, [...vocabulary.encode('ok'), TEXT_END], { chatTemplate: null }), {
      shape: 'sglang',
    })
    const answer = await json(post(engine, '/generate', { input_ids: ids }))
    expect(answer).toMatchObject({ text: 'ok', meta_info: { finish_reason: { type: 'stop', matched: TEXT_END } } })
  })

  it('answers llama.cpp’s /completion', async () => {
    const engine = await open(model(), { shape: 'llamacpp' })
    const answer = await json(post(engine, '/completion', { prompt: ids, n_probs: 1, return_tokens: true }))
    expect(answer).toMatchObject({ content: 'ok', tokens: sampled, stop_type: 'eos', tokens_evaluated: 2, timings: { cache_n: 2 } })
    expect(answer.completion_probabilities.map(({ id, logprob }: { id: number; logprob: number }) => [id, logprob])).toEqual([
      [sampled[0], -1],
      [END, -2],
    ])
  })
})

describe('a pause', () => {
  const start = async (options: Partial<EmbeddedEngineOptions> = {}, extra: object = {}) => {
    const grants = openGrants()
    const model = openScriptedModel(vocabulary, WORDS, { until: grants.until })
    const engine = await open(model, options)
    grants.grant(1)
    const stream = events(await chat(engine, { stream: true, ...extra }))
    await stream.next()
    await stream.next()
    return { ...grants, model, engine, stream }
  }
  const rest = async (stream: AsyncIterable<unknown>) => {
    const all: unknown[] = []
    for await (const event of stream) all.push(event)
    return all
  }

  it('by abort ends what runs with what it has', async () => {
    const { engine, stream, model } = await start()
    await json(post(engine, '/pause'))
    expect(await rest(stream)).toMatchObject([{ choices: [{ delta: {}, finish_reason: 'abort' }] }, '[DONE]'])
    await eventually(() => model.running()).toBe(0)
  })

  it('by keep asks for no further token until it is resumed, and then loses nothing', async () => {
    const { engine, stream, grant, model } = await start()
    await json(post(engine, '/pause?mode=keep'))
    grant(9)
    // The step under way when the pause came may still end; the one after it must not begin.
    expect(await stream.next()).toMatchObject({ value: { choices: [{ delta: { content: ' two' } }] } })
    const next = stream.next()
    await json(fetch(`${engine.url}/is_paused`))
    expect([await running(engine), model.running()]).toEqual([1, 1])
    await json(post(engine, '/resume'))
    expect((await next).value).toMatchObject({ choices: [{ delta: { content: ' three' } }] })
    expect((await rest(stream)).at(-1)).toBe('[DONE]')
  })

  it('holds new requests until it is resumed', async () => {
    const engine = await open(openScriptedModel(vocabulary, WORDS))
    await json(post(engine, '/pause?mode=wait'))
    const answer = json(chat(engine))
    await eventually(async () =>
      (await (await fetch(`${engine.url}/metrics`)).text()).includes('num_requests_waiting{engine="0",model_name="first"} 1'),
    ).toBe(true)
    await json(post(engine, '/resume'))
    expect((await answer).choices[0].message.content).toBe('one two three')
  })

  it('by abort ends the choices of a request that still wait, too', async () => {
    const { engine, stream } = await start({ sequences: 1 }, { n: 3 })
    await json(post(engine, '/pause'))
    const last = await rest(stream)
    const reasons = last.flatMap((event) => (event as { choices?: { finish_reason: string }[] }).choices?.[0]?.finish_reason ?? [])
    expect([reasons, last.at(-1)]).toEqual([['abort', 'abort', 'abort'], '[DONE]'])
  })
})

describe('an abort', () => {
  it.each([
    ['vllm', '/abort_requests', { request_ids: ['chatcmpl-1'] }],
    ['sglang', '/abort_request', { rid: 'one' }],
  ] as const)('of a request by its name ends no other (%s)', async (shape, path, named) => {
    const { until } = openGrants()
    const engine = await open(openScriptedModel(vocabulary, WORDS, { until }), { shape })
    const answer = json(chat(engine))
    await eventually(() => running(engine)).toBe(1)
    const response = await post(engine, path, named)
    expect([response.status, await response.text(), await running(engine)]).toEqual([400, expect.stringContaining('connection'), 1])
    expect((await post(engine, path)).status).toBe(200)
    expect((await answer).choices[0].finish_reason).toBe('abort')
  })
})

describe('new weights', () => {
  const load = (engine: EmbeddedEngine, body: object) => post(engine, '/update_weights_from_disk', body)
  const next = () => openScriptedModel(vocabulary, idsOf('new'))

  it.each(['vllm', 'sglang', 'llamacpp'] as const)('take over under their version, and the old ones are freed (%s)', async (shape) => {
    const [old, fresh] = [openScriptedModel(vocabulary, WORDS), next()]
    const engine = await open(old, { shape, weightVersion: 'v1' }, { 'b.gguf': { ok: true, model: fresh } })
    const version = async () => (await json(fetch(`${engine.url}/get_model_info`))).weight_version
    expect([await version(), engine.weightVersion()]).toEqual(['v1', 'v1'])
    expect(await json(load(engine, { model_path: 'b.gguf', weight_version: 'v2' }))).toMatchObject({ success: true })
    expect([await version(), old.isClosed(), fresh.isClosed()]).toEqual(['v2', true, false])
    const answer = await json(chat(engine))
    expect([answer.choices[0].message.content, answer.metadata?.weight_version]).toEqual(['new', shape === 'sglang' ? 'v2' : undefined])
  })

  it('without a version do not pass for those before them', async () => {
    const engine = await open(openScriptedModel(vocabulary, WORDS), {}, { 'b.gguf': { ok: true, model: next() } })
    await json(load(engine, { model_path: 'b.gguf' }))
    expect(engine.weightVersion()).toBe('b#2')
  })

  it('under another label are named by the one that an answer began with', async () => {
    const { until, grant } = openGrants()
    const model = openScriptedModel(vocabulary, WORDS, { until })
    const engine = await open(model, { shape: 'sglang', weightVersion: 'v1' })
    const begun = json(chat(engine))
    await eventually(() => model.running()).toBe(1)
    await json(post(engine, '/update_weight_version', { new_version: 'v2' }))
    grant(9)
    expect([(await begun).metadata.weight_version, (await json(chat(engine))).metadata.weight_version]).toEqual(['v1', 'v2'])
  })

  it('wait for what runs, which ends under its own version, and hold what comes', async () => {
    const { until, grant } = openGrants()
    const old = openScriptedModel(vocabulary, WORDS, { until })
    const engine = await open(old, { shape: 'sglang' }, { 'b.gguf': { ok: true, model: next() } })
    const runs = json(chat(engine))
    await eventually(() => old.running()).toBe(1)
    const loaded = json(load(engine, { model_path: 'b.gguf', weight_version: 'v2' }))
    await eventually(() => asked.at(-1)).toBe('b.gguf')
    // One more exchange: by then the engine lets nobody in.
    await running(engine)
    const held = json(chat(engine))
    expect(old.isClosed()).toBe(false)
    grant(9)
    expect(await runs).toMatchObject({ choices: [{ message: { content: 'one two three' } }], metadata: { weight_version: 'default' } })
    expect(await loaded).toMatchObject({ success: true })
    expect(await held).toMatchObject({ choices: [{ message: { content: 'new' } }], metadata: { weight_version: 'v2' } })
  })

  it.each([
    ['what runs, where they are told to', async () => {}, { abort_all_requests: true }],
    [
      'what a pause has frozen, whose state is of the old weights',
      (engine: EmbeddedEngine) => json(post(engine, '/pause_generation', { mode: 'in_place' })),
      {},
    ],
  ])('end %s', async (_name, before, extra) => {
    const { until } = openGrants()
    const old = openScriptedModel(vocabulary, WORDS, { until: (drawn) => (drawn < 1 ? Promise.resolve() : until(drawn)) })
    const engine = await open(old, { shape: 'sglang' }, { 'b.gguf': { ok: true, model: next() } })
    const stream = events(await chat(engine, { stream: true }))
    await stream.next()
    await before(engine)
    expect(await json(load(engine, { model_path: 'b.gguf', weight_version: 'v2', ...extra }))).toMatchObject({ success: true })
    const all: { choices?: { finish_reason: string }[] }[] = []
    for await (const event of stream) all.push(event)
    expect(all.at(-2)?.choices?.[0]?.finish_reason).toBe('abort')
    await json(post(engine, '/continue_generation'))
    expect((await json(chat(engine))).choices[0].message.content).toBe('new')
  })

  it.each([
    ['a file that is not there', { model_path: 'c.gguf' }, /there is no file c\.gguf/],
    ['a path of another kind', { model_path: '/etc/passwd' }, /model_path: must be the path of a \.gguf file/],
    ['no path', {}, /model_path: /],
  ])('that cannot be loaded leave the old ones serving: %s', async (_name, body, expected) => {
    const old = openScriptedModel(vocabulary, WORDS)
    const engine = await open(old)
    const response = await load(engine, body)
    expect([response.status, JSON.parse(await response.text())]).toEqual([
      400,
      { success: false, message: expect.stringMatching(expected) },
    ])
    expect((await json(chat(engine))).choices[0].message.content).toBe('one two three')
    expect([engine.weightVersion(), old.isClosed()]).toEqual(['default', false])
  })

  it('of another vocabulary read anew what has waited for them', async () => {
    const { until, grant } = openGrants()
    const old = openScriptedModel(vocabulary, WORDS, { until })
    const fresh = openScriptedModel(vocabulary, idsOf('new'), { chatTemplate: 'another template' })
    const engine = await open(old, { sequences: 1 }, { 'b.gguf': { ok: true, model: fresh } })
    const runs = json(chat(engine))
    await eventually(() => old.running()).toBe(1)
    const loaded = json(load(engine, { model_path: 'b.gguf' }))
    const waits = json(chat(engine, { return_token_ids: true }))
    await eventually(async () =>
      (await (await fetch(`${engine.url}/metrics`)).text()).includes('num_requests_waiting{engine="0",model_name="first"} 1'),
    ).toBe(true)
    grant(9)
    await Promise.all([runs, loaded])
    expect((await waits).prompt_token_ids).toEqual(vocabulary.encode('another template'))
  })
})

describe('loading', () => {
  it('answers 503 until the first weights are there', async () => {
    const file = Promise.withResolvers<LoadResult>()
    const begun = Promise.withResolvers<void>()
    // A port of its own, as nobody is told of one before the weights are loaded.
    const probe = await open(openScriptedModel(vocabulary, WORDS))
    await probe.close()
    const opening = openEngineOf(
      () => {
        begun.resolve()
        return file.promise
      },
      { modelPath: 'x.gguf', port: probe.port },
    )
    await begun.promise
    for (const path of ['/health', '/v1/models']) {
      const response = await fetch(`${probe.url}${path}`)
      expect([response.status, await response.text()]).toEqual([503, expect.stringMatching(/loading/i)])
    }
    expect((await post(probe, '/v1/chat/completions', ask())).status).toBe(503)
    file.resolve({ ok: true, model: openScriptedModel(vocabulary, WORDS) })
    const opened = await opening
    if (opened.ok) closing.push(opened.engine.close)
    expect((await fetch(`${probe.url}/health`)).status).toBe(200)
  })

  it('that fails says why, and leaves no port open', async () => {
    const opened = await openEngineOf(async () => ({ ok: false, error: 'is no GGUF file' }), { modelPath: 'x.gguf' })
    expect(opened).toEqual({ ok: false, error: 'is no GGUF file' })
  })
})

it('closing ends what runs and frees the weights', async () => {
  const { until } = openGrants()
  const model = openScriptedModel(vocabulary, WORDS, { until })
  const engine = await open(model)
  const answer = chat(engine).then(
    () => 'answered',
    () => 'cut',
  )
  await eventually(() => model.running()).toBe(1)
  await Promise.all([engine.close(), engine.close()])
  expect([await answer, model.isClosed()]).toEqual(['cut', true])
})
