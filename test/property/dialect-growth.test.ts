// An answer told as it grows is, for its client, the answer that is told all at once, wherever it is cut and however much of it came early.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ChatAnswer } from '../../src/proxy/chat.ts'
import type { AnswerDelta } from '../../src/proxy/live/answer-delta.ts'
import { ANSWERS, saidOf } from '../lib/dialect-answers.ts'
import { answers } from '../lib/dialect-arbitraries.ts'
import { type NeutralRequest, REQUESTS } from '../lib/dialect-cases.ts'
import { type Codec, encode } from '../lib/dialect-codec.ts'
import { anthropicCodec } from '../lib/dialect-codecs/anthropic.ts'
import { googleCodec } from '../lib/dialect-codecs/google.ts'
import { chatCodec } from '../lib/dialect-codecs/openai-chat.ts'
import { responsesCodec } from '../lib/dialect-codecs/openai-responses.ts'
import '../lib/property-seed.ts'

const CODECS: readonly Codec[] = [chatCodec, responsesCodec, anthropicCodec, googleCodec]
const ASKED = REQUESTS['a user alone'] as NeutralRequest
const identity = { id: 'ab'.padStart(32, '0'), createdSeconds: 1_700_000_000, model: 'm' }

function formOf(codec: Codec) {
  const read = codec.dialect.read(encode(codec, ASKED, true), { tier: 'eval', pins: {}, url: codec.url(true) })
  if (!read.ok) throw new Error(read.failure.message)
  return read.reply
}

/** How an answer grows: the lengths of its pieces, used over and over, and how many of the pieces come before its end. */
type Growth = { readonly lengths: readonly number[]; readonly early: number }

const growth: fc.Arbitrary<Growth> = fc.record({
  lengths: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }),
  early: fc.double({ min: 0, max: 1, noNaN: true }),
})

function grown({ message }: ChatAnswer, { lengths, early }: Growth): readonly AnswerDelta[] {
  let turn = 0
  const cut = (text: string): readonly string[] => {
    const characters = [...text]
    const cuts: string[] = []
    while (characters.length > 0) {
      cuts.push(characters.splice(0, lengths[turn % lengths.length] ?? 1).join(''))
      turn += 1
    }
    return cuts
  }
  const all: AnswerDelta[] = [
    ...cut(message.reasoning_content ?? '').map((text) => ({ type: 'reasoning' as const, text })),
    ...cut(message.content ?? '').map((text) => ({ type: 'content' as const, text })),
    ...(message.tool_calls ?? []).flatMap(({ id, function: { name, arguments: args } }): readonly AnswerDelta[] => {
      const [first = '', ...rest] = cut(args)
      return [{ type: 'call', id, name, arguments: first }, ...rest.map((text) => ({ type: 'arguments' as const, text }))]
    }),
  ]
  return all.slice(0, Math.round(all.length * early))
}

function live(codec: Codec, answer: ChatAnswer, how: Growth): string {
  const stream = formOf(codec).stream(identity)
  const frames = [stream.open(null)]
  for (const delta of grown(answer, how)) frames.push(stream.delta(delta), stream.beat())
  return [...frames, ...stream.answer(answer)].join('')
}

/** What the client would send back. */
function returned(codec: Codec, stream: string) {
  const items = JSON.parse(JSON.stringify(codec.returned(codec.fold(stream))))
  const read = codec.dialect.read(codec.request(ASKED, items, true), { tier: 'eval', pins: {}, url: codec.url(true) })
  return read.ok ? read.call.request.messages : read.failure
}

describe.each(CODECS.map((codec) => [codec.dialect.name, codec] as const))('%s', (_name, codec) => {
  const tellsTheSame = (answer: ChatAnswer, how: Growth): void => {
    const early = live(codec, answer, how)
    const stream = formOf(codec).stream(identity)
    const whole = [stream.open(answer), ...stream.answer(answer)].join('')
    expect(codec.said(codec.fold(early))).toEqual(saidOf(answer))
    expect(returned(codec, early)).toEqual(returned(codec, whole))
  }

  it.each(Object.entries(ANSWERS))('tells %s as it grows', (_case, answer) => {
    for (const early of [0, 0.5, 1]) tellsTheSame(answer, { lengths: [1, 700], early })
  })

  it('tells any answer, however it grows', () => {
    fc.assert(fc.property(answers(), growth, tellsTheSame))
  })

  it('tells text before it is whole', () => {
    const stream = formOf(codec).stream(identity)
    const told = stream.open(null) + stream.delta({ type: 'content', text: 'early' }) + stream.delta({ type: 'content', text: 'late' })
    expect(told).toContain('early')
  })
})
