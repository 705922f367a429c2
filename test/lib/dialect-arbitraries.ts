// Conversations and answers beyond those of the tables.
import fc from 'fast-check'
import type { ChatAnswer } from '../../src/proxy/chat.ts'
import { answer, toolCall } from './dialect-answers.ts'
import type { NeutralRequest, NeutralTurn } from './dialect-cases.ts'

/** Conversations of any texts, with the tools and limits of `base`. */
export function requests(base: NeutralRequest): fc.Arbitrary<NeutralRequest> {
  const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 12 })
  const value = fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 })
  const user = fc.record({ type: fc.constant('user' as const), text, image: fc.option(fc.base64String({ minLength: 4, maxLength: 8 })) })
  const note = fc.record({ type: fc.constant('note' as const), text })
  /** What the model said, and what followed from it. */
  const exchange = fc
    .record({
      reasoning: fc.option(text, { nil: '' }),
      text: fc.option(text, { nil: '' }),
      calls: fc.array(fc.tuple(fc.constantFrom('edit', 'list_directory'), value, value), { maxLength: 3 }),
      late: fc.option(text),
      after: user,
    })
    .map(({ reasoning, text: words, calls, late, after }) => (turn: number): readonly NeutralTurn[] => {
      const ids = calls.map((_call, index) => `call_${turn}_${index}`)
      const origin = reasoning === '' ? null : turn.toString(16).padStart(32, '0')
      const named = calls.map(([name, args], index) => ({ id: ids[index] ?? '', name, arguments: JSON.stringify(args) }))
      const results = calls.map(([name, , result], index) => ({ id: ids[index] ?? '', name, value: result }))
      // A turn without a word or a call comes back as nothing in some dialects.
      const said = words === '' && calls.length === 0 ? 'T' : words
      return [
        { type: 'assistant', origin, reasoning, text: said, calls: named },
        calls.length === 0 ? after : { type: 'results', results, late },
      ]
    })
  return fc
    .record({
      system: fc.option(text),
      first: user,
      exchanges: fc.array(fc.tuple(exchange, fc.option(note)), { maxLength: 4 }),
      thinking: fc.option(fc.constantFrom('on' as const, 'off' as const)),
      temperature: fc.option(fc.constantFrom(0, 0.5, 1)),
    })
    .map(({ system, first, exchanges, thinking, temperature }) => {
      const later = exchanges.flatMap(([each, said], turn) => [...each(turn), ...(said === null ? [] : [said])])
      return { ...base, system, turns: [first, ...later], thinking, temperature }
    })
}

/** Answers of any texts and arguments, cut ones among them. */
export function answers(): fc.Arbitrary<ChatAnswer> {
  const text = fc.string({ unit: 'binary', maxLength: 30 })
  const value = fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 })
  const args = fc.oneof(
    value.map((each) => JSON.stringify(each)),
    value.map((each) => JSON.stringify(each, null, 2)),
    fc.constant('{"cut": '),
  )
  return fc
    .record({
      content: fc.option(text),
      reasoning: text,
      args: fc.array(args, { maxLength: 3 }),
      finishReason: fc.constantFrom('stop', 'length', 'content_filter'),
      usage: fc.record({
        promptTokens: fc.integer({ min: 10, max: 99 }),
        completionTokens: fc.integer({ min: 5, max: 99 }),
        cachedTokens: fc.option(fc.integer({ min: 0, max: 10 })),
        reasoningTokens: fc.option(fc.integer({ min: 0, max: 5 })),
      }),
    })
    .map(({ content, reasoning, args: texts, finishReason, usage }) =>
      answer(
        {
          content,
          ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
          ...(texts.length === 0 ? {} : { tool_calls: texts.map((each, index) => toolCall(`call_${index}`, each)) }),
        },
        { finishReason: texts.length > 0 && finishReason === 'stop' ? 'tool_calls' : finishReason, usage },
      ),
    )
}
