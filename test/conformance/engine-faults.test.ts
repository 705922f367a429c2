import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { FAULT_NAMES, FAULTS, type FaultName } from '../../src/engine/scripted/faults.ts'

type Seen = {
  /** Null when no headers came. */
  readonly status: number | null
  readonly headers: IncomingMessage['headers']
  readonly text: string
  /** `ended`: as HTTP says an answer ends; `cut`: the connection broke; `open`: nothing more came. */
  readonly how: 'ended' | 'cut' | 'open'
  readonly pieces: number
}

type Logprobs = { readonly content: readonly { readonly logprob: number | null }[] }
type Choice = {
  readonly finish_reason: string | null
  readonly message: { readonly content: string | null }
  readonly logprobs: Logprobs
  readonly token_ids?: readonly number[] | null
  readonly prompt_token_ids?: readonly number[] | null
  readonly meta_info?: { readonly output_token_logprobs?: readonly (readonly [number | null, number])[] }
}
type Answer = {
  readonly choices: readonly Choice[]
  readonly prompt_token_ids?: readonly number[] | null
  readonly usage: { readonly completion_tokens: number }
}

const TEXT = 'One. Two. Three. Four.'
const BODY = {
  model: 'qwen3-scripted',
  messages: [{ role: 'user', content: 'hi' }],
  logprobs: true,
  return_token_ids: true,
  return_prompt_token_ids: true,
  return_meta_info: true,
}

/** The machine may be busy: what has to happen is waited for, not timed. */
const eventually = <T>(read: () => T) => expect.poll(read, { timeout: 20_000 })

/** One request over a raw socket. It stops looking once the engine has been seen to hang. */
async function look(engine: ScriptedEngine, body: object): Promise<Seen> {
  const request = httpRequest(`${engine.url}/v1/chat/completions`, { method: 'POST', agent: false })
  const asked = engine.requests().length + 1
  let headers: IncomingMessage | null = null
  const chunks: Buffer[] = []
  let pieces = 0
  const end = new Promise<Seen['how']>((resolve) => {
    request.on('error', () => resolve('cut'))
    request.on('response', (response) => {
      headers = response
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        pieces += 1
      })
      response.on('end', () => resolve('ended'))
      response.on('error', () => resolve('cut'))
    })
  })
  request.end(JSON.stringify(body))
  // A hang is seen when the engine answers a later question on another connection while this one is still without end.
  const hang = (async (): Promise<Seen['how']> => {
    await eventually(() => engine.requests().length).toBe(asked)
    const fault = engine.requests().at(-1)?.fault
    if (fault !== 'hang' && fault !== 'hang-headers') return end
    if (fault === 'hang-headers' && headers === null) await once(request, 'response')
    await fetch(`${engine.url}/health`)
    return 'open'
  })()
  const how = await Promise.race([end, hang])
  const answer = headers as IncomingMessage | null
  request.destroy()
  return { status: answer?.statusCode ?? null, headers: answer?.headers ?? {}, text: Buffer.concat(chunks).toString('utf8'), how, pieces }
}

const answerOf = (seen: Seen): Answer => JSON.parse(seen.text)
const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

describe.each(['vllm', 'sglang'] as const)('each fault does what its name says (%s)', (shape) => {
  let engine: ScriptedEngine
  beforeAll(async () => {
    engine = await openScriptedEngine({ shape, script: { rules: [{ choices: [{ text: TEXT }] }] } })
  })
  afterEach(() => engine.setFault(null))
  afterAll(() => engine.close())

  const strike = async (fault: FaultName, body: object = BODY) => {
    engine.setFault({ fault, times: 1 })
    const seen = await look(engine, body)
    await eventually(() => engine.requests().at(-1)?.fault).toBe(fault)
    return seen
  }
  const promptIdsOf = (answer: Answer) => (shape === 'vllm' ? answer.prompt_token_ids : answer.choices[0]!.prompt_token_ids) ?? null
  const sampledIdsOf = (answer: Answer) => answer.choices[0]!.token_ids ?? null
  const logprobsOf = (answer: Answer) =>
    shape === 'vllm'
      ? answer.choices[0]!.logprobs.content.map((entry) => entry.logprob)
      : (answer.choices[0]!.meta_info!.output_token_logprobs ?? []).map(([logprob]) => logprob)
  const intact = (seen: Seen) => {
    const answer = answerOf(seen)
    const { promptIds, sampledIds, logprobs } = engine.requests().at(-1)!
    expect([seen.status, seen.how, answer.choices[0]!.finish_reason]).toEqual([200, 'ended', 'stop'])
    expect([promptIdsOf(answer), sampledIdsOf(answer), logprobsOf(answer)]).toEqual([promptIds, sampledIds, logprobs])
  }

  const claims: { readonly [K in FaultName]: (seen: Seen) => void } = {
    hang: (seen) => expect([seen.status, seen.how]).toEqual([null, 'open']),
    'hang-headers': (seen) => expect([seen.status, seen.text, seen.how]).toEqual([200, '', 'open']),
    reset: (seen) => expect([seen.status, seen.how]).toEqual([null, 'cut']),
    'reset-before-body': (seen) =>
      expect([seen.status, seen.headers['content-type'], seen.text, seen.how]).toEqual([200, 'application/json', '', 'cut']),
    'reset-in-body': (seen) => {
      expect([seen.status, seen.how]).toEqual([200, 'cut'])
      expect(seen.text).toMatch(/^\{"id":/)
      expect(isJson(seen.text)).toBe(false)
    },
    'http-400': (seen) => expect([seen.status, isJson(seen.text)]).toEqual([400, true]),
    'http-429': (seen) => expect([seen.status, seen.headers['retry-after']]).toEqual([429, '1']),
    'http-500': (seen) => expect([seen.status, isJson(seen.text)]).toEqual([500, true]),
    'http-503': (seen) => expect([seen.status, isJson(seen.text)]).toEqual([503, true]),
    'garbage-json': (seen) => expect([seen.status, seen.how, isJson(seen.text)]).toEqual([200, 'ended', false]),
    'truncated-json': (seen) => {
      expect([seen.status, seen.how, isJson(seen.text)]).toEqual([200, 'ended', false])
      expect(seen.text).toMatch(/^\{"id":/)
    },
    'missing-prompt-ids': (seen) => {
      const answer = answerOf(seen)
      expect([promptIdsOf(answer), sampledIdsOf(answer)]).toEqual([null, engine.requests().at(-1)!.sampledIds])
    },
    'missing-token-ids': (seen) => {
      const answer = answerOf(seen)
      expect([promptIdsOf(answer), sampledIdsOf(answer)]).toEqual([engine.requests().at(-1)!.promptIds, null])
      expect(answer.choices[0]!.meta_info?.output_token_logprobs).toBeUndefined()
    },
    'unequal-lengths': (seen) => {
      const answer = answerOf(seen)
      expect(sampledIdsOf(answer)).toHaveLength(answer.usage.completion_tokens)
      expect(logprobsOf(answer)).toHaveLength(answer.usage.completion_tokens - 1)
    },
    'nan-logprob': (seen) => {
      expect(isJson(seen.text)).toBe(false)
      expect(logprobsOf(JSON.parse(seen.text.replaceAll('NaN', '"nan"')))).toContain('nan')
    },
    'null-logprob': (seen) => expect(logprobsOf(answerOf(seen)).filter((logprob) => logprob === null)).toHaveLength(1),
    'positive-logprob': (seen) => expect(logprobsOf(answerOf(seen)).filter((logprob) => logprob === 0.5)).toHaveLength(1),
    abort: (seen) => {
      const answer = answerOf(seen)
      const { sampledIds } = engine.requests().at(-1)!
      expect(answer.choices[0]!.finish_reason).toBe('abort')
      expect(sampledIdsOf(answer)).toEqual(sampledIds)
      expect(TEXT.startsWith(answer.choices[0]!.message.content!)).toBe(true)
      expect(answer.choices[0]!.message.content).not.toBe(TEXT)
    },
    'missing-finish-reason': (seen) => {
      const answer = answerOf(seen)
      expect([answer.choices[0]!.finish_reason, answer.choices[0]!.message.content]).toEqual([null, TEXT])
    },
    'slow-bytes': (seen) => {
      intact(seen)
      expect(seen.pieces).toBeGreaterThan(10)
    },
    'empty-choices': (seen) => expect(answerOf(seen).choices).toEqual([]),
  }

  it.each(FAULT_NAMES)('%s', async (fault) => {
    expect(FAULTS[fault].doc).toMatch(/\.$/)
    claims[fault](await strike(fault))
    intact(await look(engine, BODY))
  })

  const stream = { model: BODY.model, messages: BODY.messages, stream: true }
  const eventsOf = (seen: Seen) =>
    seen.text
      .split('\n\n')
      .filter((event) => event !== '')
      .map((event) => event.replace('data: ', ''))
  const isWhole = (seen: Seen) => eventsOf(seen).at(-1) === '[DONE]'

  it.each<[FaultName, (seen: Seen) => void]>([
    ['reset-in-body', (seen) => expect([seen.how, isWhole(seen), seen.text.length > 0]).toEqual(['cut', false, true])],
    ['truncated-json', (seen) => expect([seen.how, isWhole(seen), seen.text.length > 0]).toEqual(['ended', false, true])],
    ['garbage-json', (seen) => expect(eventsOf(seen).slice(0, -1).some(isJson)).toBe(false)],
    ['slow-bytes', (seen) => expect([seen.how, isWhole(seen), seen.pieces > 20]).toEqual(['ended', true, true])],
    ['abort', (seen) => expect(eventsOf(seen).at(-2)).toContain('"finish_reason":"abort"')],
    ['missing-finish-reason', (seen) => expect(seen.text).not.toMatch(/"finish_reason":"/)],
    ['http-503', (seen) => expect(seen.status).toBe(503)],
  ])('%s strikes a stream too', async (fault, claim) => {
    claim(await strike(fault, stream))
  })

  it('a hanging request whose client leaves is logged as cancelled', async () => {
    await strike('hang')
    await eventually(() => engine.requests().at(-1)).toMatchObject({ fault: 'hang', cancelled: true, status: null })
  })

  it('faults are set, listed and cleared over HTTP', async () => {
    const faults = (method: string, body?: object) =>
      fetch(`${engine.url}/scripted/faults`, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
    expect((await faults('POST', { fault: 'http-500', times: 1 })).status).toBe(200)
    const listed = (await (await faults('GET')).json()) as { active: unknown; menu: { fault: string }[] }
    expect(listed.active).toEqual([{ fault: 'http-500', times: 1, every: 1, after: 0 }])
    expect(listed.menu.map((entry) => entry.fault)).toEqual(FAULT_NAMES)
    expect((await look(engine, BODY)).status).toBe(500)
    expect((await look(engine, BODY)).status).toBe(200)

    const wrong = await faults('POST', { fault: 'explode' })
    expect([wrong.status, await wrong.text()]).toEqual([400, expect.stringContaining('fault')])
    await faults('POST', { fault: 'http-500' })
    await faults('DELETE')
    expect((await look(engine, BODY)).status).toBe(200)
  })
})
