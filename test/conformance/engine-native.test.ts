// The engines' own generation routes as the scripted engine plays them: token ids in, ids and logprobs out, and what each leaves out.
import { afterEach, describe, expect, it } from 'vitest'
import { type EngineSettings, openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { loadQwen } from '../../src/engine/scripted/qwen.ts'
import type { ScriptInput } from '../../src/engine/scripted/script.ts'

const tools = [{ type: 'function', function: { name: 'bash', parameters: { type: 'object' } } }]
const call = { name: 'bash', arguments: { command: 'ls' } }
const script: ScriptInput = {
  rules: [
    {
      match: { turn: 1, has_tool: 'bash', system_contains: 'Be brief', last_contains: 'go' },
      choices: [{ variant: 'look', reasoning: 'Hm.', text: 'I look.', tool_calls: [call, call] }],
    },
    { match: { variant: 'look', last_role: 'tool', last_contains: 'file' }, choices: [{ text: 'There 🤗 it is.' }] },
    { choices: [{ text: 'One. Two. Three.' }] },
  ],
}

const opened: ScriptedEngine[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((engine) => engine.close()))
})

async function open(options: EngineSettings) {
  const engine = await openScriptedEngine({ script, ...options })
  opened.push(engine)
  const post = async (path: string, body: object, headers: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(engine.url + path, { method: 'POST', body: JSON.stringify(body), headers })
    return { status: response.status, json: JSON.parse(await response.text()) }
  }
  const stream = async (path: string, body: object) => {
    const response = await fetch(engine.url + path, { method: 'POST', body: JSON.stringify(body) })
    const lines = (await response.text()).trimEnd().split('\n\n')
    return { events: lines.filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6))), end: lines.at(-1) }
  }
  const get = async (path: string) => {
    const response = await fetch(engine.url + path)
    return { status: response.status, json: JSON.parse((await response.text()) || 'null') }
  }
  return { engine, post, stream, get }
}

const system = { role: 'system', content: 'Be brief.' }
const go = { role: 'user', content: 'go' }
const SAMPLED =
  '<think>\nHm.\n</think>\n\nI look.\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>\n' +
  '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'

describe('SGLang’s /generate', () => {
  it('answers the conversation it finds in the ids, with every fact of the sample', async () => {
    const { engine, post } = await open({ shape: 'sglang', weightVersion: '7' })
    const { json: prompt } = await post('/v1/tokenize', { messages: [system, go], tools })
    const { json } = await post('/generate', {
      input_ids: prompt.tokens,
      sampling_params: { max_new_tokens: null, temperature: 1 },
      return_logprob: true,
      return_prompt_token_ids: true,
    })
    const [request] = engine.requests()
    expect(json).toEqual({
      text: SAMPLED,
      output_ids: request!.sampledIds,
      prompt_token_ids: prompt.tokens,
      meta_info: {
        id: expect.any(String),
        finish_reason: { type: 'stop', matched: 151_645 },
        prompt_tokens: prompt.count,
        completion_tokens: request!.sampledIds.length,
        cached_tokens: 0,
        weight_version: '7',
        num_retractions: 0,
        e2e_latency: expect.any(Number),
        input_token_logprobs: [],
        output_token_logprobs: request!.sampledIds.map((id, index) => [request!.logprobs[index], id, null]),
        output_token_logprobs_length: request!.sampledIds.length,
      },
    })
    expect(request).toMatchObject({ path: '/generate', promptIds: prompt.tokens, variant: 'look' })
  })

  it('repeats the prompt’s ids only when asked', async () => {
    const { post } = await open({ shape: 'sglang' })
    expect((await post('/generate', { input_ids: [1] })).json).not.toHaveProperty('prompt_token_ids')
  })

  it('follows the conversation over a tool’s result', async () => {
    const { engine, post } = await open({ shape: 'sglang' })
    const answer = {
      role: 'assistant',
      content: 'I look.',
      tool_calls: [{ type: 'function', function: { ...call, arguments: '{"command": "ls"}' } }],
    }
    const twice = { ...answer, tool_calls: [answer.tool_calls[0], answer.tool_calls[0]] }
    const messages = [system, go, twice, { role: 'tool', content: 'no' }, { role: 'tool', content: 'a file' }]
    const { json: prompt } = await post('/v1/tokenize', { messages, tools })
    const { json } = await post('/generate', { input_ids: prompt.tokens })
    expect([json.text, engine.requests()[0]!.variant]).toEqual(['There 🤗 it is.', 'look'])
  })

  it('lists alternatives by likelihood, with texts when asked', async () => {
    const { post } = await open({ shape: 'sglang' })
    const asked = { input_ids: [151_644], return_logprob: true, top_logprobs_num: 3, return_text_in_logprobs: true }
    const { json } = await post('/generate', { ...asked, sampling_params: { max_new_tokens: 2 } })
    const { output_top_logprobs: top, output_token_logprobs: sampled } = json.meta_info
    expect(top.map((list: unknown[]) => list.length)).toEqual([3, 3])
    for (const list of top)
      expect(list.map(([logprob]: number[]) => -logprob!)).toEqual(list.map(([l]: number[]) => -l!).sort((a: number, b: number) => a - b))
    expect(sampled.map(([, , text]: unknown[]) => text)).toEqual(['One', '.'])
    expect(json.meta_info.finish_reason).toEqual({ type: 'length', length: 2 })
  })

  it('samples 128 tokens at most unless told otherwise', async () => {
    const engine = await openScriptedEngine({ script: { rules: [{ choices: [{ text: 'word '.repeat(200).trim() }] }] }, shape: 'sglang' })
    opened.push(engine)
    await fetch(`${engine.url}/generate`, { method: 'POST', body: JSON.stringify({ input_ids: [1] }) })
    expect(engine.requests()[0]!.sampledIds).toHaveLength(128)
  })

  it.each([
    ['a stop string', { stop: ['Two'] }, 'One. ', 'Two'],
    ['a stop token', { stop_token_ids: [13] }, 'One', 13],
  ])('says by which %s it ended', async (_name, sampling, text, matched) => {
    const { post } = await open({ shape: 'sglang' })
    const { json } = await post('/generate', { input_ids: [1], sampling_params: sampling })
    expect([json.text, json.meta_info.finish_reason]).toEqual([text, { type: 'stop', matched }])
  })

  it.each([1, 2])('streams all that is sampled so far, of %d choices', async (n) => {
    const { engine, post, stream } = await open({ shape: 'sglang' })
    const asked = { input_ids: [1, 2], return_logprob: true, sampling_params: { n, sampling_seed: 4 } }
    const { json: whole } = await post('/generate', asked)
    const { events, end } = await stream('/generate', { ...asked, stream: true })
    const sampled = engine.requests()[0]!.sampledIds
    for (const index of Array(n).keys()) {
      const own = n === 1 ? events : events.filter((event) => event.index === index)
      expect(own.map((event) => event.output_ids)).toEqual(sampled.map((_, at) => sampled.slice(0, at + 1)))
      expect(own.map((event) => event.text).every((text, at, all) => text.startsWith(all[at - 1] ?? ''))).toBe(true)
      expect(own.slice(0, -1).every((event) => event.meta_info.finish_reason === null)).toBe(true)
      const { text, meta_info: meta } = n === 1 ? whole : whole[index]
      expect(own.at(-1)).toMatchObject({
        text,
        meta_info: { finish_reason: meta.finish_reason, output_token_logprobs: meta.output_token_logprobs },
      })
    }
    expect(end).toBe('data: [DONE]')
  })

  it.each([
    ['a parameter it does not know', { input_ids: [1], sampling_params: { max_tokens: 3 } }, 'sampling_params'],
    ['no prompt', {}, 'input_ids'],
  ])('refuses %s', async (_name, body, named) => {
    const { post } = await open({ shape: 'sglang' })
    const { status, json } = await post('/generate', body)
    expect([status, json.message]).toEqual([400, expect.stringContaining(named)])
  })
})

describe('llama.cpp', () => {
  it('renders, encodes and decodes a conversation', async () => {
    const { post } = await open({ shape: 'llamacpp' })
    const qwen = await loadQwen()
    const { json: rendered } = await post('/apply-template', {
      messages: [system, go],
      tools,
      chat_template_kwargs: { enable_thinking: false },
    })
    expect(rendered.prompt).toMatch(/<tools>[\s\S]*<\|im_start\|>assistant\n<think>\n\n<\/think>\n\n$/)
    const { json: encoded } = await post('/tokenize', { content: rendered.prompt, add_special: true, parse_special: true })
    expect(encoded.tokens).toEqual(qwen.encode(rendered.prompt))
    expect((await post('/detokenize', encoded)).json.content).toBe(rendered.prompt)
  })

  it('gives every sampled id, the end token among them', async () => {
    const { engine, post } = await open({ shape: 'llamacpp' })
    const { json } = await post('/completion', { prompt: [1, 2], n_probs: 1, return_tokens: true })
    const [request] = engine.requests()
    expect(json).toMatchObject({
      content: 'One. Two. Three.',
      tokens: request!.sampledIds,
      tokens_predicted: request!.sampledIds.length,
      tokens_evaluated: 2,
      tokens_cached: 1 + request!.sampledIds.length,
      stop_type: 'eos',
      stopping_word: '',
    })
    expect(request!.sampledIds.at(-1)).toBe(151_645)
    expect(json.completion_probabilities.map((entry: { id: number; logprob: number }) => [entry.id, entry.logprob])).toEqual(
      request!.sampledIds.map((id, index) => [id, request!.logprobs[index]]),
    )
  })

  it('streams a completion token by token, and its facts at the end', async () => {
    const { post, stream } = await open({ shape: 'llamacpp' })
    const asked = { prompt: [1, 2], n_probs: 1, return_tokens: true, seed: 4 }
    const { json: whole } = await post('/completion', asked)
    const { events, end } = await stream('/completion', { ...asked, stream: true })
    const [last, ...grown] = events.toReversed()
    expect(grown.map((event) => event.stop)).toEqual(grown.map(() => false))
    const inOrder = grown.toReversed()
    expect(inOrder.map((event) => event.content).join('')).toBe(whole.content)
    expect(inOrder.flatMap((event) => event.tokens)).toEqual(whole.tokens)
    expect(inOrder.flatMap((event) => event.completion_probabilities)).toEqual(whole.completion_probabilities)
    expect(last).toMatchObject({ content: '', tokens: [], stop: true, stop_type: 'eos', tokens_predicted: whole.tokens.length })
    // The older API has no closing mark.
    expect(end).toMatch(/^data: \{/)
  })

  it('gives no probability for a token that ends inside a character', async () => {
    const engine = await openScriptedEngine({ script: { rules: [{ choices: [{ text: 'a 🤗 b' }] }] }, shape: 'llamacpp' })
    opened.push(engine)
    const response = await fetch(`${engine.url}/completion`, {
      method: 'POST',
      body: JSON.stringify({ prompt: [1], n_probs: 1, return_tokens: true }),
    })
    const json = JSON.parse(await response.text())
    expect(json.completion_probabilities.length).toBeLessThan(json.tokens.length)
  })

  it('drops the probabilities of a stop word and keeps its ids', async () => {
    const { post } = await open({ shape: 'llamacpp' })
    const { json } = await post('/completion', { prompt: [1], n_probs: 1, return_tokens: true, stop: ['Two'] })
    expect(json).toMatchObject({ content: 'One. ', stop_type: 'word', stopping_word: 'Two' })
    expect(json.completion_probabilities.length).toBeLessThan(json.tokens.length)
  })

  it('puts the ids of a chat into its logprobs, and gives none of either when asked for no alternatives', async () => {
    const { engine, post } = await open({ shape: 'llamacpp' })
    const asked = { messages: [go], logprobs: true }
    const { json: two } = await post('/v1/chat/completions', { ...asked, top_logprobs: 2 })
    expect(two.choices[0].logprobs.content.map((entry: { id: number }) => entry.id)).toEqual(engine.requests()[0]!.sampledIds)
    expect(two.choices[0].logprobs.content[0].top_logprobs).toHaveLength(2)
    const { json: none } = await post('/v1/chat/completions', { ...asked, top_logprobs: 0 })
    expect(none.choices[0].logprobs).toBeUndefined()
    const { json: silent } = await post('/v1/chat/completions', asked)
    expect(silent.choices[0].logprobs.content[0].top_logprobs).toHaveLength(20)
  })

  it('streams the chat it gives whole', async () => {
    const { engine } = await open({ shape: 'llamacpp' })
    const response = await fetch(`${engine.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ messages: [system, go], tools, stream: true }),
    })
    const events = (await response.text()).split('\n\n').filter((event) => event.startsWith('data: {'))
    const choices = events.map((event) => JSON.parse(event.slice(6)).choices[0])
    expect(choices.map((choice) => choice.delta.content ?? '').join('')).toBe('I look.')
    expect(choices.at(-1)).toMatchObject({ finish_reason: 'tool_calls', delta: {} })
  })

  it('ends at its context instead of refusing a budget, and says when the prompt alone is too long', async () => {
    const { engine, post } = await open({ shape: 'llamacpp', maxModelLen: 4 })
    const { json } = await post('/completion', { prompt: [1, 2], n_predict: 100, return_tokens: true })
    expect([json.tokens, json.stop_type]).toEqual([engine.requests()[0]!.sampledIds, 'limit'])
    expect(json.tokens).toHaveLength(2)
    expect(await post('/completion', { prompt: [1, 2, 3, 4] })).toEqual({
      status: 400,
      json: {
        error: {
          code: 400,
          message: 'request (4 tokens) exceeds the available context size (4 tokens), try increasing it',
          type: 'exceed_context_size_error',
          n_prompt_tokens: 4,
          n_ctx: 4,
        },
      },
    })
  })

  it('calls a fault of its own a server error', async () => {
    const { post } = await open({ shape: 'llamacpp', faults: [{ fault: 'http-500', times: 1 }] })
    expect((await post('/completion', { prompt: [1] })).json.error).toMatchObject({ code: 500, type: 'server_error' })
  })

  it('lists its model with the context it has', async () => {
    const { get } = await open({ shape: 'llamacpp', maxModelLen: 4096 })
    expect((await get('/v1/models')).json.data[0]).toMatchObject({ id: 'qwen3-scripted', owned_by: 'llamacpp', meta: { n_ctx: 4096 } })
    expect((await get('/props')).json.default_generation_settings.n_ctx).toBe(4096)
  })
})

describe('an engine that is still loading', () => {
  it.each(['vllm', 'sglang', 'llamacpp'] as const)('answers 503 to everything (%s)', async (shape) => {
    const { engine, get, post } = await open({ shape })
    engine.setLoading(true)
    expect([(await get('/health')).status, (await post('/v1/chat/completions', { messages: [go] })).status]).toEqual([503, 503])
    engine.setLoading(false)
    expect((await get('/health')).status).toBe(200)
  })
})

describe('a data-parallel rank', () => {
  const chat = { messages: [go] }
  it.each([
    ['the header', chat, { 'X-data-parallel-rank': '3' }, 3],
    ['SGLang’s field', { ...chat, routed_dp_rank: 2 }, {}, 2],
    ['the field’s older name', { ...chat, data_parallel_rank: 1 }, {}, 1],
    ['neither', chat, {}, null],
  ])('is logged when it is named by %s', async (_name, body, headers, rank) => {
    const { engine, post } = await open({ shape: 'sglang', dataParallelRanks: 4 })
    await post('/v1/chat/completions', body, headers)
    expect(engine.requests()[0]!.rank).toBe(rank)
  })

  it('is refused when the engine has no such rank', async () => {
    const { engine, post } = await open({ dataParallelRanks: 2 })
    const { status, json } = await post('/v1/chat/completions', chat, { 'x-data-parallel-rank': '2' })
    expect([status, json.error.message]).toEqual([400, 'data_parallel_rank 2 is out of range [0, 2).'])
    expect(engine.requests()[0]).toMatchObject({ rank: 2, status: 400 })
  })
})
