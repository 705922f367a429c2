// A session's budget as it is asked for: by a task, a dispatch or a capture, and by the operator.
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { captureSchema, sessionDispatchSchema } from '../../src/contract/session.ts'
import { limitsOf, UNLIMITED } from '../../src/contract/session-budget.ts'
import { taskRequestSchema } from '../../src/contract/task.ts'
import { fieldProblems } from '../../src/http/problems.ts'

const asking = (budget: unknown) => ({ polar_node: { budget } })

describe('the limits of a session', () => {
  it("are its task's own, and the operator's where it names none", () => {
    const operators = { calls: 100, seconds: 60, context_tokens: null }
    expect(limitsOf(asking({ calls: 3, sampled_tokens: 5 }), operators)).toEqual({
      calls: 3,
      sampled_tokens: 5,
      context_tokens: null,
      seconds: 60,
    })
  })

  it.each([{}, { polar_node: null }, asking(undefined), asking(null), asking({}), asking({ calls: null, seconds: null })])(
    'are none in %j',
    (metadata) => {
      expect(limitsOf(metadata, {})).toEqual(UNLIMITED)
    },
  )
})

describe.each([
  ['a task', taskRequestSchema, { task_id: 't', instruction: 'x', agent: { harness: 'pi' } }],
  [
    'a dispatch',
    sessionDispatchSchema,
    { session_id: 's', task_id: 't', instruction: 'x', remaining_timeout_seconds: 1, agent: { harness: 'pi' } },
  ],
  ['a capture', captureSchema, {}],
])('the budget of %s', (_, schema, request) => {
  it.each<[unknown, readonly string[], RegExp]>([
    [{ calls: 0 }, ['calls'], />=1/],
    [{ calls: '3' }, ['calls'], /expected number, received string/],
    [{ sampled_tokens: 1.5 }, ['sampled_tokens'], /int/],
    [{ context_tokens: -1 }, ['context_tokens'], />=1/],
    [{ seconds: 0 }, ['seconds'], />0/],
    [{ seconds: Number.NaN }, ['seconds'], /expected number/],
    [{ tokens: 5 }, ['tokens'], /unknown key; there are calls, sampled_tokens, context_tokens, seconds/],
    [5, [], /expected object/],
    [[3], [], /expected object/],
  ])('is refused where it is %j', (budget, path, message) => {
    const body = { ...request, metadata: asking(budget) }
    const parsed = schema.safeParse(body)
    if (parsed.success) throw new Error('it was taken')
    const problems = fieldProblems('body', parsed.error.issues, body)
    expect(problems).toMatchObject([{ loc: ['body', 'metadata', 'polar_node', 'budget', ...path], msg: expect.stringMatching(message) }])
  })

  it('is taken with any of its keys', () => {
    const budget = { calls: 1, sampled_tokens: 2, context_tokens: 3, seconds: 0.5 }
    expect(schema.safeParse({ ...request, metadata: asking(budget) }).success).toBe(true)
  })
})

describe("the operator's budget", () => {
  const load = (session: string) =>
    parseConfig(`polar_node: { budgets: { session: ${session} } }`, null, '/etc/polar', { engineUrl: 'http://127.0.0.1:1' })

  it('is a key of the configuration', () => {
    const loaded = load('{ calls: 5, seconds: 90 }')
    expect(loaded).toMatchObject({ ok: true, config: { budgets: { session: { calls: 5, seconds: 90 } } } })
  })

  it.each(['{ call: 5 }', '{ calls: 0 }', '{ seconds: x }', '[]'])('is refused as %s', (session) => {
    const loaded = load(session)
    expect(JSON.stringify(loaded)).toContain('budgets')
    expect(loaded.ok).toBe(false)
  })
})
