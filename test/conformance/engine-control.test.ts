import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { runEngineCommand } from '../../src/cli/engine.ts'
import { type EngineSettings, openAnswers, openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import type { ScriptInput } from '../../src/engine/scripted/script.ts'
import { openWorld } from '../../src/kernel/world.ts'

const TEXT = 'one two three four five six seven eight nine ten'
const script: ScriptInput = { rules: [{ choices: [{ text: TEXT }] }] }

/** The machine may be busy: what has to happen is waited for, not timed. */
const eventually = <T>(read: () => T) => expect.poll(read, { timeout: 20_000 })

const opened: ScriptedEngine[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((engine) => engine.close()))
})
async function open(settings: EngineSettings = {}) {
  const engine = await openScriptedEngine({ script, ...settings })
  opened.push(engine)
  return engine
}

const post = (engine: ScriptedEngine, path: string, body?: object) =>
  fetch(`${engine.url}${path}`, { method: 'POST', ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
const get = async (engine: ScriptedEngine, path: string) => (await fetch(`${engine.url}${path}`)).json()
type Answer = { readonly choices: readonly { readonly finish_reason: string; readonly message: { readonly content: string } }[] }
const chat = async (engine: ScriptedEngine, extra: object = {}) => {
  const response = await post(engine, '/v1/chat/completions', {
    model: 'qwen3-scripted',
    messages: [{ role: 'user', content: 'hi' }],
    ...extra,
  })
  return (await response.json()) as Answer
}
const sample = async (engine: ScriptedEngine, name: string) => {
  const text = await (await fetch(`${engine.url}/metrics`)).text()
  return Number(new RegExp(`^${name}\\{.*\\} (.+)$`, 'm').exec(text)?.[1])
}

describe("pause, in vLLM's form", () => {
  const start = async () => {
    const clock = openWorld({ seed: 1 })
    const engine = await open({ scheduler: clock, latency: { ttftMs: 100, msPerToken: 10 } })
    const answer = chat(engine)
    await eventually(() => sample(engine, 'vllm:num_requests_running')).toBe(1)
    return { clock, engine, answer }
  }

  it('abort ends what runs with what it has', async () => {
    const { clock, engine, answer } = await start()
    await clock.advance(125)
    expect(await (await post(engine, '/pause')).json()).toEqual({ status: 'paused' })
    const { choices } = await answer
    expect(choices[0]).toMatchObject({ finish_reason: 'abort', message: { content: 'one two three' } })
    expect(engine.requests()[0]!.sampledIds).toHaveLength(3)
    expect(await get(engine, '/is_paused')).toEqual({ is_paused: true })
  })

  it('keep freezes what runs until resume, which then loses nothing', async () => {
    const { clock, engine, answer } = await start()
    await clock.advance(125)
    await post(engine, '/pause?mode=keep')
    await clock.advance(60_000)
    expect(engine.requests()[0]!.status).toBeNull()
    await post(engine, '/resume')
    await clock.advance(60_000)
    expect((await answer).choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: TEXT } })
  })

  it('wait answers when what ran has ended, and holds new requests', async () => {
    const { clock, engine, answer } = await start()
    const paused = post(engine, '/pause?mode=wait')
    await eventually(() => get(engine, '/is_paused')).toEqual({ is_paused: true })
    const held = chat(engine)
    await eventually(() => sample(engine, 'vllm:num_requests_waiting')).toBe(1)
    await clock.advance(60_000)
    expect((await answer).choices[0]!.finish_reason).toBe('stop')
    expect((await paused).status).toBe(200)
    expect(engine.requests()[1]!.status).toBeNull()
    await post(engine, '/resume')
    await eventually(() => sample(engine, 'vllm:num_requests_running')).toBe(1)
    await clock.advance(60_000)
    expect((await held).choices[0]!.finish_reason).toBe('stop')
  })

  it('abort ends a stream with finish_reason abort, its ids a prefix of the answer', async () => {
    const clock = openWorld({ seed: 1 })
    const engine = await open({ scheduler: clock, latency: { ttftMs: 100, msPerToken: 10 } })
    const streaming = post(engine, '/v1/chat/completions', {
      model: 'qwen3-scripted',
      messages: [{ role: 'user', content: 'hi' }],
      stream: true,
      return_token_ids: true,
    })
    await eventually(() => sample(engine, 'vllm:num_requests_running')).toBe(1)
    await clock.advance(125)
    await streaming
    await post(engine, '/pause?mode=abort')
    const events = (await (await streaming).text()).split('\n\n').filter((event) => event.startsWith('data: {'))
    const chunks = events.map(
      (event) => JSON.parse(event.slice(6)) as { choices: { finish_reason: string | null; token_ids?: number[] | null }[] },
    )
    expect(chunks.map((chunk) => chunk.choices[0]!.finish_reason).filter((reason) => reason !== null)).toEqual(['abort'])
    expect(chunks.flatMap((chunk) => chunk.choices[0]!.token_ids ?? [])).toEqual(engine.requests()[0]!.sampledIds)
    expect(engine.requests()[0]!.sampledIds.length).toBeLessThan(TEXT.split(' ').length)
  })

  it('refuses a mode it does not know', async () => {
    expect((await post(await open(), '/pause?mode=nap')).status).toBe(400)
  })
})

describe('routes', () => {
  it.each(['vllm', 'sglang'] as const)('%s labels its weights', async (shape) => {
    const engine = await open({ shape })
    const read = async () =>
      ((await get(engine, shape === 'vllm' ? '/weight_info' : '/get_model_info')) as { weight_version: string }).weight_version
    expect(await read()).toBe('default')
    expect(await (await post(engine, '/update_weight_version', { new_version: '12' })).json()).toEqual({ success: true, new_version: '12' })
    expect(await read()).toBe('12')
    engine.setWeightVersion('13')
    expect(await read()).toBe('13')
    await chat(engine)
    expect(engine.requests()[0]!.weightVersion).toBe('13')
  })

  it('SGLang pauses and continues under its own names', async () => {
    const engine = await open({ shape: 'sglang' })
    expect((await post(engine, '/pause_generation', { mode: 'retract' })).status).toBe(200)
    const held = chat(engine)
    await eventually(() => sample(engine, 'sglang:num_queue_reqs')).toBe(1)
    await post(engine, '/continue_generation')
    expect((await held).choices[0]!.finish_reason).toBe('stop')
  })

  it('SGLang ends what runs when asked to, and goes on', async () => {
    const clock = openWorld({ seed: 1 })
    const engine = await open({ shape: 'sglang', scheduler: clock, latency: { ttftMs: 100, msPerToken: 10 } })
    const answer = chat(engine)
    await eventually(() => sample(engine, 'sglang:num_running_reqs')).toBe(1)
    await clock.advance(125)
    expect((await post(engine, '/abort_request', { rid: '', abort_all: true })).status).toBe(200)
    expect((await answer).choices[0]).toMatchObject({ finish_reason: 'abort', message: { content: 'one two three' } })
    const next = chat(engine)
    await eventually(() => sample(engine, 'sglang:num_running_reqs')).toBe(1)
    await clock.advance(60_000)
    expect((await next).choices[0]!.finish_reason).toBe('stop')
  })

  it.each(['vllm', 'sglang'] as const)('%s tokenizes a chat as it would prompt with it, and back', async (shape) => {
    const engine = await open({ shape })
    await chat(engine)
    const [request] = engine.requests()
    const counted = (await (await post(engine, '/tokenize', { messages: [{ role: 'user', content: 'hi' }] })).json()) as {
      tokens: number[]
      count: number
    }
    expect(counted).toMatchObject({ tokens: request!.promptIds, count: request!.promptTokens, max_model_len: 131_072 })
    const back = await (await post(engine, '/detokenize', { tokens: counted.tokens })).json()
    const text = '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n'
    expect(back).toEqual(shape === 'vllm' ? { prompt: text } : { text })
    expect(await (await post(engine, '/tokenize', { prompt: text })).json()).toMatchObject({ tokens: counted.tokens })
  })

  it('counts tokens in its metrics', async () => {
    const engine = await open()
    await chat(engine)
    const [request] = engine.requests()
    expect(await sample(engine, 'vllm:prompt_tokens_total')).toBe(request!.promptTokens)
    expect(await sample(engine, 'vllm:generation_tokens_total')).toBe(request!.sampledIds.length)
  })

  it('is healthy, and has no route it does not know', async () => {
    const engine = await open()
    expect([(await fetch(`${engine.url}/health`)).status, (await fetch(`${engine.url}/nothing`)).status]).toEqual([200, 404])
  })

  it('answers a body that is no JSON with a 400', async () => {
    const engine = await open()
    const response = await fetch(`${engine.url}/v1/chat/completions`, { method: 'POST', body: '{"model":' })
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('not JSON')])
  })

  it('answers 503 when the line is full instead of growing', async () => {
    const engine = await open({ concurrency: 1, waiting: 1, latency: { ttftMs: 3_600_000 } })
    const open2 = [chat(engine), chat(engine)].map((each) => each.catch(() => null))
    await eventually(() => sample(engine, 'vllm:num_requests_waiting')).toBe(1)
    const third = await post(engine, '/v1/chat/completions', { messages: [{ role: 'user', content: 'hi' }] })
    expect(third.status).toBe(503)
    await engine.close()
    expect(await Promise.all(open2)).toEqual([null, null])
  })
})

describe('closing', () => {
  it('cuts what is open and may be called twice', async () => {
    const engine = await open({ faults: [{ fault: 'hang' }] })
    const answer = chat(engine).catch(() => 'cut')
    await eventually(() => engine.requests().length).toBe(1)
    await Promise.all([engine.close(), engine.close()])
    expect(await answer).toBe('cut')
    await expect(fetch(`${engine.url}/health`)).rejects.toThrow()
  })
})

describe('replicas', () => {
  it('that share one source keep the variants in proportion together', async () => {
    const variants: ScriptInput = {
      rules: [{ match: { turn: 1 }, choices: ['a', 'b', 'c', 'd'].map((variant) => ({ variant, text: variant })) }],
    }
    const answers = openAnswers({ script: variants }, 3)
    const replicas = await Promise.all([0, 1].map(() => openScriptedEngine({ answers })))
    opened.push(...replicas)
    for (let round = 0; round < 3; round += 1) {
      const texts = []
      for (const replica of [replicas[0]!, replicas[1]!, replicas[1]!, replicas[0]!])
        texts.push((await chat(replica)).choices[0]!.message.content)
      expect(texts.sort()).toEqual(['a', 'b', 'c', 'd'])
    }
  })
})

/** A server whose port comes right after one that is free. */
async function listenAfterFreePort(): Promise<{ readonly server: Server; readonly port: number }> {
  for (;;) {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const before = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      before.once('error', () => resolve(false))
      before.listen(port - 1, '127.0.0.1', () => resolve(true))
    })
    before.close()
    if (isFree) return { server, port }
    server.close()
  }
}

describe('polar engine', () => {
  const run = async (options: Readonly<Record<string, unknown>>, use: (url: string) => Promise<void> = async () => {}) => {
    const lines: string[] = []
    const errors: string[] = []
    const code = await runEngineCommand(options, {
      out: (line) => lines.push(line),
      error: (line) => errors.push(line),
      stopped: () => use(/http:\S+/.exec(lines[0]!)![0]),
    })
    return { code, lines, errors }
  }

  it('serves a script until it is stopped, and prints one line with its address', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'polar-engine-'))
    const path = join(folder, 'script.yaml')
    await writeFile(path, 'rules:\n  - choices: [{ text: From the file. }]\n')
    let answer: Answer | null = null
    let address = ''
    const { code, lines } = await run({ scripted: true, script: path, port: '0', model: 'mine', shape: 'sglang' }, async (url) => {
      address = url
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] }),
      })
      answer = (await response.json()) as Answer
    })
    await rm(folder, { recursive: true })
    expect(answer!.choices[0]!.message.content).toBe('From the file.')
    expect([code, lines]).toEqual([0, [`scripted engine (sglang) serving mine at ${address}`]])
    await expect(fetch(`${address}/health`)).rejects.toThrow()
  })

  it('generates without a script, and opens replicas', async () => {
    const { code, lines } = await run({ scripted: true, replicas: 2, fault: ['http-500:1'] }, async (url) => {
      const ask = () =>
        fetch(`${url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] }) })
      expect([(await ask()).status, (await ask()).status]).toEqual([500, 200])
    })
    expect([code, lines[0]!.match(/http:/g)]).toEqual([0, ['http:', 'http:']])
  })

  it.each([
    ['options of a script without one', { script: 'a.yaml', ttftMs: '1' }, /--script, --ttft-ms: only with --scripted/, 2],
    [
      'options of a model for a script',
      { scripted: true, modelPath: 'a.gguf', threads: '2' },
      /--model-path, --threads: not of a scripted engine/,
      2,
    ],
    ['a model that is not there', { modelPath: '/nowhere.gguf' }, /there is no file \/nowhere\.gguf/, 2],
    [
      'a model option out of range',
      { modelPath: '/nowhere.gguf', sequences: '0' },
      /--sequences: must be a whole number from 1 to 256$/,
      2,
    ],
    ['a port that is no number', { scripted: true, port: 'x' }, /--port: must be a whole number from 0 to 65535$/, 2],
    ['half a token', { scripted: true, maxModelLen: '0.5' }, /--max-model-len: must be a whole number from 1 on$/, 2],
    ['a model without a name', { model: '' }, /--model: must not be empty$/, 2],
    ['a shape of no engine', { shape: 'tgi' }, /--shape: must be vllm, sglang or llamacpp$/, 2],
    ['an option out of range', { scripted: true, maxModelLen: '0' }, /--max-model-len: /, 2],
    ['a script that is not there', { scripted: true, script: '/nowhere.yaml' }, /cannot read script \/nowhere\.yaml/, 2],
    ['an unknown fault', { scripted: true, fault: ['explode'] }, /there is no fault explode; there are hang, /, 2],
    ['an address of another machine', { scripted: true, host: '192.0.2.1' }, /192\.0\.2\.1 is no address of this machine/, 1],
  ])('says what is wrong: %s', async (_name, options, expected, exit) => {
    const { code, errors, lines } = await run(options)
    expect([code, lines]).toEqual([exit, []])
    expect(errors.join('\n')).toMatch(expected)
  })

  it('says that its port is in use, and leaves no other replica open', async () => {
    const { server, port } = await listenAfterFreePort()
    const { code, errors } = await run({ scripted: true, port: port - 1, replicas: 2 })
    server.close()
    expect(code).toBe(1)
    expect(errors[0]).toMatch(/port \d+ of 127\.0\.0\.1 is in use; choose another with --port/)
    await expect(fetch(`http://127.0.0.1:${port - 1}/health`)).rejects.toThrow()
  })

  it('names file and path of a script that is not valid', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'polar-engine-'))
    const path = join(folder, 'bad.yaml')
    await writeFile(path, 'rules:\n  - choices: [{ txt: x }]\n')
    const { code, errors } = await run({ scripted: true, script: path })
    await rm(folder, { recursive: true })
    expect([code, errors[0]]).toEqual([2, expect.stringContaining(path)])
    expect(errors[0]).toContain('rules[0].choices[0]')
  })
})
