// A streamed generation is captured field by field as the plain one, wherever its bytes are cut, and nothing is told that its end takes back.
import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { answerDeltas } from '../../src/engine/wire/deltas.ts'
import type { AnswerPart, GeneratedChoice, Generation } from '../../src/engine/wire/generation.ts'
import { generated, generatedStream, generateSchema } from '../../src/engine/wire/sglang-generate.ts'
import type { StreamWriter } from '../../src/engine/wire/shape.ts'
import { vllm as vllmShape } from '../../src/engine/wire/vllm.ts'
import type { Engine, EngineOutcome, EngineRequest, HttpRequest, Send } from '../../src/proxy/engines/engine.ts'
import { sglangNative } from '../../src/proxy/engines/sglang-native.ts'
import { vllm } from '../../src/proxy/engines/vllm.ts'
import type { AnswerDelta } from '../../src/proxy/live/answer-delta.ts'
import '../lib/property-seed.ts'

/** Where a stream's bytes are cut, and how many tokens each event holds. */
type Cutting = { readonly cuts: readonly number[]; readonly tokensPerChunk: number }

const cutting: fc.Arbitrary<Cutting> = fc.record({
  cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 40 }),
  tokensPerChunk: fc.integer({ min: 1, max: 5 }),
})

function cutAt(bytes: Uint8Array, { cuts }: Cutting): readonly Uint8Array[] {
  const places = [0, ...cuts.map((cut) => Math.floor(cut * bytes.length)).sort((one, other) => one - other), bytes.length]
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end))
}

const words = fc.string({ unit: 'grapheme', maxLength: 12 })
const logprob = fc.oneof(
  { weight: 40, arbitrary: fc.double({ min: -20, max: 0, noNaN: true }) },
  { weight: 1, arbitrary: fc.constant(null) },
)

/** Tokens that cut a text anywhere between its characters. */
function choiceOf(text: string, parts: readonly AnswerPart[]): fc.Arbitrary<GeneratedChoice> {
  const whole: number[] = []
  for (const character of text) whole.push((whole.at(-1) ?? 0) + character.length)
  return fc
    .record({
      ends: fc.subarray(whole.slice(0, -1)),
      ids: fc.array(fc.nat(150_000), { minLength: whole.length + 1, maxLength: whole.length + 1 }),
      logprobs: fc.array(logprob, { minLength: whole.length + 1, maxLength: whole.length + 1 }),
      finish: fc.constantFrom('stop', 'stop', 'length', 'abort', null),
      matchedStop: fc.constantFrom(null, 'STOP', 7),
      showsIds: fc.integer({ max: 9 }).map((dice) => dice < 9),
    })
    .map(({ ends, ids, logprobs, finish, matchedStop, showsIds }) => {
      const tokens = [...ends, text.length].map((textEnd, index) => ({ id: ids[index] ?? 0, text: 't', textEnd, endsWhole: true }))
      const calls = parts.filter(({ kind }) => kind === 'tool-call')
      return {
        index: 0,
        tokens,
        logprobs: logprobs.slice(0, tokens.length),
        alternatives: [],
        text,
        parts,
        finish,
        matchedStop,
        toolCallIds: calls.map((_call, index) => `call_${index}`),
        showsIds,
      }
    })
}

function generationOf(choice: GeneratedChoice): Generation {
  return {
    id: 'g',
    createdSeconds: 1,
    model: 'policy',
    promptIds: [11, 12],
    cachedTokens: 1,
    showsPromptIds: true,
    choices: [choice],
    weightVersion: 'v1',
    latencySeconds: 1,
  }
}

type Piece = {
  readonly lead: string
  readonly text: string
  readonly tail: string
  readonly part: (start: number, end: number) => AnswerPart
}

/** An answer as the engine's own parser has read it: markup stands between its parts. */
const parsedAnswers: fc.Arbitrary<GeneratedChoice> = fc
  .record({
    reasoning: words,
    content: words,
    calls: fc.array(
      fc.tuple(
        fc.constantFrom('edit', 'list'),
        fc.oneof(
          fc.dictionary(words, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 }).map((value) => JSON.stringify(value)),
          fc.constant('{"cut": "'),
          fc.constant(''),
        ),
      ),
      { maxLength: 3 },
    ),
  })
  .chain(({ reasoning, content, calls }) => {
    const said = (kind: 'reasoning' | 'content', text: string, lead: string, tail: string): readonly Piece[] =>
      text === '' ? [] : [{ lead, text, tail, part: (start, end) => ({ kind, start, end, text }) }]
    const pieces: readonly Piece[] = [
      ...said('reasoning', reasoning, '<think>', '</think>'),
      ...said('content', content, '', ''),
      ...calls.map(
        ([name, text]): Piece => ({
          lead: `<tool_call>${name}`,
          text,
          tail: '</tool_call>',
          part: (start, end) => ({ kind: 'tool-call', start, end, name, arguments: text, argumentsStart: start }),
        }),
      ),
    ]
    let text = ''
    const parts = pieces.map(({ lead, text: inner, tail, part }) => {
      const start = text.length + lead.length
      text += lead + inner + tail
      const told = part(start, start + inner.length)
      return told.kind === 'tool-call' ? { ...told, start: start - lead.length, end: text.length } : told
    })
    return choiceOf(text, parts)
  })

/** Any mixture of words and of what a model's markup is made of. */
const sampledTexts = fc
  .array(
    fc.oneof(
      words,
      fc.constantFrom('<think>', '</think>', '<tool_call>', '</tool_call>', '\n', '\n\n', ' ', 'STOP', 'ST', '\ufffd'),
      fc.constantFrom('<function=edit>', '<parameter=x>1</parameter>', '</function>', '{"name": "edit", "arguments": {"x": 1}}', '<', '{'),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''))

function streamOf(generation: Generation, writer: StreamWriter, { tokensPerChunk }: Cutting): readonly object[] {
  const grown = [...answerDeltas(generation.choices, tokensPerChunk)].flatMap(({ choice, delta }) =>
    writer.delta(generation, choice, delta),
  )
  return [...writer.opening(generation), ...grown, ...writer.closing(generation)]
}

function bytesOf(events: readonly object[]): Uint8Array {
  return Buffer.from(`${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`)
}

/** A server that answers in the form it is asked for. */
function serve(whole: (request: unknown) => object, events: (request: unknown) => readonly object[], cut: Cutting): Send {
  return async ({ body }: HttpRequest, follow) => {
    const request = JSON.parse(body ?? '')
    const head = { status: 200, headers: { 'content-type': request.stream === true ? 'text/event-stream' : 'application/json' } }
    if (request.stream !== true) return { ok: true, response: { ...head, body: Buffer.from(JSON.stringify(whole(request))) } }
    for (const piece of cutAt(bytesOf(events(request)), cut)) follow?.(piece)
    return { ok: true, response: { ...head, body: new Uint8Array() } }
  }
}

async function both(engine: Engine, request: EngineRequest, send: Send) {
  const told: AnswerDelta[] = []
  const plain = await engine.generate(request, send)
  const streamed = await engine.stream?.(request, send, (delta) => told.push(delta))
  return { plain, streamed, told }
}

function expectPrefix(told: readonly AnswerDelta[], outcome: EngineOutcome | undefined): void {
  if (outcome?.type !== 'answer') return
  const { message } = outcome.answer
  const said = { reasoning: '', content: '', calls: [] as { id: string; name: string; arguments: string }[] }
  for (const delta of told) {
    if (delta.type === 'reasoning' || delta.type === 'content') said[delta.type] += delta.text
    else if (delta.type === 'call') said.calls.push({ id: delta.id, name: delta.name, arguments: delta.arguments })
    else said.calls.splice(-1, 1, ...said.calls.slice(-1).map((call) => ({ ...call, arguments: call.arguments + delta.text })))
  }
  expect((message.reasoning_content ?? '').startsWith(said.reasoning)).toBe(true)
  expect((message.content ?? '').startsWith(said.content)).toBe(true)
  const known = (message.tool_calls ?? []).map(({ id, function: called }) => ({ id, ...called }))
  for (const [index, call] of said.calls.entries()) {
    const whole = known[index]
    expect(whole).toMatchObject({ id: call.id, name: call.name })
    if (index < said.calls.length - 1) expect(whole?.arguments).toBe(call.arguments)
    else expect(whole?.arguments.startsWith(call.arguments)).toBe(true)
  }
}

const MESSAGES = [{ role: 'user', content: 'hi' }] as const
const TOOLS = [{ type: 'function', function: { name: 'edit' } }] as const

describe('a streamed generation', () => {
  it('of vLLM is captured as the plain one', async () => {
    const request: EngineRequest = {
      prompt: { kind: 'messages', messages: MESSAGES, tools: TOOLS },
      parameters: {},
      model: 'policy',
      topLogprobs: 0,
      format: { reasoning: 'think-tags', opensThinking: false, calls: 'json' },
    }
    await fc.assert(
      fc.asyncProperty(parsedAnswers, cutting, async (choice, cut) => {
        const generation = generationOf(choice)
        const send = serve(
          (asked) => vllmShape.completion(generation, asked as never),
          (asked) => streamOf(generation, vllmShape.stream(asked as never), cut),
          cut,
        )
        const { plain, streamed, told } = await both(vllm, request, send)
        expect(streamed).toEqual(plain)
        expectPrefix(told, streamed)
      }),
      { numRuns: 300 },
    )
  })

  it.each([
    ['all so far with every event', false],
    ['what each step has added', true],
  ])('of SGLang that holds %s is captured as the plain one', async (_name, isIncremental) => {
    const cases = fc.record({
      choice: sampledTexts.chain((text) => choiceOf(text, [])),
      calls: fc.constantFrom('json', 'xml', 'none'),
      reasoning: fc.constantFrom('think-tags', 'none'),
      opensThinking: fc.boolean(),
      hasTools: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(cases, cutting, async ({ choice, calls, reasoning, opensThinking, hasTools }, cut) => {
        const generation = generationOf({ ...choice, showsIds: isIncremental || choice.showsIds })
        const request: EngineRequest = {
          prompt: { kind: 'token-ids', ids: [11, 12], messages: MESSAGES, tools: hasTools ? TOOLS : null },
          parameters: { stop: ['STOP'] },
          model: 'policy',
          topLogprobs: 0,
          format: { reasoning, opensThinking, calls },
        }
        const send = serve(
          (asked) => generated(generation, generateSchema.parse(asked)),
          (asked) => {
            const events = streamOf(generation, generatedStream(generateSchema.parse(asked)), cut)
            return isIncremental ? events.map((event, index) => additionTo(events[index - 1], event)) : events
          },
          cut,
        )
        const { plain, streamed, told } = await both(sglangNative, request, send)
        expect(streamed).toEqual(plain)
        expectPrefix(told, streamed)
      }),
      { numRuns: 500 },
    )
  })
})

/** As a server with `--incremental-streaming-output` writes it. */
function additionTo(before: object | undefined, event: object): object {
  type Event = { text: string; output_ids: unknown[]; meta_info: { output_token_logprobs: unknown[] } }
  const [earlier, now] = [before as Event | undefined, event as Event]
  if (earlier === undefined) return event
  return {
    ...now,
    text: now.text.slice(earlier.text.length),
    output_ids: now.output_ids.slice(earlier.output_ids.length),
    meta_info: { ...now.meta_info, output_token_logprobs: now.meta_info.output_token_logprobs.slice(earlier.output_ids.length) },
  }
}
