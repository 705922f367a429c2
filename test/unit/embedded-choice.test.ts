// A choice as it is drawn: its text never shows half a character, its end is the right one, and its deltas add up to its message.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openAnswerDeltas } from '../../src/engine/embedded/answer-deltas.ts'
import { type ChoiceOrder, openGrowingChoice } from '../../src/engine/embedded/growing-choice.ts'
import { openGrowingText } from '../../src/engine/embedded/growing-text.ts'
import { parseAnswer } from '../../src/engine/serve/answer-text.ts'
import { textOf } from '../../src/engine/wire/generation.ts'
import { END, HIDDEN, openByteVocabulary } from '../lib/scripted-model.ts'
import '../lib/property-seed.ts'

const order = (changes: Partial<ChoiceOrder> = {}): ChoiceOrder => ({
  index: 0,
  lastPromptId: null,
  maxTokens: 1000,
  stops: [],
  stopTokenIds: [],
  ignoresEnd: false,
  parsesTools: true,
  beginsInThought: false,
  toolCallId: (call) => `call_${call}`,
  ...changes,
})
const drawn = (id: number, logprob = -0.5) => ({ type: 'drawn' as const, id, logprob, alternatives: [] })

/** Draws pieces of bytes until the choice ends; what was drawn, and the choice. */
function draw(pieces: readonly Uint8Array[], changes: Partial<ChoiceOrder> = {}) {
  const vocabulary = openByteVocabulary()
  const choice = openGrowingChoice(vocabulary, order(changes))
  const ids = pieces.map(vocabulary.idOf)
  let taken = 0
  for (const id of ids) {
    taken += 1
    if (!choice.add(drawn(id))) break
  }
  return { vocabulary, choice, ids, taken }
}
const pieces = (...texts: readonly string[]) => texts.map((text) => Buffer.from(text))

describe('the text of a choice', () => {
  it('waits for the rest of a character, however many tokens it takes', () => {
    const vocabulary = openByteVocabulary()
    const own = openGrowingText(vocabulary, null)
    const shown = [...Buffer.from('a🤗b')].map((byte) => {
      own.add(vocabulary.idOf(Uint8Array.of(byte)))
      return own.text()
    })
    expect(shown).toEqual(['a', 'a', 'a', 'a', 'a🤗', 'a🤗b'])
  })

  it('is what the last token of the prompt makes of the first one', () => {
    const vocabulary = openByteVocabulary()
    // A vocabulary that writes no space where a text begins.
    const trimming = { ...vocabulary, decode: (ids: readonly number[]) => vocabulary.decode(ids).replace(/^ /, '') }
    const [before, first] = [vocabulary.idOf(Buffer.from('one')), vocabulary.idOf(Buffer.from(' two'))]
    const growing = openGrowingText(trimming, before)
    growing.add(first)
    growing.add(first)
    expect(growing.text()).toBe(' two two')
  })

  it('goes on after bytes that are no character', () => {
    const noise = Array.from({ length: 40 }, () => Uint8Array.of(0xff))
    const { choice } = draw([...noise, Buffer.from('ok')])
    expect(choice.now().text).toMatch(/^\uFFFD+ok$/)
  })

  it('shows markers that a vocabulary calls special, and no other special token', () => {
    const vocabulary = openByteVocabulary()
    const marker = vocabulary.idOf(Buffer.from('<think>'))
    const choice = openGrowingChoice({ ...vocabulary, isSpecial: (id) => id === marker || vocabulary.isSpecial(id) }, order())
    for (const id of [marker, HIDDEN]) choice.add(drawn(id))
    expect(choice.now().text).toBe('<think>')
  })
})

describe('the end of a choice', () => {
  it.each([
    ['the model’s end token', ['Hi', END], {}, { text: 'Hi', finish: 'stop', matchedStop: null }, 2],
    ['max_tokens', ['Hi', ' you', END], { maxTokens: 2 }, { text: 'Hi you', finish: 'length', matchedStop: null }, 2],
    ['an end token that is also the last that was allowed', ['Hi', END], { maxTokens: 2 }, { text: 'Hi', finish: 'stop' }, 2],
    ['a stop string', ['Hi ST', 'OP you'], { stops: ['STOP'] }, { text: 'Hi ', finish: 'stop', matchedStop: 'STOP' }, 2],
    ['the stop string that ends first', ['ab', 'cd'], { stops: ['abcd', 'bc'] }, { text: 'a', finish: 'stop', matchedStop: 'bc' }, 2],
    [
      'a stop string with max_tokens',
      ['Hi STOP'],
      { stops: ['STOP'], maxTokens: 1 },
      { text: 'Hi ', finish: 'stop', matchedStop: 'STOP' },
      1,
    ],
    ['an empty stop string, which ends nothing', ['Hi', END], { stops: [''] }, { text: 'Hi', finish: 'stop', matchedStop: null }, 2],
    ['no end token where they are ignored', ['Hi', END, '!'], { ignoresEnd: true, maxTokens: 3 }, { text: 'Hi!', finish: 'length' }, 3],
  ] as const)('is %s', (_name, script, changes, expected, tokens) => {
    const vocabulary = openByteVocabulary()
    const choice = openGrowingChoice(vocabulary, order(changes))
    const ids = script.map((each) => (typeof each === 'number' ? each : vocabulary.idOf(Buffer.from(each))))
    const goesOn = ids.map((id) => choice.now().finish === null && choice.add(drawn(id)))
    expect(choice.now()).toMatchObject(expected)
    expect(choice.now().tokens.map((token) => token.id)).toEqual(ids.slice(0, tokens))
    expect(goesOn.indexOf(false)).toBe(tokens - 1)
  })

  it('is a stop token, which stays sampled and is no text; the model’s own end token matches nothing', () => {
    const vocabulary = openByteVocabulary()
    const stop = vocabulary.idOf(Buffer.from('!'))
    const choice = openGrowingChoice(vocabulary, order({ stopTokenIds: [stop, END] }))
    for (const id of [vocabulary.idOf(Buffer.from('Hi')), stop]) choice.add(drawn(id))
    expect(choice.now()).toMatchObject({ text: 'Hi', finish: 'stop', matchedStop: stop })
    const other = openGrowingChoice(vocabulary, order({ stopTokenIds: [END] }))
    other.add(drawn(END))
    expect(other.now()).toMatchObject({ finish: 'stop', matchedStop: null })
  })

  it('is not changed from outside once it has come', () => {
    const { choice } = draw(pieces('Hi'), { maxTokens: 1 })
    choice.end('abort')
    expect(choice.now().finish).toBe('length')
  })

  it('hides no token from a reader of probabilities, wherever it cuts a character', () => {
    const { choice } = draw([...Buffer.from('é')].map((byte) => Uint8Array.of(byte)))
    expect(choice.now().tokens.map(({ endsWhole }) => endsWhole)).toEqual([true, true])
  })

  it('keeps a logprob for every token, those of a stop string too', () => {
    const { choice } = draw(pieces('a', 'S', 'T'), { stops: ['ST'] })
    const { tokens, logprobs, alternatives } = choice.now()
    expect([tokens.length, logprobs.length, alternatives.length]).toEqual([3, 3, 3])
    expect(tokens.map((token) => token.textEnd)).toEqual([1, 1, 1])
  })
})

const call = (name: string) => `<tool_call>\n{"name": "${name}", "arguments": {"x": "é🤗"}}\n</tool_call>`
const words = fc.constantFrom(
  '<think>',
  '</think>',
  '<tool_call>',
  '</tool_call>',
  '<tool',
  '<thi',
  call('a'),
  call('b'),
  '<tool_call>\n{"name": ',
  '\n',
  '\n\n',
  ' ',
  'é',
  '🤗',
  '日本',
  'STOP',
  'ST',
  'Hello',
  '{}',
)
/** What models really write, and what they do not. */
const answers = fc.oneof(
  fc.array(words, { maxLength: 12 }).map((each) => each.join('')),
  fc.tuple(words, words, words).map(([a, b, c]) => `<think>\n${a}\n</think>\n\n${b}\n${call('a')}\n${c}${call('b')}`),
)
const cuts = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 40 })

function cut(text: string, lengths: readonly number[]): readonly Uint8Array[] {
  const bytes = Buffer.from(text)
  const parts: Uint8Array[] = []
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const length = lengths[turn % lengths.length] ?? 1
    parts.push(bytes.subarray(at, at + length))
    at += length
  }
  return parts
}

describe('what is streamed', () => {
  it('adds up to the message, whatever is said and wherever tokens cut it', () => {
    const property = fc.property(
      answers,
      cuts,
      fc.boolean(),
      fc.boolean(),
      fc.constantFrom<readonly string[]>([], ['STOP'], ['\n\n', 'lo']),
      fc.constantFrom(3, 1000),
      fc.constantFrom<'abort' | 'length'>('abort', 'length'),
      (text, lengths, parsesTools, beginsInThought, stops, maxTokens, finish) => {
        const vocabulary = openByteVocabulary()
        const choice = openGrowingChoice(vocabulary, order({ parsesTools, beginsInThought, stops, maxTokens }))
        const deltas = openAnswerDeltas({ parsesTools, beginsInThought })
        const said = { text: '', reasoning: '', content: '', calls: [] as { name: string; arguments: string }[], tokens: 0 }
        const take = () => {
          const delta = deltas.next(choice.now(), choice.safeText())
          expect(delta.from).toBe(said.tokens)
          said.tokens = delta.to
          said.text += delta.text
          said.reasoning += delta.reasoning
          said.content += delta.content
          for (const { index, function: part } of delta.toolCalls) {
            said.calls[index] ??= { name: part.name ?? '', arguments: '' }
            said.calls[index].arguments += part.arguments
          }
          return delta.isLast
        }
        let isLast = false
        for (const piece of cut(text, lengths)) {
          if (isLast) break
          choice.add(drawn(vocabulary.idOf(piece)))
          isLast = take()
        }
        choice.end(finish)
        if (!isLast) expect(take()).toBe(true)
        const whole = choice.now()
        expect([said.tokens, said.text]).toEqual([whole.tokens.length, whole.text])
        expect([said.reasoning, said.content]).toEqual([textOf(whole.parts, 'reasoning') ?? '', textOf(whole.parts, 'content') ?? ''])
        const calls = whole.parts.filter((part) => part.kind === 'tool-call')
        expect(said.calls).toEqual(calls.map(({ name, arguments: given }) => ({ name, arguments: given })))
        expect(whole.parts).toEqual(parseAnswer(whole.text, parsesTools, beginsInThought))
        expect(text.startsWith(whole.text)).toBe(true)
      },
    )
    fc.assert(property, { numRuns: 600 })
  })

  it.each([
    ['content at once', ['Hel', 'lo'], ['Hel', 'lo']],
    ['nothing that may be a marker', ['<', 'b> is'], ['', '<b> is']],
    ['nothing of a thought before it is closed', ['<think>\nHm', '.\n</think>\n\nHi'], ['', 'Hi']],
    ['content before a call, without the line break between them', ['Go.', '\n', '<tool_call>'], ['Go.', '', '']],
  ])('is %s', (_name, texts, expected) => {
    const vocabulary = openByteVocabulary()
    const choice = openGrowingChoice(vocabulary, order())
    const deltas = openAnswerDeltas(order())
    const shown = texts.map((text) => {
      choice.add(drawn(vocabulary.idOf(Buffer.from(text))))
      return deltas.next(choice.now(), choice.safeText()).content
    })
    expect(shown).toEqual(expected)
  })

  it('holds back what may become a stop string', () => {
    const { choice } = draw(pieces('one S', 'TO'), { stops: ['STOP'] })
    expect(choice.safeText()).toBe('one ')
    choice.end('length')
    expect(choice.safeText()).toBe('one STO')
  })
})
