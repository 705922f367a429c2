import { describe, expect, it } from 'vitest'
import { type EngineFacts, reportDrift } from '../../src/doctor/drift-report.ts'
import type { DriftWindow, SessionReading } from '../../src/doctor/drift-results.ts'
import { describeDrift, describeRemedy, quoted } from '../../src/doctor/drift-text.ts'

const ENGINE: EngineFacts = { url: 'http://gpu:8000', kind: 'vllm', model: 'my/policy', logprob_mode: 'raw', max_model_len: 4096 }
const WINDOW: DriftWindow = { start: 4, common: [151645, 198], earlier: [7, 7, 5], later: [] }

function session(changes: Partial<SessionReading> = {}): SessionReading {
  return {
    session: 's1',
    task: 'look',
    outcome: 'completed',
    error: null,
    calls: 2,
    trainedCalls: 2,
    rows: 1,
    edges: [],
    findings: [],
    ...changes,
  }
}

const BROKEN = session({
  rows: 2,
  edges: [
    {
      kind: 'rewrites',
      call_id: 'msg_b',
      of: 'msg_a',
      drift: { class: 'D2', index: 6, reason: 'the chat template leaves out reasoning', window: WINDOW },
    },
  ],
})

const textOf = (sessions: readonly SessionReading[], lost = '<think>\nhm', notes: readonly string[] = []) =>
  describeDrift(
    reportDrift(ENGINE, [{ harness: 'pi', sessions }], new Map([[WINDOW, { common: '<|im_end|>\n', earlier: lost, later: '' }]]), notes),
  )

describe('the report in a terminal', () => {
  it('shows the window side by side, and what would mend it', () => {
    expect(textOf([BROKEN], '<think>\nhm', ['a note'])).toBe(`engine    vllm at http://gpu:8000, my/policy (4096 tokens, raw logprobs)
note      a note

pi: NOT WHOLE
  1 session (1 completed), 2 calls; 2 trained calls in 2 rows: merge ratio 1 (2 if nothing broke)

  D2 reasoning left out, 1× in 1 session, each begins a new row
    the chat template leaves out reasoning
    for example s1, task look, at token 6 of the later prompt
      both         151645 198  "<|im_end|>\\n"
      was sampled  7 7 5       "<think>\\nhm"
      came back    (nothing)
    mend: engine --chat-template: a template that writes the reasoning of every earlier turn as it was sampled
    mend: builder.config.splice: true keeps the turn as it was sampled in one row with what follows; that context was never the engine’s, and its share is reported as unreported_context_share

Token chains break: see what would mend it.
`)
  })

  it.each<[string, SessionReading, readonly string[]]>([
    ['whole chains', session(), ['pi: whole', 'merge ratio 2\n', 'Token chains are whole.']],
    [
      'a session that failed',
      session({ outcome: 'harness_error', error: 'no\u001b[2J call' }),
      ['s1  look ended harness_error: no\\u001b[2J call', 'Not every session'],
    ],
    ['nothing trained', session({ rows: 0, trainedCalls: 0 }), ['nothing can be trained', 'Nothing can be trained.']],
    ['no chain', session({ calls: 1, trainedCalls: 1 }), ['pi: NOT SHOWN', 'Not every harness had a chain to break.']],
    [
      'sub-agents',
      session({ edges: [{ kind: 'subagent_of', call_id: 'b', of: 'a', drift: null }] }),
      ['as they should be: 1 of sub-agents'],
    ],
  ])('says of %s what it is', (_, one, words) => {
    const text = textOf([one])
    for (const word of words) expect(text).toContain(word)
  })

  it('says what was sent, not sampled, of a break in the prompt', () => {
    const drift = { class: 'D8', index: 1, reason: 'the system prompt changed', window: WINDOW } as const
    const text = textOf([session({ edges: [{ kind: 'rewrites', call_id: 'b', of: 'a', drift }] })])
    expect([text.includes('was sent '), text.includes('was sampled')]).toEqual([true, false])
  })
})

describe('text of a model', () => {
  it.each([
    ['a terminal sequence', '\u001b[31mred\u001b]0;title\u0007', '"\\u001b[31mred\\u001b]0;title\\u0007"'],
    ['C1 controls', '\u009b2J', '"\\u009b2J"'],
    ['line breaks of every kind', 'a\nb\r\u2028\u2029\u0085', '"a\\nb\\r\\u2028\\u2029\\u0085"'],
    ['marks that turn what follows', '\u202Eevil\u2066', '"\\u202eevil\\u2066"'],
    ['invisible characters', 'a\u200bb\ufeff', '"a\\u200bb\\ufeff"'],
    ['quotes and backslashes', '"\\', '"\\"\\\\"'],
    ['what is plain', 'é 😀 <think>', '"é 😀 <think>"'],
  ])('%s', (_, text, shown) => expect(quoted(text)).toBe(shown))
})

it.each([
  [{ where: 'agent.settings', key: 'max_tokens', says: 'more' }, 'agent.settings.max_tokens: more'],
  [{ where: 'builder.config', key: 'splice', says: 'true' }, 'builder.config.splice: true'],
  [{ where: 'polar.yaml', key: 'models.*.thinking', says: 'true' }, 'polar_node.models."my/policy".thinking in polar.yaml: true'],
  [{ where: 'polar.yaml', key: 'stream.linger_seconds', says: 'longer' }, 'polar_node.stream.linger_seconds in polar.yaml: longer'],
  [{ where: 'engine', key: '--chat-template', says: 'another' }, 'engine --chat-template: another'],
  [{ where: 'agent', key: null, says: 'wait' }, 'in the program: wait'],
] as const)('names a remedy by the place where it is set: %o', (remedy, shown) => {
  expect(describeRemedy(remedy, 'my/policy')).toBe(shown)
})
