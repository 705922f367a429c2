import OpenAI from 'openai'
import { afterEach, describe, expect, it } from 'vitest'
import { type EngineSettings, openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { loadQwen } from '../../src/engine/scripted/qwen.ts'
import type { ScriptInput } from '../../src/engine/scripted/script.ts'

const MODEL = 'qwen3-scripted'
const script: ScriptInput = {
  rules: [
    {
      match: { turn: 1, has_tool: 'bash', last_contains: 'go' },
      choices: [
        { variant: 'look', reasoning: 'Hm.', text: 'I look. 🤗', tool_calls: [{ name: 'bash', arguments: { command: 'ls', n: [1, 2] } }] },
      ],
    },
    { match: { variant: 'look' }, choices: [{ text: 'There it is.' }] },
    { match: { last_contains: 'limit' }, choices: [{ tool_calls: [{ name: 'bash', arguments: {} }], finish_reason: 'length' }] },
    { match: { last_contains: 'forever' }, choices: [{ text: 'word '.repeat(50).trim(), latency: { ttft_ms: 1, ms_per_token: 1000 } }] },
    { choices: [{ text: 'One. Two. Three.' }] },
  ],
}
const tools: OpenAI.Chat.ChatCompletionTool[] = [{ type: 'function', function: { name: 'bash', parameters: { type: 'object' } } }]

/** The machine may be busy: what has to happen is waited for, not timed. */
const eventually = <T>(read: () => T) => expect.poll(read, { timeout: 20_000 })

const opened: ScriptedEngine[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((engine) => engine.close()))
})

async function open(options: EngineSettings = {}) {
  const engine = await openScriptedEngine({ script, ...options })
  opened.push(engine)
  const client = new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: 'none', maxRetries: 0 })
  return { engine, client, chat: client.chat.completions }
}
/** What the engines add to OpenAI's shape; the SDK passes it through in both directions, its types do not. */
type Extended = {
  readonly prompt_token_ids?: readonly number[] | null
  readonly metadata?: unknown
  readonly choices: readonly {
    readonly message: { readonly content: string | null }
    readonly finish_reason: string | null
    readonly prompt_token_ids?: readonly number[]
    readonly token_ids?: readonly number[] | null
    readonly logprobs?: { readonly content: readonly { readonly token: string; readonly logprob: number }[] } | null
    readonly meta_info?: { readonly output_token_logprobs: unknown }
  }[]
}
const create = async (chat: OpenAI.Chat.Completions, params: Record<string, unknown>) =>
  (await chat.create({ model: MODEL, ...params } as unknown as OpenAI.Chat.ChatCompletionCreateParamsNonStreaming)) as unknown as Extended
/** SGLang's errors are flat, so that the SDK shows nothing of them: what they say is read from the body itself. */
const post = async (engine: ScriptedEngine, params: Record<string, unknown>) => {
  const response = await fetch(`${engine.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify({ model: MODEL, ...params }) })
  return { status: response.status, text: await response.text() }
}
const hi = [{ role: 'user', content: 'hi' }]

describe.each(['vllm', 'sglang'] as const)('%s: the OpenAI SDK', (shape) => {
  it('gets text, reasoning and a tool call, and the next turn extends the first token for token', async () => {
    const { engine, chat } = await open({ shape })
    const first = await chat.create({ model: MODEL, messages: [{ role: 'user', content: 'go' }], tools })
    const message = first.choices[0]!.message
    expect(message).toMatchObject({
      role: 'assistant',
      content: 'I look. 🤗',
      [shape === 'vllm' ? 'reasoning' : 'reasoning_content']: 'Hm.',
    })
    expect(message.tool_calls).toEqual([
      {
        id: expect.any(String),
        type: 'function',
        function: { name: 'bash', arguments: '{"command": "ls", "n": [1, 2]}' },
        ...(shape === 'sglang' ? { index: 0 } : {}),
      },
    ])
    expect(first.choices[0]!.finish_reason).toBe('tool_calls')

    const second = await chat.create({
      model: MODEL,
      tools,
      messages: [{ role: 'user', content: 'go' }, message, { role: 'tool', tool_call_id: message.tool_calls![0]!.id, content: 'file' }],
    })
    expect(second.choices[0]!.message.content).toBe('There it is.')
    expect(second.choices[0]!.finish_reason).toBe('stop')
    const [one, two] = engine.requests()
    const before = [...one!.promptIds, ...one!.sampledIds]
    expect(two!.promptIds.slice(0, before.length)).toEqual(before)
    expect(second.usage).toMatchObject({
      prompt_tokens: two!.promptTokens,
      completion_tokens: two!.sampledIds.length,
      total_tokens: two!.promptTokens + two!.sampledIds.length,
    })
  })

  it('streams the same answer it gives whole', async () => {
    const { engine, client, chat } = await open({ shape })
    const whole = await chat.create({ model: MODEL, messages: [{ role: 'user', content: 'go' }], tools })
    const runner = client.chat.completions.stream({
      model: MODEL,
      messages: [{ role: 'user', content: 'go' }],
      tools,
      stream_options: { include_usage: true },
    })
    const streamed = await runner.finalChatCompletion()
    expect(streamed.choices[0]!.message.content).toBe(whole.choices[0]!.message.content)
    expect(streamed.choices[0]!.message.tool_calls![0]!).toMatchObject({
      type: 'function',
      function: { name: 'bash', arguments: '{"command": "ls", "n": [1, 2]}' },
    })
    expect(streamed.choices[0]!.finish_reason).toBe('tool_calls')
    expect(streamed.usage).toMatchObject({ completion_tokens: engine.requests()[1]!.sampledIds.length })
  })

  it('gets logprobs of exactly the sampled tokens', async () => {
    const { engine, chat } = await open({ shape })
    const answer = await chat.create({ model: MODEL, messages: [{ role: 'user', content: 'hi' }], logprobs: true, top_logprobs: 2 })
    const entries = answer.choices[0]!.logprobs!.content!
    const [request] = engine.requests()
    expect(entries.map((entry) => entry.logprob)).toEqual(request!.logprobs)
    expect(entries.map((entry) => entry.token).join('')).toBe('One. Two. Three.<|im_end|>')
    expect(Buffer.from(entries.flatMap((entry) => entry.bytes!)).toString()).toBe('One. Two. Three.<|im_end|>')
    for (const entry of entries) expect(entry.top_logprobs).toHaveLength(2)
  })

  it('counts n answers into one response', async () => {
    const { engine, chat } = await open({ shape })
    const answer = await chat.create({ model: MODEL, messages: [{ role: 'user', content: 'hi' }], n: 3 })
    expect(answer.choices.map((choice) => choice.index)).toEqual([0, 1, 2])
    const [request] = engine.requests()
    expect(request!.choices).toHaveLength(3)
    expect(answer.usage!.completion_tokens).toBe(request!.choices.reduce((sum, choice) => sum + choice.sampledIds.length, 0))
    expect(request!.choices[0]!.logprobs).not.toEqual(request!.choices[1]!.logprobs)
  })

  it.each(['max_tokens', 'max_completion_tokens'])('is cut at %s', async (field) => {
    const { engine, chat } = await open({ shape })
    const answer = await create(chat, { messages: [{ role: 'user', content: 'hi' }], [field]: 2 })
    expect(answer.choices[0]).toMatchObject({ finish_reason: 'length', message: { content: 'One.' } })
    expect(engine.requests()[0]!.sampledIds).toHaveLength(2)
  })

  it.each([
    ['a prompt that is too long', { messages: [{ role: 'user', content: 'word '.repeat(100) }] }],
    ['an answer for which there is no room', { messages: hi, max_tokens: 63 }],
  ])('is told with a 400 of %s', async (_name, params) => {
    const { engine } = await open({ shape, maxModelLen: 64 })
    const refused = await post(engine, params)
    expect(refused.status).toBe(400)
    expect(refused.text).toMatch(/maximum context length of 64 tokens|context length is only 64 tokens/)
  })

  it('gets an answer that just fits', async () => {
    const { engine } = await open({ shape, maxModelLen: 64 })
    const promptTokens = (await loadQwen()).encode('<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n').length
    expect((await post(engine, { messages: hi, max_tokens: 64 - promptTokens })).status).toBe(200)
    expect((await post(engine, { messages: hi, max_tokens: 65 - promptTokens })).status).toBe(400)
    const { engine: narrow } = await open({ shape, maxModelLen: promptTokens + 1 })
    expect((await post(narrow, { messages: hi, max_tokens: 1 })).status).toBe(200)
    expect(narrow.requests()[0]!.sampledIds).toHaveLength(1)
  })

  it('reads a call that ended at the length limit as the engine reports it', async () => {
    const { chat } = await open({ shape })
    const answer = await create(chat, { messages: [{ role: 'user', content: 'limit' }], tools })
    expect(answer.choices[0]!.finish_reason).toBe(shape === 'vllm' ? 'tool_calls' : 'length')
  })

  it('finds the model and its length', async () => {
    const { client } = await open({ shape, model: 'mine', maxModelLen: 4096 })
    const [model] = (await client.models.list()).data
    expect(model).toMatchObject({ id: 'mine', max_model_len: 4096 })
  })

  it('that leaves is noticed, and its generation ends', async () => {
    const { engine, chat } = await open({ shape, concurrency: 1 })
    const leaving = new AbortController()
    const abandoned = chat
      .create({ model: MODEL, messages: [{ role: 'user', content: 'forever' }] }, { signal: leaving.signal })
      .catch((error: unknown) => error)
    await eventually(() => engine.requests().length).toBe(1)
    leaving.abort()
    expect(await abandoned).toBeInstanceOf(OpenAI.APIUserAbortError)
    // The only place is free again at once, although the answer would have taken 50 s.
    const next = await chat.create({ model: MODEL, messages: [{ role: 'user', content: 'hi' }] })
    expect(next.choices[0]!.message.content).toBe('One. Two. Three.')
    expect(engine.requests().map((request) => request.cancelled)).toEqual([true, false])
    expect(engine.requests()[0]!.sampledIds.length).toBeLessThan(50)
  })

  it('gets a 400 that names the field of a body it would not have sent', async () => {
    const { engine } = await open({ shape })
    const refused = await post(engine, { messages: [{ role: 'user', content: 5 }] })
    expect(refused).toEqual({ status: 400, text: expect.stringContaining('messages.0.content') })
  })
})

describe('images', () => {
  const image = (url: string) => ({ type: 'image_url', image_url: { url } })
  const look = (...content: readonly object[]) => ({ messages: [{ role: 'user', content }], logprobs: true })

  it('stand in the prompt as one placeholder each, where they were sent', async () => {
    const qwen = await loadQwen()
    const { engine, chat } = await open()
    await create(chat, look({ type: 'text', text: 'Left:' }, image('data:,a'), { type: 'text', text: ' right:' }, image('data:,b')))
    const pad = '<|vision_start|><|image_pad|><|vision_end|>'
    expect(qwen.decode(engine.requests()[0]!.promptIds)).toContain(`<|im_start|>user\nLeft:${pad} right:${pad}<|im_end|>`)
    expect(engine.requests()[0]!.promptIds.filter((id) => id === 151_655)).toHaveLength(2)
  })

  it('may come with a tool result', async () => {
    const { engine, chat } = await open()
    const call = { id: 'c', type: 'function', function: { name: 'bash', arguments: '{}' } }
    const messages = [...hi, { role: 'assistant', tool_calls: [call] }, { role: 'tool', tool_call_id: 'c', content: [image('data:,a')] }]
    await create(chat, { messages })
    expect(engine.requests()[0]!.promptIds).toContain(151_655)
  })

  it('change what is sampled after them, though the prompts have equal ids', async () => {
    const { engine, chat } = await open()
    for (const url of ['data:,a', 'data:,b', 'data:,a']) await create(chat, look(image(url)))
    const [one, other, again] = engine.requests()
    expect(other!.promptIds).toEqual(one!.promptIds)
    expect(other!.logprobs).not.toEqual(one!.logprobs)
    expect(again!.logprobs).toEqual(one!.logprobs)
  })

  it('are refused by an engine of a text model', async () => {
    const { chat } = await open({ multimodal: false })
    const failure = await create(chat, look(image('data:,a'))).catch((error: unknown) => error)
    expect(failure).toMatchObject({ status: 400, message: expect.stringContaining('not a multimodal model') })
  })
})

describe('vLLM only', () => {
  it('returns prompt ids at the top and sampled ids on the choice when asked, null otherwise', async () => {
    const { engine, chat } = await open()
    const asked = await create(chat, { messages: [{ role: 'user', content: 'hi' }], return_token_ids: true })
    const [request] = engine.requests()
    expect(asked.prompt_token_ids).toEqual(request!.promptIds)
    expect(asked.choices[0]!.token_ids).toEqual(request!.sampledIds)
    const plain = await create(chat, { messages: [{ role: 'user', content: 'hi' }] })
    expect([plain.prompt_token_ids, plain.choices[0]!.token_ids]).toEqual([null, null])
  })

  it('streams prompt ids once, in the first chunk, and sampled ids as deltas with their logprobs', async () => {
    const { engine, chat } = await open({ tokensPerChunk: 3 })
    const stream = await chat.create({
      model: MODEL,
      messages: [{ role: 'user', content: 'go' }],
      tools,
      stream: true,
      logprobs: true,
      return_token_ids: true,
    } as OpenAI.Chat.ChatCompletionCreateParamsStreaming)
    const chunks: Extended[] = []
    for await (const chunk of stream) chunks.push(chunk as unknown as Extended)
    const [request] = engine.requests()
    expect(chunks.map((chunk) => chunk.prompt_token_ids)).toEqual([request!.promptIds, ...chunks.slice(1).map(() => undefined)])
    expect(chunks.flatMap((chunk) => chunk.choices[0]!.token_ids ?? [])).toEqual(request!.sampledIds)
    expect(chunks.flatMap((chunk) => chunk.choices[0]!.logprobs?.content.map((entry) => entry.logprob) ?? [])).toEqual(request!.logprobs)
    expect(Math.max(...chunks.map((chunk) => chunk.choices[0]!.token_ids?.length ?? 0))).toBe(3)
  })

  it('names tokens by id when asked', async () => {
    const { engine, chat } = await open()
    const answer = await create(chat, { messages: [{ role: 'user', content: 'hi' }], logprobs: true, return_tokens_as_token_ids: true })
    const names = answer.choices[0]!.logprobs!.content.map((entry) => entry.token)
    expect(names).toEqual(engine.requests()[0]!.sampledIds.map((id) => `token_id:${id}`))
  })

  it.each([
    ['another model', { model: 'other' }, 404, 'does not exist'],
    ['stream options without a stream', { stream_options: { include_usage: true } }, 400, 'stream=True'],
    ['an empty list of tools', { tools: [] }, 400, '`tools` must not be an empty array'],
    ['top_logprobs without logprobs', { top_logprobs: 1 }, 400, '`logprobs` must be set to true'],
    ['a tool choice without tools', { tool_choice: 'auto' }, 400, '`tools` must be set'],
    ['an image that has no url', { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }] }, 400, 'content'],
    ['a file', { messages: [{ role: 'user', content: [{ type: 'file', file: {} }] }] }, 400, 'content of type file'],
  ])('refuses %s as vLLM does', async (_name, params, status, text) => {
    const { chat } = await open()
    const failure = await create(chat, { messages: [{ role: 'user', content: 'hi' }], ...params }).catch((error: unknown) => error)
    expect(failure).toMatchObject({ status, message: expect.stringContaining(text) })
  })

  it('names no length of a prompt that it did not read to the end', async () => {
    const { engine } = await open({ maxModelLen: 64 })
    const params = { messages: [{ role: 'user', content: 'word '.repeat(100) }], max_tokens: 20 }
    expect((await post(engine, params)).text).toContain(
      "You passed 45 input tokens and requested 20 output tokens. However, the model's context length is only 64 tokens, resulting in a maximum input length of 44 tokens.",
    )
  })

  it('accepts fields it does not know', async () => {
    const { chat } = await open()
    await expect(create(chat, { messages: [{ role: 'user', content: 'hi' }], cache_salt: 'x', made_up: { a: 1 } })).resolves.toBeDefined()
  })
})

describe('SGLang only', () => {
  const ids = { return_token_ids: true, return_prompt_token_ids: true, return_meta_info: true }

  it('returns ids, meta_info with logprob triples and the weight version when asked', async () => {
    const { engine, chat } = await open({ shape: 'sglang', weightVersion: '7' })
    const answer = await create(chat, { messages: [{ role: 'user', content: 'hi' }], logprobs: true, ...ids })
    const [request] = engine.requests()
    const choice = answer.choices[0]!
    expect([choice.prompt_token_ids, choice.token_ids]).toEqual([request!.promptIds, request!.sampledIds])
    expect(choice.meta_info!.output_token_logprobs).toEqual(request!.sampledIds.map((id, index) => [request!.logprobs[index], id, null]))
    expect(choice.meta_info).toMatchObject({
      weight_version: '7',
      finish_reason: { type: 'stop', matched: 151_645 },
      completion_tokens: request!.sampledIds.length,
    })
    expect(answer.metadata).toEqual({ weight_version: '7' })
  })

  it('has none of these fields when they are not asked for', async () => {
    const { chat } = await open({ shape: 'sglang' })
    const answer = await create(chat, { messages: [{ role: 'user', content: 'hi' }] })
    for (const field of ['prompt_token_ids', 'token_ids', 'meta_info']) expect(answer.choices[0]).not.toHaveProperty(field)
  })

  it.each(Object.keys(ids))('refuses a stream with %s', async (field) => {
    const { engine } = await open({ shape: 'sglang' })
    expect(await post(engine, { messages: hi, stream: true, [field]: true })).toEqual({
      status: 400,
      text: expect.stringContaining('stream=false'),
    })
  })

  it('takes a prompt as token ids in place of the rendered one', async () => {
    const { engine, chat } = await open({ shape: 'sglang' })
    const input = (await loadQwen()).encode('<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n')
    await create(chat, { messages: [{ role: 'user', content: 'something else' }], input_ids: input })
    expect(engine.requests()[0]!.promptIds).toEqual(input)
  })

  it('reports logprobs after temperature, where vLLM reports them before', async () => {
    const logprobs = async (shape: 'vllm' | 'sglang', temperature: number) => {
      const { engine, chat } = await open({ shape })
      await create(chat, { messages: [{ role: 'user', content: 'hi' }], temperature })
      return engine.requests()[0]!.logprobs
    }
    expect(await logprobs('vllm', 0.5)).toEqual(await logprobs('vllm', 1))
    expect(await logprobs('sglang', 0.5)).not.toEqual(await logprobs('sglang', 1))
  })
})

describe('an engine under a seed', () => {
  it('gives every request the same tokens and logprobs again', async () => {
    const run = async (seed: number) => {
      const engine = await openScriptedEngine({ seed, generator: { toolCallProbability: 0.5, reasoningWords: [0, 5] } })
      opened.push(engine)
      const chat = new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: 'none', maxRetries: 0 }).chat.completions
      for (let turn = 0; turn < 4; turn += 1) await create(chat, { messages: [{ role: 'user', content: `hi ${turn}` }], tools })
      return engine.requests().map(({ sampledIds, logprobs }) => ({ sampledIds, logprobs }))
    }
    expect(await run(1)).toEqual(await run(1))
    expect(await run(1)).not.toEqual(await run(2))
  })
})
