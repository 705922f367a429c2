// Whole conversations as an agent has them: many turns, answers of many pieces, and the same conversation twice at once.
import { expect, it } from 'vitest'
import type { Answer, Driver } from './drivers/driver.ts'
import { describeEveryDialect } from './every-dialect.ts'
import { expectExactTokens, expectExtension, type Gateway, openGateway } from './gateway.ts'
import { type Ask, FORMS, type Form, QUESTION, READ, type Said, SEARCH, said, scenario, scriptOf } from './scenarios.ts'

const ASK: Ask = { ...scenario('reasoning').ask, text: QUESTION, tools: [READ, SEARCH], maxTokens: 20_000 }

/** Each turn calls one more tool than the one before; some think, some speak, some do neither. */
const WALK: readonly Said[] = [
  said('Step one.', { reasoning: 'Begin.', calls: calls(1) }),
  said('', { calls: calls(2) }),
  said('', { reasoning: 'Thought without a word.', calls: calls(3) }),
  said('Step four, no thought.', { calls: calls(4) }),
  said('There.', { reasoning: 'It is enough.' }),
]

/** More than one piece of a stream holds, with a character of two units where the first piece would end. */
const PIECE_CHARS = 8_192
const long = (opening: string): string => `${opening.padEnd(PIECE_CHARS - 1, ' word')}👋${' é'.repeat(2_000)}`
const LONG: readonly Said[] = [
  said(long('Text:'), {
    reasoning: long('Thought:'),
    // JSON stands around the path, so that the cut meets another character in each dialect.
    calls: [{ name: 'read_file', arguments: { path: long('Path:'), limit: 1 } }],
  }),
  said('Done.'),
]

function calls(count: number): Said['calls'] {
  return Array.from({ length: count }, (_, index) => ({ name: 'read_file', arguments: { path: `${count}/${index}.txt`, limit: index } }))
}

/** Answers every call of every turn until one calls nothing. */
async function walk<History>(driver: Driver<History>, opened: Gateway, forms: (turn: number) => Form): Promise<readonly Answer[]> {
  const answers: Answer[] = []
  let history = driver.begin(ASK)
  for (let turn = 0; ; turn += 1) {
    const sent = await driver.send(opened.endpoint, history, { form: forms(turn) })
    answers.push(sent.answer)
    if (turn > 0) expectExtension(opened)
    if (sent.answer.calls.length === 0) return answers
    history = driver.withResults(
      sent.history,
      sent.answer.calls.map((call, index) => ({ call, output: `result ${turn}.${index}` })),
    )
  }
}

const seen = ({ text, reasoning, calls: made }: Answer): Said => ({
  text,
  reasoning,
  calls: made.map((call) => ({ name: call.name, arguments: call.arguments as Said['calls'][number]['arguments'] })),
})

describeEveryDialect((driver) => {
  it.for([
    { name: 'plain', forms: (): Form => 'plain' },
    { name: 'streamed', forms: (): Form => 'stream' },
    { name: 'now plain, now streamed', forms: (turn: number): Form => (turn % 2 === 0 ? 'plain' : 'stream') },
  ])('grows by its own tokens alone over many turns, $name', async ({ forms }, { onTestFinished }) => {
    const opened = await openGateway({ script: scriptOf(WALK) })
    onTestFinished(opened.close)
    const answers = await walk(driver, opened, forms)
    expect(answers.map(seen)).toEqual(WALK)
    const ids = answers.flatMap((answer) => answer.calls.map((call) => call.id))
    expect(new Set(ids).size).toBe(ids.length)
    const { tokens } = await expectExactTokens(opened)
    expect(tokens.calls.map((call) => call.parent)).toEqual([-1, 0, 1, 2, 3])
  })

  it.for(FORMS)('carries answers of many pieces whole, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway({ script: scriptOf(LONG) })
    onTestFinished(opened.close)
    expect((await walk(driver, opened, () => form)).map(seen)).toEqual(LONG)
    await expectExactTokens(opened)
  })

  it('generates for each of two open connections, and keeps their answers apart', async ({ onTestFinished }) => {
    const opened = await openGateway({ script: scriptOf(WALK) })
    onTestFinished(opened.close)
    const begun = driver.begin(ASK)
    const both = await Promise.all(FORMS.map((form) => driver.send(opened.endpoint, begun, { form })))
    expect(both.map(({ answer }) => seen(answer))).toEqual([WALK[0], WALK[0]])
    const [one, other] = both.map(({ answer }) => answer.calls[0]?.id)
    expect(one).not.toBe(other)
    for (const { answer, history } of both) {
      const next = driver.withResults(
        history,
        answer.calls.map((call) => ({ call, output: 'the same' })),
      )
      await driver.send(opened.endpoint, next, { form: 'plain' })
    }
    const { tokens } = await expectExactTokens(opened)
    expect(tokens.calls).toHaveLength(4)
    for (const call of tokens.calls.slice(2)) expect(call.parent).toBeGreaterThanOrEqual(0)
  })
})
