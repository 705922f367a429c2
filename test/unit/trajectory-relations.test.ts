// What a call is to the ones before it, when the messages are known.
import { describe, expect, it } from 'vitest'
import { assemble } from '../../src/trajectory/assemble.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { type ToyCall, toyInput } from './trajectory-calls.ts'

type Told = { readonly role: string; readonly content?: unknown; readonly reasoning_content?: string; readonly tool_calls?: unknown }
type TellingCall = Omit<ToyCall, 'record'> & {
  readonly messages: readonly Told[]
  readonly answer?: Told
  readonly tools?: unknown
  readonly finishReason?: 'stop' | 'tool_calls' | 'length'
}

const SYSTEM: Told = { role: 'system', content: 'You are a coding agent.' }
const TASK: Told = { role: 'user', content: 'Fix the bug.' }
const NEXT: Told = { role: 'user', content: 'Go on.' }
const said = (content: string, more: Partial<Told> = {}): Told => ({ role: 'assistant', content, ...more })

function edgesOf(calls: readonly TellingCall[], config: Readonly<Record<string, unknown>> = {}) {
  const pool: unknown[] = []
  const keep = (value: unknown) => pool.push(value) - 1
  const toys = calls.map(({ messages, answer, tools, finishReason = 'stop', ...tokens }): ToyCall => {
    const record = {
      promptMessages: messages.map(keep),
      responseMessage: answer === undefined ? null : keep(answer),
      tools: tools === undefined ? null : keep(tools),
      toolCount: Array.isArray(tools) ? tools.length : 0,
      finishReason,
    }
    return { ...tokens, record }
  })
  const built = assemble(toyInput(toys, pool), { strategy: 'prefix_merging', config }, buildPrefixMerging)
  if (!built.ok) throw new Error(built.error)
  const edges = built.trajectory.metadata.edges as { kind: string; call_id: string; of: string | null; drift: { class: string } | null }[]
  return {
    edges: edges.map(({ kind, call_id, of, drift }) => [kind, call_id, of, drift?.class ?? null]),
    roles: built.trajectory.traces.map(({ metadata }) => metadata.segment_role),
    traces: built.trajectory.traces,
  }
}

describe('rewritten turns', () => {
  const first = (answer: Told): TellingCall => ({ p: [1, 2], r: [7, 5, 6, 9], messages: [SYSTEM, TASK], answer })
  const second = (told: Told, prompt: readonly number[]): TellingCall => ({
    p: prompt,
    r: [8, 9],
    messages: [SYSTEM, TASK, told, NEXT],
    answer: said('done'),
  })

  it.each<[string, Told, Told, readonly number[], string]>([
    ['the agent leaves out the reasoning', said('ok', { reasoning_content: 'hm' }), said('ok'), [1, 2, 5, 6, 9, 3], 'D2'],
    [
      'the template leaves out reasoning the agent sent',
      said('ok', { reasoning_content: 'hm' }),
      said('ok', { reasoning_content: 'hm' }),
      [1, 2, 5, 6, 9, 3],
      'D2',
    ],
    [
      'an empty think block stands where the thoughts were',
      said('ok', { reasoning_content: 'hm' }),
      said('ok'),
      [1, 2, 40, 41, 5, 6, 9, 3],
      'D2',
    ],
    ['the same message has other tokens', said('fishing'), said('fishing'), [1, 2, 56, 9, 3], 'D1'],
    ['white space was trimmed', said('ok\n'), said('ok'), [1, 2, 7, 5, 9, 3], 'D5'],
    ['the text was edited', said('ok'), said('no'), [1, 2, 7, 8, 9, 3], 'D4'],
    [
      'tool arguments were written anew',
      said('', { tool_calls: [{ function: { arguments: '{"a": 1}' } }] }),
      said('', { tool_calls: [{ function: { arguments: '{"a":1}' } }] }),
      [1, 2, 7, 8, 9, 3],
      'D4',
    ],
  ])('%s', (_, sampled, told, prompt, drift) => {
    expect(edgesOf([first(sampled), second(told, prompt)]).edges).toEqual([['rewrites', 'msg_b', 'msg_a', drift]])
  })

  it('a turn that was cut by its limit and not kept whole', () => {
    const cut: TellingCall = { ...first(said('ok')), finishReason: 'length' }
    expect(edgesOf([cut, second(said('o'), [1, 2, 7, 5, 9, 3])]).edges).toEqual([['rewrites', 'msg_b', 'msg_a', 'D7']])
  })

  it('finds the turn that broke deep inside a chain', () => {
    const a = first(said('ok', { reasoning_content: 'hm' }))
    const b: TellingCall = {
      p: [1, 2, 7, 5, 6, 9, 3],
      r: [8, 9],
      messages: [SYSTEM, TASK, said('ok', { reasoning_content: 'hm' }), NEXT],
      answer: said('b'),
    }
    const c: TellingCall = {
      p: [1, 2, 5, 6, 9, 3, 8, 9, 3],
      r: [4, 9],
      messages: [SYSTEM, TASK, said('ok'), NEXT, said('b'), NEXT],
      answer: said('c'),
    }
    expect(edgesOf([a, b, c]).edges).toEqual([
      ['extends', 'msg_b', 'msg_a', null],
      ['rewrites', 'msg_c', 'msg_b', 'D2'],
    ])
  })

  describe('after a turn that held', () => {
    const held: TellingCall = { p: [1, 2], r: [5, 9], messages: [SYSTEM, TASK], answer: said('held') }
    const next: TellingCall = {
      p: [1, 2, 5, 9, 3, 4],
      r: [7, 6, 9],
      messages: [SYSTEM, TASK, said('held'), NEXT],
      answer: said('fishing'),
    }
    const extending = [
      ['extends', 'msg_b', 'msg_a', null],
      ['extends', 'msg_c', 'msg_a', null],
    ]

    it.each<[string, Told, readonly number[], string]>([
      ['the same message has other tokens', said('fishing'), [76, 9], 'D1'],
      ['the text was edited', said('hunting'), [7, 8, 9], 'D4'],
    ])('%s', (_, told, retold, drift) => {
      const c: TellingCall = {
        p: [1, 2, 5, 9, 3, 4, ...retold, 3, 4],
        r: [8, 9],
        messages: [...next.messages, told, NEXT],
        answer: said('c'),
      }
      const { edges, traces } = edgesOf([held, next, c])
      expect(edges).toEqual([...extending, ['rewrites', 'msg_c', 'msg_b', drift]])
      expect(traces.map(({ metadata }) => metadata.edge)).toContain('rewrites')
    })

    it('the turn was edited two turns later', () => {
      const c: TellingCall = {
        p: [...next.p, ...next.r, 3, 4],
        r: [8, 9],
        messages: [...next.messages, said('fishing'), NEXT],
        answer: said('c'),
      }
      const d: TellingCall = {
        p: [1, 2, 5, 9, 3, 4, 7, 8, 9, 3, 4, 8, 9, 3, 4],
        r: [6, 9],
        messages: [...next.messages, said('hunting'), NEXT, said('c'), NEXT],
        answer: said('d'),
      }
      expect(edgesOf([held, next, c, d]).edges.filter(([, call]) => call === 'msg_d')).toEqual([
        ['extends', 'msg_d', 'msg_a', null],
        ['rewrites', 'msg_d', 'msg_c', 'D4'],
      ])
    })

    it('is no break when a call goes on from there in its own way', () => {
      const other: Told = { role: 'user', content: 'Go somewhere else.' }
      const c: TellingCall = { p: [1, 2, 5, 9, 3, 12], r: [8, 9], messages: [SYSTEM, TASK, said('held'), other], answer: said('c') }
      expect(edgesOf([held, next, c]).edges).toEqual(extending)
    })

    it('is no break when the call is asked once more', () => {
      const { edges } = edgesOf([held, next, { ...next, r: [8, 9] }])
      expect(edges).toEqual([...extending, ['retry_of', 'msg_c', 'msg_b', 'D12']])
    })
  })

  it('a system prompt that changes under one conversation', () => {
    const other: Told = { role: 'system', content: 'You are a coding agent. It is 10:01.' }
    const later: TellingCall = { p: [1, 30, 2, 7, 5, 6, 9, 3], r: [8, 9], messages: [other, TASK, said('ok'), NEXT], answer: said('done') }
    expect(edgesOf([first(said('ok')), later]).edges).toEqual([['rewrites', 'msg_b', 'msg_a', 'D8']])
  })

  it('a tool list that changes under one conversation', () => {
    const a: TellingCall = { ...first(said('ok')), tools: [{ name: 'read' }] }
    const b: TellingCall = { ...second(said('ok'), [1, 30, 2, 7, 5, 6, 9, 3]), tools: [{ name: 'read' }, { name: 'write' }] }
    const { edges, traces } = edgesOf([a, b])
    expect(edges).toEqual([['rewrites', 'msg_b', 'msg_a', 'D11']])
    expect(new Set(traces.map(({ metadata }) => metadata.tool_schema_digest)).size).toBe(2)
  })
})

describe('sub-agents', () => {
  const tools = [{ name: 'task' }]
  const parent: TellingCall = {
    p: [1, 2],
    r: [5, 9],
    messages: [SYSTEM, TASK],
    answer: said('', { tool_calls: [{}] }),
    tools,
    finishReason: 'tool_calls',
  }
  const child: TellingCall = {
    p: [1, 4],
    r: [6, 9],
    messages: [
      { role: 'system', content: 'You explore.' },
      { role: 'user', content: 'Look around.' },
    ],
    answer: said('found'),
    tools: [{ name: 'grep' }],
  }
  const back: TellingCall = {
    p: [1, 2, 5, 9, 3],
    r: [7, 9],
    messages: [SYSTEM, TASK, said('', { tool_calls: [{}] }), { role: 'tool', content: 'found' }],
    answer: said('done'),
    tools,
  }

  it('hang from the tool call that spawned them', () => {
    const { edges, roles } = edgesOf([parent, child, back])
    expect(edges).toEqual([
      ['subagent_of', 'msg_b', 'msg_a', null],
      ['extends', 'msg_c', 'msg_a', null],
    ])
    expect(roles).toEqual(['main', 'subagent'])
  })

  it('that run side by side hang from the same tool call', () => {
    const sibling: TellingCall = { ...child, p: [1, 40], messages: [child.messages[0]!, { role: 'user', content: 'Look elsewhere.' }] }
    expect(edgesOf([parent, child, sibling, back]).edges.slice(0, 2)).toEqual([
      ['subagent_of', 'msg_b', 'msg_a', null],
      ['subagent_of', 'msg_c', 'msg_a', null],
    ])
  })

  it("with the parent's own head are told from a compaction by the parent going on", () => {
    const longer = { ...parent, messages: [SYSTEM, TASK, NEXT] }
    const fork: TellingCall = {
      p: [1, 4],
      r: [6, 9],
      messages: [SYSTEM, { role: 'user', content: 'Look around.' }],
      answer: said('found'),
      tools,
    }
    const { edges, roles } = edgesOf([longer, fork, back])
    expect(edges[0]).toEqual(['subagent_of', 'msg_b', 'msg_a', null])
    expect(roles).toEqual(['main', 'subagent'])
  })
})

describe('side calls before the first turn', () => {
  const tools = [{ name: 'read' }]
  const title: TellingCall = {
    p: [1, 4],
    r: [6, 9],
    messages: [{ role: 'system', content: 'Write a title.' }, TASK],
    answer: said('Bug fix'),
  }
  const more: TellingCall = { p: [1, 4, 6, 9, 3], r: [5, 9], messages: [...title.messages, said('Bug fix'), NEXT], answer: said('Shorter') }
  const main: TellingCall = { p: [1, 2], r: [7, 9], messages: [SYSTEM, TASK], answer: said('ok'), tools }

  it('do not make the agent a side call, whatever they share with it', () => {
    expect(edgesOf([title, main]).roles).toEqual(['aux', 'main'])
  })
  it('spawn no agent, though they open otherwise', () => {
    const asking: TellingCall = { ...title, messages: [title.messages[0]!, { role: 'user', content: 'A title for this:' }, TASK] }
    const { roles, edges } = edgesOf([asking, main])
    expect(roles).toEqual(['aux', 'main'])
    expect(edges).toEqual([['aux', 'msg_a', null, null]])
  })
  it('stay side calls while they go on without tools', () => {
    const { roles, traces } = edgesOf([title, more, main])
    expect(roles).toEqual(['aux', 'main'])
    expect([...traces[0]!.loss_mask]).toEqual([0, 0, 0, 0, 0])
  })
})

describe('compaction', () => {
  const grown: TellingCall = {
    p: [1, 2, 5, 9, 3],
    r: [7, 8, 9],
    messages: [SYSTEM, TASK, said('a'), { role: 'user', content: 'Summarise.' }],
    answer: said('The bug is in the parser, line 3.'),
  }
  const fresh = (content: string): TellingCall => ({
    p: [1, 40, 41],
    r: [6, 9],
    messages: [SYSTEM, { role: 'user', content }],
    answer: said('going on'),
  })
  const begin: TellingCall = { p: [1, 2], r: [5, 9], messages: [SYSTEM, TASK], answer: said('a') }

  it('is known by the summary in the new prompt, though its tokens differ', () => {
    const { edges, roles } = edgesOf([begin, grown, fresh('Before: The bug is in the parser, line 3. Continue.')])
    expect(edges.at(-1)).toEqual(['compaction_of', 'msg_c', 'msg_b', 'D9'])
    expect(roles).toEqual(['main', 'main'])
  })

  it('is known by an old head with a shorter history when nothing goes on with the old one', () => {
    expect(edgesOf([begin, grown, fresh('Some paraphrase.')]).edges.at(-1)).toEqual(['compaction_of', 'msg_c', 'msg_b', 'D9'])
  })

  it('that keeps the first message is known by the shorter history', () => {
    const kept: TellingCall = {
      p: [1, 2, 40],
      r: [6, 9],
      messages: [SYSTEM, TASK, { role: 'user', content: 'Some paraphrase.' }],
      answer: said('going on'),
    }
    expect(edgesOf([begin, grown, kept]).edges.at(-1)).toEqual(['compaction_of', 'msg_c', 'msg_b', 'D9'])
  })
})

describe('splicing with messages', () => {
  const a: TellingCall = { p: [1, 2], r: [5, 9], messages: [SYSTEM, TASK], answer: said('a') }

  it('joins a fully retokenised turn only if an assistant message stands in its place and some token agrees', () => {
    const told: TellingCall = { p: [1, 2, 5, 8, 9, 3], r: [6, 9], messages: [SYSTEM, TASK, said('a '), NEXT], answer: said('b') }
    const { edges, traces } = edgesOf([a, told], { splice: true })
    expect(traces).toHaveLength(1)
    expect(edges).toEqual([['extends', 'msg_b', 'msg_a', 'D5']])
  })

  it('does not join a request that never tells the turn', () => {
    const other: TellingCall = {
      p: [1, 2, 5, 8, 9, 3],
      r: [6, 9],
      messages: [SYSTEM, TASK, { role: 'user', content: 'And?' }],
      answer: said('b'),
    }
    expect(edgesOf([a, other], { splice: true }).traces).toHaveLength(2)
  })
})

describe('messages of a row', () => {
  it('are the first prompt, then each answer and what the next request adds', () => {
    const a: TellingCall = { p: [1], r: [2], messages: [SYSTEM, TASK], answer: said('a') }
    const b: TellingCall = { p: [1, 2, 3], r: [4], messages: [SYSTEM, TASK, said('a'), NEXT], answer: said('b') }
    const { traces } = edgesOf([a, b])
    expect(traces.map(({ prompt_messages, response_messages }) => [prompt_messages, response_messages])).toEqual([
      [
        [SYSTEM, TASK],
        [said('a'), NEXT, said('b')],
      ],
    ])
  })
})
