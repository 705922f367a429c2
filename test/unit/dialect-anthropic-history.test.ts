// Anthropic conversations: one message per turn, everything in its place, and our own answers back byte for byte.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AnswerMessage } from '../../src/proxy/chat.ts'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import { signatureOf } from '../../src/proxy/dialects/signature.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { openRecall } from '../../src/proxy/recall.ts'
import {
  accepted,
  answered,
  asked,
  BILLING,
  CALL,
  called,
  codes,
  context,
  image,
  messages,
  refused,
  result,
  said,
  shown,
  told,
  tool,
  use,
  user,
  words,
} from '../lib/anthropic-requests.ts'

describe('the system prompt', () => {
  it.each([
    { system: 'S', head: 'S' },
    { system: [words('A'), words('B')], head: 'A\nB' },
    { system: [{ ...words('A'), cache_control: { type: 'ephemeral' } }, words('B')], head: 'A\nB' },
    { system: [words('A'), image], head: [words('A'), shown] },
  ])('$system becomes $head', ({ system, head }) => {
    expect(messages([user], system)).toEqual([told(head), user])
  })

  it.each([{ system: undefined }, { system: null }, { system: '' }, { system: [] }])('$system is none', ({ system }) => {
    expect(messages([user], system)).toEqual([user])
  })

  it.each([
    { system: [words(BILLING), words('You are.')], head: 'You are.' },
    { system: [words('You are.'), words(BILLING)], head: 'You are.' },
    { system: [words(`${BILLING}\nYou are.`)], head: 'You are.' },
    { system: `${BILLING}\nYou are.`, head: 'You are.' },
    { system: `${BILLING}\r\n\r\nYou are.`, head: 'You are.' },
    { system: `${BILLING}\n${BILLING}\nYou are.`, head: 'You are.' },
    { system: `You are.\n${BILLING}`, head: `You are.\n${BILLING}` },
    { system: BILLING, head: null },
    { system: [words(BILLING)], head: null },
  ])('loses the billing line of $system (TI-01)', ({ system, head }) => {
    expect(messages([user], system)).toEqual(head === null ? [user] : [told(head), user])
  })

  it('is the same for two turns whose billing lines differ, and what follows only grows (TI-01)', () => {
    const system = (hash: string) => [words(BILLING.replace('11111', hash)), words('You are a coding agent.')]
    const first = messages([user], system('11111'))
    const second = messages([user, said([words('Hello.')]), asked('go on')], system('22222'))
    expect(second.slice(0, first.length)).toEqual(first)
    expect(first[0]).toEqual(told('You are a coding agent.'))
  })

  it('loses it between messages as well, but users and tools may say it (TI-01)', () => {
    const given = [asked(BILLING), told(`${BILLING}\nnote`), said([use('t1')]), asked([result('t1', BILLING), words(BILLING)])]
    expect(messages(given)).toEqual([
      asked(BILLING),
      told('note'),
      { role: 'assistant', content: null, tool_calls: [called('t1')] },
      answered('t1', BILLING),
      asked(BILLING),
    ])
  })
})

describe('system messages among the others', () => {
  const turn1 = [asked('task'), told('<total_tokens>1000 left</total_tokens>')]
  const turn2 = [
    ...turn1,
    said([{ ...use('toolu_1', { command: 'ls' }), name: 'Bash' }]),
    asked([result('toolu_1', 'a.txt')]),
    told([words('<total_tokens>900 left</total_tokens>')]),
  ]

  it('keep their places, so that a later turn extends an earlier one (TI-02)', () => {
    const first = messages(turn1, 'S')
    const second = messages(turn2, 'S')
    expect(second.slice(0, first.length)).toEqual(first)
    expect(second.map(({ role }) => role)).toEqual(['system', 'user', 'system', 'assistant', 'tool', 'system'])
    expect(second.at(-1)).toEqual(told('<total_tokens>900 left</total_tokens>'))
  })

  it('go behind the result when they stand between it and its call (TI-02)', () => {
    const body = { messages: [user, said([use('a'), use('b')]), told('one'), told('two'), asked([result('a', 'A'), result('b', 'B')])] }
    expect(accepted(body).request.messages).toEqual([
      user,
      { role: 'assistant', content: null, tool_calls: [called('a'), called('b')] },
      answered('a', 'A'),
      answered('b', 'B'),
      told('one'),
      told('two'),
    ])
    expect(codes(body)).toEqual(['order-approximated', 'order-approximated'])
  })

  it('join the prompt when they lead', () => {
    expect(messages([told('D'), user], 'S')).toEqual([told('S\n\nD'), user])
  })

  it('that only change effort or tools say nothing to the model', () => {
    const body = {
      messages: [user, { role: 'system', output_config: { effort: 'low' } }, told([{ type: 'tool_removal', tool: { name: 'f' } }])],
    }
    expect(accepted(body).request.messages).toEqual([user])
    expect(accepted(body).diagnostics).toEqual([{ code: 'block-dropped', detail: 'messages[2].content[0]: tool_removal' }])
  })
})

describe('user messages', () => {
  it.each([
    { given: 'a', sent: 'a' },
    { given: [words('a')], sent: 'a' },
    { given: [{ ...words('a'), cache_control: { type: 'ephemeral' } }], sent: 'a' },
    { given: [words('a'), words('b')], sent: 'a\nb' },
    { given: [words('a'), image], sent: [words('a'), shown] },
    { given: [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'D' } }], sent: 'D' },
    { given: [{ type: 'document', title: 'T', context: 'C', source: { type: 'content', content: 'D' } }], sent: 'T\nC\nD' },
    { given: [{ type: 'document', source: { type: 'content', content: [words('D'), image] } }], sent: [words('D'), shown] },
    { given: [{ type: 'search_result', source: 's', title: 't', content: [words('c')] }], sent: 't\ns\nc' },
    { given: [{ type: 'search_result', source: '', title: '', content: [words('c')] }], sent: 'c' },
  ])('$given become $sent', ({ given, sent }) => {
    const call = accepted({ messages: [asked(given)] })
    expect(call.request.messages).toEqual([asked(sent)])
    expect(call.diagnostics).toEqual([])
  })
})

it('what nobody knows of a message or a block is dropped with a note', () => {
  const odd = { mood: 1 }
  const given = [
    { ...user, ...odd },
    {
      ...said([
        { ...words('T'), ...odd },
        { ...use('a'), ...odd },
        { type: 'thinking', thinking: 'R', signature: signatureOf(CALL), ...odd },
      ]),
      ...odd,
    },
    asked([
      { ...result('a', [{ ...words('r'), ...odd }]), ...odd },
      { ...words('x'), ...odd },
      { ...image, ...odd },
    ]),
    { ...told('note'), clear_at: 'next_user_message' },
  ]
  expect(accepted({ messages: given }).diagnostics.filter(({ code }) => code === 'field-dropped')).toEqual(
    [
      '[0].mood',
      '[1].mood',
      '[1].content[0].mood',
      '[1].content[1].mood',
      '[1].content[2].mood',
      '[2].content[0].mood',
      '[2].content[0].content[0].mood',
      '[2].content[1].mood',
      '[2].content[2].mood',
      '[3].clear_at',
    ].map((place) => ({ code: 'field-dropped', detail: `messages${place}` })),
  )
})

describe('tool results', () => {
  const history = (content: readonly unknown[]) => ({ messages: [user, said([use('a'), use('b')]), asked(content)] })
  const afterCalls = (content: readonly unknown[]) => accepted(history(content)).request.messages.slice(2)

  it.each([
    { given: result('a', 'x'), sent: 'x' },
    { given: result('a', [words('x'), words('y')]), sent: 'x\ny' },
    { given: result('a'), sent: '' },
    { given: { ...result('a', 'x'), is_error: true }, sent: '[Tool Error] x' },
    { given: { ...result('a', 'x'), is_error: false, cache_control: { type: 'ephemeral' } }, sent: 'x' },
    { given: result('a', [{ type: 'tool_reference', tool_name: 'Read' }]), sent: '[tool_reference: Read]' },
    { given: result('a', [{ type: 'document', source: { type: 'text', data: 'D' } }]), sent: 'D' },
  ])('$given becomes a tool message', ({ given, sent }) => {
    expect(afterCalls([given])).toEqual([answered('a', sent)])
    expect(codes(history([given]))).toEqual([])
  })

  it('come before what the user says beside them, with a note when that stood first', () => {
    const sent = [answered('a', 'A'), answered('b', 'B'), asked('before\nafter')]
    expect(afterCalls([words('before'), result('a', 'A'), result('b', 'B'), words('after')])).toEqual(sent)
    expect(accepted(history([words('before'), result('a', 'A')])).diagnostics).toEqual([
      { code: 'order-approximated', detail: 'messages[2].content[1]: moved before what stood in front of it' },
    ])
    expect(codes(history([result('a', 'A'), words('after')]))).toEqual([])
  })

  it('give their images to the user message that follows, before its own words', () => {
    expect(afterCalls([result('a', [words('seen'), image]), result('b', 'B'), words('look')])).toEqual([
      answered('a', 'seen'),
      answered('b', 'B'),
      asked([shown, words('look')]),
    ])
    expect(afterCalls([result('a', [image])])).toEqual([answered('a', ''), asked([shown])])
  })

  it('without a call are refused by id', () => {
    const failure = refused({ messages: [asked([result('toolu_gone', 'x')])] })
    expect(failure).toMatchObject({ code: 'invalid-request', status: 400, param: 'messages' })
    expect(failure.message).toContain('"toolu_gone"')
  })
})

describe('assistant turns', () => {
  const signature = signatureOf(CALL)
  it.each([
    { given: 'T', sent: { content: 'T' } },
    { given: [], sent: { content: '' } },
    { given: [words('')], sent: { content: '' } },
    { given: [words('T')], sent: { content: 'T' } },
    { given: [{ ...words('T'), citations: [] }], sent: { content: 'T' } },
    { given: [words('T'), words(''), words('U')], sent: { content: 'T\nU' } },
    { given: [words('T'), use('a')], sent: { content: 'T', tool_calls: [called('a')] } },
    { given: [use('a', { b: 1 }), use('c')], sent: { content: null, tool_calls: [called('a', '{"b":1}'), called('c')] } },
    { given: [{ ...use('a'), input: undefined, caller: { type: 'direct' } }], sent: { content: null, tool_calls: [called('a')] } },
    {
      given: [{ type: 'thinking', thinking: ' R\n', signature }, words('T')],
      sent: { content: 'T', reasoning_content: ' R\n', origin: CALL },
    },
    { given: [{ type: 'thinking', thinking: '', signature }, words('T')], sent: { content: 'T', origin: CALL } },
    { given: [{ type: 'redacted_thinking', data: signature }, words('T')], sent: { content: 'T', origin: CALL } },
    { given: [{ type: 'compaction', content: 'So far.', encrypted_content: 'e' }], sent: { content: 'So far.' } },
  ])('$given become one message', ({ given, sent }) => {
    const body = { messages: [user, said(given), asked('next')] }
    expect(accepted(body).request.messages[1]).toEqual({ role: 'assistant', ...sent })
    expect(codes(body)).toEqual([])
  })

  it('keep the exact reasoning, whatever its signature, and redacted reasoning is ignored with a note (TI-12)', () => {
    const history = (block: object) => ({
      messages: [user, said([block, words('T'), use('toolu_1')]), asked([result('toolu_1', 'ok')])],
    })
    for (const signature of ['gateway-made', '', undefined]) {
      const body = history({ type: 'thinking', thinking: 'R\n', signature })
      expect(accepted(body).request.messages).toEqual([
        user,
        { role: 'assistant', content: 'T', reasoning_content: 'R\n', tool_calls: [called('toolu_1')] },
        answered('toolu_1', 'ok'),
      ])
      expect(accepted(body).diagnostics).toEqual([{ code: 'signature-unknown', detail: 'messages[1].content[0]' }])
    }
    const redacted = history({ type: 'redacted_thinking', data: 'zz' })
    expect(accepted(redacted).request.messages[1]).toEqual({ role: 'assistant', content: 'T', tool_calls: [called('toolu_1')] })
    expect(codes(redacted)).toEqual(['signature-unknown'])
    expect(JSON.stringify(accepted(history({ type: 'thinking', thinking: 'R', signature: 'secret' })).request)).not.toContain('secret')
  })

  it('in several messages are one turn, unless they answered two calls', () => {
    const thought = (call: string) => ({ type: 'thinking', thinking: 'R', signature: signatureOf(call) })
    const parts = [said([thought(CALL)]), said([words('T')]), said('U'), said([use('a')])]
    expect(messages([user, ...parts, asked([result('a', 'x')])])).toEqual([
      user,
      { role: 'assistant', content: 'T\nU', reasoning_content: 'R', tool_calls: [called('a')], origin: CALL },
      answered('a', 'x'),
    ])
    const two = messages([user, said([thought(CALL), words('T')]), said([thought('cd'.repeat(16)), words('U')]), user])
    expect(two.map(({ role }) => role)).toEqual(['user', 'assistant', 'assistant', 'user'])
  })

  it.each([
    { given: [use('a'), words('T')], place: 1 },
    { given: [words('T'), { type: 'thinking', thinking: 'R', signature }], place: 1 },
  ])('out of order are put into the order of the template, with a note: $given', ({ given, place }) => {
    expect(accepted({ messages: [user, said(given), user] }).diagnostics).toEqual([
      { code: 'order-approximated', detail: `messages[1].content[${place}]` },
    ])
  })

  it('that stand last are no prefix of the answer, and that is noted', () => {
    expect(codes({ messages: [user, said('The answer is')] })).toEqual(['prefill-ignored'])
  })

  it('lose what the vendor’s servers did, by type and with a note (TI-19)', () => {
    const body = {
      messages: [
        user,
        said([
          { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} },
          { type: 'web_search_tool_result', tool_use_id: 's1', content: [] },
          words('Found.'),
        ]),
        user,
      ],
    }
    expect(accepted(body).request.messages[1]).toEqual(said('Found.'))
    expect(accepted(body).diagnostics).toEqual([
      { code: 'block-dropped', detail: 'messages[1].content[0]: server_tool_use' },
      { code: 'block-dropped', detail: 'messages[1].content[1]: web_search_tool_result' },
    ])
  })
})

describe('what came back restores what was sampled', () => {
  const echo = (given: AnswerMessage) => {
    let fresh = 0
    const recall = openRecall(() => `call_${fresh++}`)
    const read = anthropic.read({ model: 'm', messages: [user] }, context('train'))
    if (!read.ok) throw new Error(read.failure.message)
    const answer = {
      message: recall.remember(CALL, given, read.reply.echo),
      finishReason: 'stop' as const,
      usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null, reasoningTokens: null },
      stopSequence: null,
      logprobs: null,
    }
    const { content } = JSON.parse(read.reply.plain(answer, { id: CALL, createdSeconds: 0, model: 'm' }))
    const results = (answer.message.tool_calls ?? []).map(({ id }) => result(id, 'ok'))
    return { content, restored: recall.restore(messages([user, said(content), asked([...results, words('next')])])).messages }
  }

  it.each([
    '{"path": "a.txt", "limit": 10}',
    '{"10": "b", "2": "a"}',
    '{"x": 1.0, "id": 12345678901234567890}',
    '{"s": "caf\\u00e9"}',
    '{"a": 1, "a": 2}',
    '',
    '{"broken',
    '[1]',
  ])('arguments %s, byte for byte (TI-03)', (text) => {
    const given: AnswerMessage = {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: text } }],
    }
    expect(echo(given).restored[1]).toEqual(given)
  })

  it.each([
    { role: 'assistant', content: '\n\nT ', reasoning_content: ' R\n' },
    { role: 'assistant', content: null, reasoning_content: 'R' },
    { role: 'assistant', content: null },
  ] as const)('%o', (given) => {
    expect(echo(given).restored[1]).toEqual(given)
  })

  it('ids that an engine made and this API refuses, in calls and results (TI-08)', () => {
    const given: AnswerMessage = {
      role: 'assistant',
      content: null,
      tool_calls: ['functions.Bash:0', 'chatcmpl-tool-1', 'call a/b'].map((id) => ({
        id,
        type: 'function',
        function: { name: 'f', arguments: '{}' },
      })),
    }
    const { content, restored } = echo(given)
    for (const { id } of content) expect(id).toMatch(/^[A-Za-z0-9_-]+$/)
    expect(content[1].id).toBe('chatcmpl-tool-1')
    expect(restored[1]).toEqual(given)
    expect(restored.slice(2, 5)).toMatchObject([
      { tool_call_id: 'functions.Bash:0' },
      { tool_call_id: 'chatcmpl-tool-1' },
      { tool_call_id: 'call a/b' },
    ])
  })
})

it('passes ids it has not seen (TI-08)', () => {
  for (const id of ['toolu_01AbC', 'functions.Bash:0', 'call a/b']) {
    expect(messages([user, said([use(id)]), asked([result(id, 'x')])]).slice(1)).toEqual([
      { role: 'assistant', content: null, tool_calls: [called(id)] },
      answered(id, 'x'),
    ])
  }
})

describe('moving cache marks', () => {
  it('never change what the engine is sent', () => {
    const block = fc.constantFrom<JsonObject>(
      words('w'),
      image,
      { type: 'document', source: { type: 'text', data: 'D' } },
      { type: 'search_result', source: 's', title: 't', content: [words('c')] },
      { type: 'tool_reference', tool_name: 'Read' },
    )
    const marked = (given: JsonObject, mark: boolean): JsonObject => (mark ? { ...given, cache_control: { type: 'ephemeral' } } : given)
    fc.assert(
      fc.property(
        fc.array(block, { minLength: 1, maxLength: 4 }),
        fc.array(fc.boolean(), { minLength: 9, maxLength: 9 }),
        (blocks, marks) => {
          const body = (mark: (index: number) => boolean): JsonObject => ({
            system: [marked(words('S'), mark(0)), marked(words('P'), mark(1))],
            tools: [marked(tool, mark(2))],
            messages: [
              asked(blocks.map((each, index) => marked(each, mark(3 + index)))),
              said([marked(words('T'), mark(7)), marked(use('a'), mark(8))]),
              asked([marked(result('a', [marked(words('r'), mark(0))]), mark(1)), marked(words('u'), mark(2))]),
            ],
          })
          const plain = accepted(body(() => false))
          const other = accepted(body((index) => marks[index] === true))
          expect(other.request).toEqual(plain.request)
          expect(other.diagnostics).toEqual([])
        },
      ),
    )
  })
})
