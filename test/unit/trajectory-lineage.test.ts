// What a session's calls are to one another when the client says which of its agents made each.
import { describe, expect, it } from 'vitest'
import type { Lineage } from '../../src/contract/call.ts'
import { assemble } from '../../src/trajectory/assemble.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { type ToyCall, toyInput, toyRow } from './trajectory-calls.ts'

type Message = {
  readonly role: string
  readonly content?: string
  readonly tool_calls?: readonly unknown[]
  readonly tool_call_id?: string
}
type Asked = { readonly messages?: readonly Message[]; readonly answer?: Message; readonly record?: ToyCall['record'] }

const MAIN: Lineage = { agent: 'main', parent: null, purpose: 'turn' }
const sub = (agent: string, parent = 'main'): Lineage => ({ agent, parent, purpose: 'turn' })
const compacting = (lineage: Lineage): Lineage => ({ ...lineage, purpose: 'compaction' })

const TASK: Message = { role: 'user', content: 'Fix the bug.' }
const spawning = (...ids: readonly string[]): Message => ({ role: 'assistant', tool_calls: ids.map((id) => ({ id })) })
const result = (id: string, content: string): Message => ({ role: 'tool', tool_call_id: id, content })

const pool: Message[] = []
const keep = (message: Message) => pool.push(message) - 1

/** A call with tools that ends in a tool call where its answer is one. */
function call(lineage: Lineage | null, p: readonly number[], r: readonly number[], { messages = [], answer, record }: Asked = {}): ToyCall {
  return {
    p,
    r,
    record: {
      lineage,
      toolCount: 1,
      promptMessages: messages.map(keep),
      responseMessage: answer === undefined ? null : keep(answer),
      finishReason: answer?.tool_calls === undefined ? 'stop' : 'tool_calls',
      ...record,
    },
  }
}

function read(calls: readonly ToyCall[]) {
  const built = assemble(toyInput(calls, pool), { strategy: 'prefix_merging', config: {} }, buildPrefixMerging)
  if (!built.ok) throw new Error(built.error)
  const { traces, metadata } = built.trajectory
  const edges = metadata.edges as readonly { readonly kind: string; readonly call_id: string; readonly of: string | null }[]
  return {
    edges: edges.map(({ kind, call_id, of }) => [kind, call_id.slice('msg_'.length), of?.slice('msg_'.length) ?? null]),
    rows: traces.map((trace) => ({ role: trace.metadata.segment_role, ...toyRow(trace) })),
    stats: metadata.reconstruction_stats as { readonly trained_tokens: number; readonly masked_tokens_by_reason: object },
  }
}

describe('two sub-agents that are sent on one errand', () => {
  const spawn = call(MAIN, [1, 2], [5, 9], { messages: [TASK], answer: spawning('s1', 's2') })

  it('are two chains, of which every turn is trained, though they begin with the same tokens', () => {
    const { edges, rows, stats } = read([
      spawn,
      call(sub('one'), [1, 4], [6, 9]),
      call(sub('two'), [1, 4], [7, 9]),
      call(sub('two'), [1, 4, 7, 9, 3], [6]),
      call(sub('one'), [1, 4, 6, 9, 3], [7]),
    ])
    expect(edges).toEqual([
      ['subagent_of', 'b', 'a'],
      ['subagent_of', 'c', 'a'],
      ['extends', 'd', 'c'],
      ['extends', 'e', 'b'],
    ])
    expect(rows).toEqual([
      { role: 'main', prompt: [1, 2], resp: [5, 9], mask: [1, 1] },
      { role: 'subagent', prompt: [1, 4], resp: [6, 9, 3, 7], mask: [1, 1, 0, 1] },
      { role: 'subagent', prompt: [1, 4], resp: [7, 9, 3, 6], mask: [1, 1, 0, 1] },
    ])
    expect(stats).toMatchObject({ trained_tokens: 8, masked_tokens_by_reason: {} })
  })

  it('go on with their own answers when both sampled the same', () => {
    const { edges, stats } = read([
      spawn,
      call(sub('one'), [1, 4], [6, 9]),
      call(sub('two'), [1, 4], [6, 9]),
      call(sub('two'), [1, 4, 6, 9, 3], [6]),
      call(sub('one'), [1, 4, 6, 9, 3], [7]),
    ])
    expect(edges.slice(2)).toEqual([
      ['extends', 'd', 'c'],
      ['extends', 'e', 'b'],
    ])
    expect(stats).toMatchObject({ trained_tokens: 8, masked_tokens_by_reason: {} })
  })

  it('are both trained when neither makes a second call', () => {
    const { stats } = read([spawn, call(sub('one'), [1, 4], [6, 9]), call(sub('two'), [1, 4], [7, 9])])
    expect(stats).toMatchObject({ trained_tokens: 6, masked_tokens_by_reason: {} })
  })

  it('are retried each by itself', () => {
    const lost = { delivery: 'no' as const }
    const { edges, stats } = read([
      spawn,
      call(sub('one'), [1, 4], [6, 9], { record: lost }),
      call(sub('two'), [1, 4], [7, 9]),
      call(sub('one'), [1, 4], [8, 9]),
    ])
    expect(edges).toEqual([
      ['subagent_of', 'b', 'a'],
      ['subagent_of', 'c', 'a'],
      ['retry_of', 'd', 'b'],
    ])
    expect(stats).toMatchObject({ trained_tokens: 6, masked_tokens_by_reason: { retry_abandoned: 2 } })
  })

  it('are one when the client does not tell them apart', () => {
    const { stats } = read([call(null, [1, 2], [5, 9]), call(null, [1, 4], [6, 9]), call(null, [1, 4], [7, 9])])
    expect(stats).toMatchObject({ masked_tokens_by_reason: { retry_abandoned: 2 } })
  })
})

describe('the call that spawned a sub-agent', () => {
  const first = call(MAIN, [1, 2], [5, 9], { messages: [TASK], answer: spawning('s1') })
  const told = [TASK, spawning('s1'), result('s1', '{"agent_id":"agent-one"}')]
  const goingOn = call(MAIN, [1, 2, 5, 9, 3], [6, 9], { messages: told, answer: spawning('s2') })

  it('is the one whose result names it, though its parent has gone on since', () => {
    expect(read([first, goingOn, call(sub('agent-one'), [7, 4], [6])]).edges).toContainEqual(['subagent_of', 'c', 'a'])
  })

  it('is the latest that asked for a tool when no result names it', () => {
    expect(read([first, goingOn, call(sub('agent-two'), [7, 4], [6])]).edges).toContainEqual(['subagent_of', 'c', 'b'])
  })

  it("is its own parent's, not that of whoever called last", () => {
    const { edges } = read([first, call(sub('one'), [7, 4], [6], { answer: spawning('s3') }), call(sub('two'), [8, 4], [6])])
    expect(edges).toEqual([
      ['subagent_of', 'b', 'a'],
      ['subagent_of', 'c', 'a'],
    ])
  })

  it('may be a sub-agent’s', () => {
    const { edges, rows } = read([first, call(sub('one'), [7, 4], [6], { answer: spawning('s3') }), call(sub('two', 'one'), [8, 4], [6])])
    expect(edges).toContainEqual(['subagent_of', 'c', 'b'])
    expect(rows.map(({ role }) => role)).toEqual(['main', 'subagent', 'subagent'])
  })

  it('is none where its parent has answered nothing', () => {
    const { edges, rows } = read([first, call(sub('one', 'unheard-of'), [7, 4], [6])])
    expect(edges).toEqual([])
    expect(rows.map(({ role }) => role)).toEqual(['main', 'subagent'])
  })

  it('is told of the attempt that the engine saw when one before it failed', () => {
    const failed = call(sub('one'), [], [], { record: { status: 'failed', digest: 'same' } })
    const { edges, rows } = read([first, failed, call(sub('one'), [7, 4], [6], { record: { digest: 'same' } })])
    expect(edges).toEqual([
      ['subagent_of', 'c', 'a'],
      ['retry_of', 'c', 'b'],
    ])
    expect(rows.map(({ role }) => role)).toEqual(['main', 'subagent'])
  })
})

describe('a sub-agent that begins with its parent’s history', () => {
  it('has a chain of its own, beside the parent’s', () => {
    const { edges, rows } = read([
      call(MAIN, [1, 2], [5, 9], { answer: spawning('s1') }),
      call(sub('one'), [1, 2, 5, 9, 3, 7], [6]),
      call(MAIN, [1, 2, 5, 9, 3, 8], [7]),
    ])
    expect(edges).toEqual([
      ['subagent_of', 'b', 'a'],
      ['extends', 'c', 'a'],
    ])
    expect(rows).toEqual([
      { role: 'main', prompt: [1, 2], resp: [5, 9, 3, 8, 7], mask: [1, 1, 0, 0, 1] },
      { role: 'subagent', prompt: [1, 2, 5, 9, 3, 7], resp: [6], mask: [1] },
    ])
  })
})

describe('a client that is started again', () => {
  it('goes on with its conversation under another name', () => {
    const again: Lineage = { agent: 'resumed', parent: null, purpose: 'turn' }
    expect(read([call(MAIN, [1, 2], [5, 9]), call(again, [1, 2, 5, 9, 3], [6])]).edges).toEqual([['extends', 'b', 'a']])
  })
})

describe('a call for a summary that the client names', () => {
  const noTools = { toolCount: 0 }

  it.each([
    ['main', MAIN],
    ['subagent', sub('one')],
  ])('stands between the old history and the new one, and is trained as the agent’s own (%s)', (role, lineage) => {
    const { edges, rows } = read([
      call(MAIN, [9, 9], [8], { answer: spawning('s1') }),
      call(lineage, [1, 2], [5, 9], { answer: spawning('t1') }),
      call(compacting(lineage), [2, 5, 9, 3], [7, 7, 9], { record: noTools }),
      // Another agent's call in between changes nothing.
      call(sub('other'), [4, 4], [4]),
      call(lineage, [1, 8, 8], [6]),
    ])
    expect(edges.filter(([kind]) => kind === 'compaction_of')).toEqual([
      ['compaction_of', 'c', 'b'],
      ['compaction_of', 'e', 'c'],
    ])
    expect(rows.map((row) => row.role).slice(1)).toEqual([role, role, 'subagent', role])
    expect(rows[2]).toMatchObject({ mask: [1, 1, 1] })
  })

  it('is a turn of its chain where it goes on from the turn before', () => {
    const { edges, rows } = read([
      call(MAIN, [1, 2], [5, 9]),
      call(compacting(MAIN), [1, 2, 5, 9, 3], [7, 7, 9], { record: noTools }),
      call(MAIN, [1, 8, 8], [6]),
    ])
    expect(edges).toEqual([
      ['extends', 'b', 'a'],
      ['compaction_of', 'c', 'b'],
    ])
    expect(rows).toHaveLength(2)
  })

  it('is the agent’s own also when nothing comes after it', () => {
    const { rows } = read([call(MAIN, [1, 2], [5, 9]), call(compacting(MAIN), [2, 5, 9, 3], [7, 7, 9], { record: noTools })])
    expect(rows.map(({ role }) => role)).toEqual(['main', 'main'])
  })
})

describe('a summary that is known by what is said', () => {
  const SUMMARY = 'All that was asked for has been counted.'
  const step = { role: 'assistant', content: 'I count once more, up to the end.', tool_calls: [{ id: 't2' }] }
  const history = [TASK, { role: 'assistant', content: 'Begin.' }, { role: 'user', content: 'Go on.' }]
  const older = call(null, [1, 2], [5, 9], { messages: [TASK], answer: { role: 'assistant', content: 'Begin.' } })
  const latest = call(null, [1, 2, 5, 9, 3], [6, 7, 9], { messages: history, answer: step })
  const asking = call(null, [1, 2, 5, 9, 3, 4], [7, 7, 9], {
    messages: [...history, { role: 'user', content: 'TEXT ONLY' }],
    answer: { role: 'assistant', content: `<analysis>Counting.</analysis>\n<summary>\n${SUMMARY}\n</summary>` },
  })

  const kept = (summary: string) =>
    call(null, [1, 8, 6, 7, 9], [6], { messages: [{ role: 'user', content: `Before: ${summary}` }, step, result('t2', '1')] })

  it('is found without the tags it was asked for in, and so is what asked for it', () => {
    const { edges } = read([older, latest, asking, kept(SUMMARY)])
    expect(edges.filter(([kind]) => kind !== 'extends')).toEqual([
      ['compaction_of', 'c', 'b'],
      ['compaction_of', 'd', 'c'],
    ])
  })

  it('is never the last turn, which was kept beside it', () => {
    expect(read([older, latest, asking, kept('It was counted.')]).edges.at(-1)).toEqual(['compaction_of', 'd', 'c'])
  })

  it.each([
    ['a client that names no agents', null],
    ['a client that names the agent, and not what the call is for', { ...MAIN, purpose: null }],
  ])('is found when it was asked for in a conversation of its own, by %s', (_, lineage) => {
    const named = (toy: ToyCall): ToyCall => ({ ...toy, record: { ...toy.record, lineage } })
    const aside = call(lineage, [4, 4, 4], [7, 7, 9], {
      messages: [
        { role: 'system', content: 'You summarise.' },
        { role: 'user', content: 'Here is the conversation so far.' },
      ],
      answer: { role: 'assistant', content: SUMMARY },
      record: { toolCount: 0 },
    })
    const messages = [
      { role: 'user', content: 'What did we do?' },
      { role: 'assistant', content: SUMMARY },
      { role: 'user', content: 'Go on.' },
    ]
    const { edges, rows } = read([named(older), named(latest), aside, call(lineage, [1, 8], [6], { messages })])
    expect(edges.slice(1)).toEqual([
      ['compaction_of', 'c', 'b'],
      ['compaction_of', 'd', 'c'],
    ])
    expect(rows.map(({ role }) => role)).toEqual(['main', 'main', 'main'])
  })
})

describe('sub-agents of a client that names none', () => {
  const system = (content: string): Message => ({ role: 'system', content })
  const main = [system('You code.'), TASK]
  const sending = (id: string, ...errands: readonly string[]): Message => ({
    role: 'assistant',
    tool_calls: errands.map((prompt) => ({ id, function: { name: 'agent', arguments: JSON.stringify({ about: 'all', prompt }) } })),
  })
  const sent = (p: readonly number[], content: unknown, ...more: readonly Message[]): ToyCall =>
    call(null, p, [6, 9], { messages: [system('You look.'), { role: 'user', content: content as string }, ...more], answer: spawning('t') })
  const garden = 'Look around in the garden.'
  const house = 'Look around in the house.'

  it.each<[string, unknown]>([
    ['as it was put', house],
    ['with a few words around it', `Task: ${house}`],
    [
      'as one part of several',
      [
        { type: 'text', text: 'You have these skills, none of which is of any use for what you are asked to do.' },
        { type: 'text', text: house },
      ],
    ],
  ])('hang from the call that sent them off, though another works meanwhile: told %s', (_, told) => {
    const both = call(null, [1, 2], [5, 9], { messages: main, answer: sending('s', garden, house) })
    expect(read([both, sent([3, 4], garden), sent([3, 7], told)]).edges).toEqual([
      ['subagent_of', 'b', 'a'],
      ['subagent_of', 'c', 'a'],
    ])
  })

  it('are no compaction of one that worked before them', () => {
    const first = call(null, [1, 2], [5, 9], { messages: main, answer: sending('s1', garden) })
    const one = sent([3, 4], garden)
    const back = [...main, sending('s1', garden), result('s1', 'Nothing.')]
    const second = call(null, [1, 2, 5, 9, 8], [5, 9], { messages: back, answer: sending('s2', house) })
    const { edges } = read([first, one, sent([3, 4, 6, 9, 8], garden, spawning('t'), result('t', '1')), second, sent([3, 7], house)])
    expect(edges).toEqual([
      ['subagent_of', 'b', 'a'],
      ['extends', 'c', 'b'],
      ['extends', 'd', 'a'],
      ['subagent_of', 'e', 'd'],
    ])
  })

  it('are not whatever mentions a command', () => {
    const ran = call(null, [1, 2, 3], [5, 9], { messages: main, answer: sending('s', 'npm test') })
    const summary = 'The bug was found by `npm test`, and mended in the parser. Nothing is left but to say so.'
    const after = call(null, [1, 4], [6], { messages: [system('You code.'), { role: 'user', content: summary }] })
    expect(read([ran, after]).edges).toEqual([['compaction_of', 'b', 'a']])
  })
})

describe('a call that begins otherwise', () => {
  it.each([
    ['is a sub-agent’s where the client names none', null, [['subagent_of', 'b', 'a']], 'subagent'],
    ['is the agent’s own where the client names it', MAIN, [], 'main'],
  ])('%s', (_, lineage, edges, role) => {
    const opening = (system: string, content: string): Asked => ({
      messages: [
        { role: 'system', content: system },
        { role: 'user', content },
      ],
    })
    const told = read([
      call(lineage, [1, 2], [5, 9], opening('You code.', 'Fix the bug.')),
      call(lineage, [3, 4], [6], opening('You search.', 'Find the bug.')),
    ])
    expect(told.edges).toEqual(edges)
    expect(told.rows.map((row) => row.role)).toEqual(['main', role])
  })
})
