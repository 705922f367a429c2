import { describe, expect, it } from 'vitest'
import { type EngineFacts, exampleWindows, reportDrift } from '../../src/doctor/drift-report.ts'
import { type DriftWindow, type Edge, readSessions, type SessionReading, taskResultsSchema } from '../../src/doctor/drift-results.ts'

const ENGINE: EngineFacts = { url: 'http://gpu:8000', kind: 'vllm', model: 'policy', logprob_mode: 'raw', max_model_len: 4096 }
const WINDOW: DriftWindow = { start: 4, common: [1, 2], earlier: [7, 7, 5], later: [5, 9] }

type Drift = NonNullable<Edge['drift']>
const drift = (changes: Partial<Drift> = {}): Drift => ({
  class: 'D2',
  index: 6,
  reason: 'the chat template leaves out reasoning',
  window: WINDOW,
  ...changes,
})
const edge = (kind: Edge['kind'], found: Drift | null): Edge => ({ kind, call_id: 'msg_b', of: 'msg_a', drift: found })

function session(changes: Partial<SessionReading> = {}): SessionReading {
  return {
    session: 's1',
    task: 'look',
    outcome: 'completed',
    error: null,
    calls: 3,
    trainedCalls: 3,
    rows: 1,
    edges: [edge('extends', null), edge('extends', null)],
    findings: [],
    ...changes,
  }
}

const reportOf = (...sessions: readonly SessionReading[]) => {
  const report = reportDrift(ENGINE, [{ harness: 'pi', sessions }], new Map(), [])
  return { report, harness: report.harnesses[0]! }
}

describe('whether chains are whole', () => {
  it.each<[string, readonly SessionReading[], boolean]>([
    ['sessions of one row each', [session(), session({ session: 's2' })], true],
    [
      'a sub-agent and a side call, which have rows of their own',
      [session({ rows: 2, edges: [edge('subagent_of', null), edge('aux', null)] })],
      true,
    ],
    ['a turn that came back otherwise', [session({ rows: 2, edges: [edge('rewrites', drift())] })], false],
    ['a turn that was cut and yet continued', [session({ edges: [edge('extends', drift({ class: 'D7', index: null }))] })], false],
    [
      'a turn that was asked for twice',
      [session({ edges: [edge('retry_of', drift({ class: 'D12', index: null, window: null }))] })],
      false,
    ],
    ['a session that failed', [session(), session({ outcome: 'agent_timeout' })], false],
    ['nothing that trains', [session({ rows: 0, trainedCalls: 0 })], false],
    ['single calls, which no chain can be told from', [session({ calls: 1, trainedCalls: 1, edges: [] })], false],
    ['no session at all', [], false],
  ])('%s', (_, sessions, isWhole) => {
    const { report, harness } = reportOf(...sessions)
    expect([harness.whole, report.whole]).toEqual([isWhole, isWhole])
  })

  it('is said of the whole only when every harness is whole', () => {
    const runs = [
      { harness: 'pi', sessions: [session()] },
      { harness: 'codex', sessions: [session({ edges: [edge('rewrites', drift())] })] },
    ]
    const report = reportDrift(ENGINE, runs, new Map(), [])
    expect([report.whole, report.harnesses.map(({ harness, whole }) => [harness, whole])]).toEqual([
      false,
      [
        ['pi', true],
        ['codex', false],
      ],
    ])
  })
})

describe('the numbers of a harness', () => {
  it('are calls per row over all sessions, and what it would be without the rows that breaks began', () => {
    const broken = session({
      session: 's2',
      outcome: 'agent_error',
      error: 'it failed',
      calls: 5,
      trainedCalls: 5,
      rows: 3,
      edges: [
        edge('rewrites', drift()),
        edge('compaction_of', drift({ class: 'D9' })),
        edge('retry_of', drift({ class: 'D12' })),
        edge('aux', null),
      ],
      findings: [
        { code: 'sampling_skew', detail: 'temperature 0' },
        { code: 'low_merge_ratio', detail: 'told by the forks' },
      ],
    })
    const { harness } = reportOf(session({ findings: [{ code: 'sampling_skew', detail: 'the first' }] }), broken)
    expect(harness).toMatchObject({
      sessions: 2,
      outcomes: { completed: 1, agent_error: 1 },
      calls: 8,
      sessions_with_turns: 2,
      trained_calls: 8,
      rows: 4,
      merge_ratio: 2,
      best_merge_ratio: 4,
      own_conversations: { aux: 1 },
      failed: [{ session_id: 's2', task: 'look', outcome: 'agent_error', error: 'it failed' }],
      findings: [{ code: 'sampling_skew', sessions: 2, detail: 'the first' }],
    })
  })

  it.each([
    ['one row', session(), 0],
    ['rows that breaks and sub-agents began', session({ rows: 3, edges: [edge('rewrites', drift()), edge('subagent_of', null)] }), 0],
    ['a branch', session({ rows: 3, edges: [edge('extends', null), edge('rewrites', drift())] }), 1],
    ['none', session({ rows: 0 }), 0],
  ])('count rows that nothing explains: %s', (_, one, rows) => {
    expect(reportOf(one).harness.unexplained_rows).toBe(rows)
  })

  it('are unknown where nothing is trained', () => {
    expect(reportOf(session({ rows: 0, trainedCalls: 0 })).harness).toMatchObject({ merge_ratio: null, best_merge_ratio: null })
  })
})

describe('the causes of forks', () => {
  it('are counted by class and reason, the most frequent first, in how many sessions', () => {
    const request = "the request leaves out the turn's reasoning"
    const { harness } = reportOf(
      session({ edges: [edge('rewrites', drift({ reason: request })), edge('rewrites', drift()), edge('rewrites', drift())] }),
      session({ session: 's2', edges: [edge('rewrites', drift())] }),
    )
    expect(harness.forks.map((fork) => [fork.class, fork.reason, fork.count, fork.sessions])).toEqual([
      ['D2', 'the chat template leaves out reasoning', 3, 2],
      ['D2', request, 1, 1],
    ])
  })

  it('keep a cut turn that went on apart from one that began a new row', () => {
    const cut = drift({ class: 'D7', reason: 'cut' })
    const { harness } = reportOf(session({ edges: [edge('extends', cut), edge('rewrites', cut)] }))
    expect(harness.forks.map((fork) => fork.splits_row)).toEqual([false, true])
  })

  it('show the first example that has a window, as ids and as text', () => {
    const bare = session({ session: 's0', task: 'edit', edges: [edge('rewrites', drift({ index: null, window: null }))] })
    const later = session({ session: 's2', edges: [edge('rewrites', drift({ window: { ...WINDOW, start: 9 } }))] })
    const runs = [{ harness: 'pi', sessions: [bare, session({ edges: [edge('rewrites', drift())] }), later] }]
    expect(exampleWindows(runs)).toEqual([WINDOW])
    const texts = new Map([[exampleWindows(runs)[0]!, { common: 'a\n', earlier: '<think>\nhm', later: 'I' }]])
    expect(reportDrift(ENGINE, runs, texts, ['a note']).harnesses[0]?.forks[0]?.example).toEqual({
      session_id: 's1',
      task: 'look',
      call_id: 'msg_b',
      of: 'msg_a',
      index: 6,
      window: {
        start: 4,
        common: { ids: [1, 2], text: 'a\n' },
        earlier: { ids: [7, 7, 5], text: '<think>\nhm' },
        later: { ids: [5, 9], text: 'I' },
      },
    })
  })

  it('are mended by what the text of the window asks for', () => {
    const found = drift({ class: 'D17', reason: 'the generation prompt ends in tokens that history does not repeat' })
    const runs = [{ harness: 'claude_code', sessions: [session({ edges: [edge('rewrites', found)] })] }]
    const keys = (earlier: string, common = 'assistant\n') =>
      reportDrift(ENGINE, runs, new Map([[WINDOW, { common, earlier, later: '' }]]), []).harnesses[0]?.forks[0]?.remedies.map(
        ({ key }) => key,
      )
    expect(keys('<think>\n\n</think>\n\nI')).toEqual(['thinking', 'models.*.thinking', '--chat-template'])
    expect(keys('\n\n</think>\n\nI', 'assistant\n<think>')).toEqual(['thinking', 'models.*.thinking', '--chat-template'])
    expect(keys('<think>\nhm')).toEqual(['--chat-template'])
    expect(keys('</think>\n\nI', '<think>\nhm')).toEqual(['--chat-template'])
  })
})

it('reads of a task’s state what it needs, whatever else stands there', () => {
  const trace = (mask: readonly number[], trained: readonly boolean[]) => ({
    loss_mask: mask,
    prompt_ids: [1],
    metadata: { turns: trained.map((isTrained) => ({ call_id: 'c', trained: isTrained })), row_id: 'r' },
  })
  const never = { session_id: 's2', error: 'it never ran', trajectory: { traces: [], metadata: { findings: [] } } }
  const state = {
    status: 'completed',
    results: [
      {
        session_id: 's1',
        trajectory: {
          traces: [trace([1, 0, 1], [true, true]), trace([0], [false])],
          metadata: { edges: [edge('rewrites', drift())], findings: [{ code: 'x', detail: 'y' }] },
        },
        metadata: { polar_node: { outcome: 'completed', calls: 4 } },
      },
      { ...never, metadata: { polar_node: { outcome: 'init_error', calls: 0 } } },
    ],
  }
  const [first, second] = readSessions('look', taskResultsSchema.parse(state))
  expect(first).toMatchObject({ session: 's1', task: 'look', calls: 4, trainedCalls: 2, rows: 1, error: null })
  expect(first?.edges[0]?.drift?.window).toEqual(WINDOW)
  expect(second).toMatchObject({ outcome: 'init_error', error: 'it never ran', calls: 0, rows: 0, edges: [] })
})
