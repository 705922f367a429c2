// Google answers: the plain response, the two streams that say the same, beats, the envelopes of failures, and models.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ChatAnswer } from '../../src/proxy/chat.ts'
import { google } from '../../src/proxy/dialects/google/dialect.ts'
import { signatureOf } from '../../src/proxy/dialects/signature.ts'
import { type FailureCode, failure } from '../../src/proxy/failure.ts'
import { ANSWERS, answer, toolCall } from '../lib/dialect-answers.ts'

const identity = { id: 'ab'.repeat(16), createdSeconds: 1_700_000_000, model: 'gemini-asked' }
const signature = signatureOf(identity.id)

function reply(form: 'plain' | 'events' | 'array', generationConfig: object = {}) {
  const read = google.read({ contents: 'q', generationConfig }, { tier: 'eval', pins: {}, url: { model: 'gemini-asked', form } })
  if (!read.ok) throw new Error(read.failure.message)
  return read.reply
}

type Part = { readonly text?: string; readonly thought?: boolean; readonly thoughtSignature?: string; readonly functionCall?: object }
type Response = {
  readonly candidates: readonly {
    readonly content: { readonly role: string; readonly parts: readonly Part[] }
    readonly finishReason?: string
  }[]
  readonly usageMetadata?: object
}

const plain = (given: ChatAnswer, generationConfig?: object): Response =>
  JSON.parse(reply('plain', generationConfig).plain(given, identity))
const partsOf = (response: Response) => response.candidates[0]?.content.parts ?? []
const eventsOf = (frames: Iterable<string>): readonly Response[] =>
  [...frames].map((frame) => {
    expect(frame).toMatch(/^data: [^\n]+\n\n$/)
    return JSON.parse(frame.slice('data: '.length))
  })

/** Neighbouring pieces of one text put together, as clients do. */
function joined(parts: readonly Part[]): readonly Part[] {
  const found: Part[] = []
  for (const part of parts) {
    const last = found.at(-1)
    if (part.text !== undefined && last?.text !== undefined && last.thought === part.thought) {
      found[found.length - 1] = { ...last, text: last.text + part.text }
    } else found.push(part)
  }
  return found
}

function agree(given: ChatAnswer): void {
  const expected = plain(given)
  const stream = reply('events').stream(identity)
  const events = eventsOf(stream.answer(given))
  const array = reply('array').stream(identity)
  const elements: readonly Response[] = JSON.parse([array.open(null), array.beat(), array.beat(), ...array.answer(given)].join(''))
  expect(elements).toEqual(events)
  expect(joined(events.flatMap(partsOf))).toEqual(joined(partsOf(expected)))
  const { content: _content, ...ending } = events.at(-1)?.candidates[0] ?? { content: null }
  const { content: _whole, ...end } = expected.candidates[0] ?? { content: null }
  expect([ending, events.at(-1)?.usageMetadata]).toEqual([end, expected.usageMetadata])
  for (const event of events) {
    expect(event).toMatchObject({
      modelVersion: 'gemini-asked',
      responseId: identity.id,
      candidates: [{ index: 0, content: { role: 'model' } }],
    })
    expect(partsOf(event)).toHaveLength(1)
  }
  for (const event of events.slice(0, -1)) {
    expect(event).not.toHaveProperty('usageMetadata')
    expect(event.candidates[0]).not.toHaveProperty('finishReason')
  }
}

describe('the streams', () => {
  it.each(Object.entries(ANSWERS))('say what the plain answer says: %s', (_name, given) => agree(given))

  it('and the plain answer agree for any texts', () => {
    const text = fc.string({ unit: 'binary', maxLength: 40 })
    fc.assert(
      fc.property(fc.option(text), text, fc.array(text, { maxLength: 3 }), (content, reasoning, args) => {
        const calls = args.map((each, index) => toolCall(`c${index}`, JSON.stringify({ each })))
        agree(
          answer({
            content,
            ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
            ...(calls.length === 0 ? {} : { tool_calls: calls }),
          }),
        )
      }),
    )
  })

  it('of events never have a terminator, and every call is complete in one part', () => {
    const given = ANSWERS.everything ?? answer({})
    const frames = [...reply('events').stream(identity).answer(given)]
    expect(frames.join('')).not.toContain('[DONE]')
    expect(frames).toHaveLength(4)
    expect(eventsOf(frames).flatMap(partsOf).slice(2)).toEqual([
      { functionCall: { id: 'call_a', name: 'edit', args: { x: { y: [1, null, 'z'] } } }, thoughtSignature: signature },
      { functionCall: { id: 'call_b', name: 'edit', args: {} } },
    ])
  })

  it('ST-01: beat with data that says nothing, and the array with white space', () => {
    const events = reply('events').stream(identity)
    expect(events.open(null)).toBe('')
    const [beat] = eventsOf([events.beat()])
    // Not empty: a response without parts makes Google's own chat sessions forget the whole turn.
    expect(beat && partsOf(beat)).toEqual([{ text: '', thought: true }])
    expect(beat?.candidates[0]).not.toHaveProperty('finishReason')
    const array = reply('array').stream(identity)
    expect([array.open(null), array.beat()]).toEqual(['[', '\n'])
  })

  it('tell a failure as an error object, which ends the array too', () => {
    const reason = failure('engine-timeout', 'too late')
    const error = { error: { code: 504, message: 'too late', status: 'DEADLINE_EXCEEDED' } }
    expect(eventsOf([reply('events').stream(identity).failure(reason) ?? ''])).toEqual([error])
    const array = reply('array').stream(identity)
    expect(JSON.parse(array.open(null) + array.beat() + array.failure(reason))).toEqual([error])
    const late = reply('array').stream(identity)
    const [first = ''] = late.answer(ANSWERS.everything ?? answer({}))
    expect(JSON.parse(late.open(null) + first + late.failure(reason))).toMatchObject([{ modelVersion: 'gemini-asked' }, error])
  })
})

describe('a plain answer', () => {
  it('has all that clients look for', () => {
    const usage = { promptTokens: 9, completionTokens: 8, cachedTokens: 4, reasoningTokens: 3 }
    expect(plain(answer({ reasoning_content: 'R', content: 'T', tool_calls: [toolCall('c', '{"a":1}')] }, { usage }))).toEqual({
      candidates: [
        {
          content: {
            role: 'model',
            parts: [
              { text: 'R', thought: true },
              { text: 'T' },
              { functionCall: { id: 'c', name: 'edit', args: { a: 1 } }, thoughtSignature: signature },
            ],
          },
          finishReason: 'STOP',
          index: 0,
        },
      ],
      usageMetadata: {
        promptTokenCount: 9,
        candidatesTokenCount: 5,
        totalTokenCount: 17,
        thoughtsTokenCount: 3,
        cachedContentTokenCount: 4,
      },
      modelVersion: 'gemini-asked',
      responseId: identity.id,
    })
  })

  it('says nothing of tokens that the engine did not tell apart', () => {
    const usage = { promptTokens: 9, completionTokens: 8, cachedTokens: null, reasoningTokens: null }
    expect(plain(answer({ content: 'T' }, { usage })).usageMetadata).toEqual({
      promptTokenCount: 9,
      candidatesTokenCount: 8,
      totalTokenCount: 17,
    })
  })

  it.each([
    ['stop', 'STOP'],
    ['tool_calls', 'STOP'],
    ['length', 'MAX_TOKENS'],
    ['content_filter', 'SAFETY'],
  ] as const)('that ended with %s ended with %s', (finishReason, told) => {
    expect(plain(answer({ content: 'T' }, { finishReason })).candidates[0]?.finishReason).toBe(told)
  })

  it.each([
    ['nothing at all', answer({ content: null }), []],
    ['an empty text', answer({ content: '' }), []],
    [
      'TO-08: reasoning alone, a call swallowed in it',
      answer({ reasoning_content: 'think <tool_call>{"name":"f"}</tool_call>', tool_calls: [] }),
      [{ text: 'think <tool_call>{"name":"f"}</tool_call>', thought: true }],
    ],
  ])('of %s is a valid candidate with one empty text and a finish', (_name, given, before) => {
    const candidate = {
      content: { role: 'model', parts: [...before, { text: '', thoughtSignature: signature }] },
      finishReason: 'STOP',
      index: 0,
    }
    expect(plain(given).candidates).toEqual([candidate])
    const events = eventsOf(reply('events').stream(identity).answer(given))
    expect(events.flatMap(partsOf)).toEqual(candidate.content.parts)
    expect(events.at(-1)?.candidates[0]?.finishReason).toBe('STOP')
  })

  it.each([
    ['{"path": "a', {}],
    ['', {}],
    ['[1]', {}],
    ['7', {}],
    ['null', {}],
    ['{"__proto__": {"a": 1}}', JSON.parse('{"__proto__": {"a": 1}}')],
  ])('has an object for the arguments %j, the same in the stream', (args, told) => {
    const given = answer({ tool_calls: [toolCall('c', args)] })
    const expected = [{ functionCall: { id: 'c', name: 'edit', args: told }, thoughtSignature: signature }]
    expect(partsOf(plain(given))).toEqual(expected)
    expect(eventsOf(reply('events').stream(identity).answer(given)).flatMap(partsOf)).toEqual(expected)
  })

  it('tells numbers with the digits they were sampled with', () => {
    const given = answer({ tool_calls: [toolCall('c', '{"id": 12345678901234567890, "x": 1.0, "y": 1e400}')] })
    const args = '"args":{"id":12345678901234567890,"x":1.0,"y":1e400}'
    expect(reply('plain').plain(given, identity)).toContain(args)
    expect([...reply('events').stream(identity).answer(given)].join('')).toContain(args)
  })

  it('keeps thoughts from a client that turned them off, in both forms, and only from it', () => {
    const given = answer({ reasoning_content: 'R', content: 'T' })
    for (const [config, isShown] of [
      [{ thinkingConfig: { includeThoughts: false } }, false],
      [{ thinkingConfig: { includeThoughts: true } }, true],
      [{}, true],
    ] as const) {
      const parts = [...(isShown ? [{ text: 'R', thought: true }] : []), { text: 'T', thoughtSignature: signature }]
      expect(partsOf(plain(given, config))).toEqual(parts)
      expect(eventsOf(reply('events', config).stream(identity).answer(given)).flatMap(partsOf)).toEqual(parts)
    }
  })

  it('signs the last part, and every piece of a text that is cut', () => {
    const given = answer({ reasoning_content: 'R', content: 'x'.repeat(20_000) })
    expect(partsOf(plain(given)).map((part) => part.thoughtSignature)).toEqual([undefined, signature])
    const parts = eventsOf(reply('events').stream(identity).answer(given)).flatMap(partsOf)
    expect(parts.length).toBeGreaterThan(3)
    expect(parts.map((part) => part.thoughtSignature ?? null)).toEqual(parts.map((part) => (part.thought === true ? null : signature)))
  })

  it('has logprobs for a client that asked, and for no other', () => {
    const top = [
      { token: 'x', logprob: -1, bytes: null },
      { token: 'y', logprob: -2, bytes: null },
    ]
    const given = answer(
      { content: 'x' },
      {
        logprobs: [
          { token: 'x', logprob: -1, bytes: null, top_logprobs: top },
          { token: 'z', logprob: -3 },
        ],
      },
    )
    expect(plain(given, { responseLogprobs: true }).candidates[0]).toMatchObject({
      avgLogprobs: -2,
      logprobsResult: {
        chosenCandidates: [
          { token: 'x', logProbability: -1 },
          { token: 'z', logProbability: -3 },
        ],
        topCandidates: [
          {
            candidates: [
              { token: 'x', logProbability: -1 },
              { token: 'y', logProbability: -2 },
            ],
          },
          { candidates: [] },
        ],
      },
    })
    expect(JSON.stringify(plain(given))).not.toMatch(/logprob/i)
    expect(JSON.stringify(plain(answer({ content: 'x' }), { responseLogprobs: true }))).not.toMatch(/logprob/i)
  })
})

describe('a failure', () => {
  it.each([
    ['malformed-json', 400, 'INVALID_ARGUMENT'],
    ['invalid-request', 400, 'INVALID_ARGUMENT'],
    ['unauthenticated', 401, 'UNAUTHENTICATED'],
    ['forbidden', 403, 'PERMISSION_DENIED'],
    ['route-unknown', 404, 'NOT_FOUND'],
    ['too-large', 413, 'INVALID_ARGUMENT'],
    ['upgrade-required', 426, 'FAILED_PRECONDITION'],
    ['overloaded', 429, 'RESOURCE_EXHAUSTED'],
    ['gateway-error', 500, 'INTERNAL'],
    ['engine-failed', 502, 'UNAVAILABLE'],
    ['engine-aborted', 503, 'UNAVAILABLE'],
    ['engine-timeout', 504, 'DEADLINE_EXCEEDED'],
    ['cancelled', 499, 'CANCELLED'],
  ] as const satisfies readonly (readonly [FailureCode, number, string])[])('%s has status %i and says %s', (code, status, told) => {
    const written = google.failure(failure(code, 'why', { param: 'p' }))
    expect([written.status, JSON.parse(written.body)]).toEqual([status, { error: { code: status, message: 'why', status: told } }])
    expect(written.headers['content-type']).toBe('application/json')
  })

  it('TO-06: of a prompt that is too long says so in the words that agents know', () => {
    const written = google.failure(failure('context-overflow', 'maximum context length is 32768 tokens, you requested 45000'))
    expect([written.status, JSON.parse(written.body)]).toEqual([
      400,
      {
        error: {
          code: 400,
          message: 'The input token count (45000) exceeds the maximum number of tokens allowed (32768).',
          status: 'INVALID_ARGUMENT',
        },
      },
    ])
  })

  it('says when to come back, in the header and in the body', () => {
    const written = google.failure(failure('overloaded', 'x', { retryAfterMs: 2_500 }))
    expect(written.headers['retry-after']).toBe('3')
    expect(JSON.parse(written.body).error.details).toEqual([{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '2.5s' }])
  })
})

describe('models', () => {
  const entry = { id: 'Qwen/Qwen3-8B', createdSeconds: 0, maxModelLen: 40_960 }
  const told = {
    name: 'models/Qwen/Qwen3-8B',
    baseModelId: 'Qwen/Qwen3-8B',
    version: '1',
    displayName: 'Qwen/Qwen3-8B',
    inputTokenLimit: 40_960,
    outputTokenLimit: 40_960,
    supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
  }
  it('are told as a list and one by one, with limits only where they are known', () => {
    expect(JSON.parse(google.modelList([entry]))).toEqual({ models: [told] })
    expect(JSON.parse(google.modelItem(entry))).toEqual(told)
    const { inputTokenLimit: _input, outputTokenLimit: _output, ...unlimited } = told
    expect(JSON.parse(google.modelItem({ ...entry, maxModelLen: null }))).toEqual(unlimited)
  })
})
