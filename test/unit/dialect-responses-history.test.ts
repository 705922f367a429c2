// OpenAI Responses history: items become the messages an engine was sent and sampled, one turn one assistant message.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { signatureOf } from '../../src/proxy/dialects/signature.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { accepted, CALL, call, messagesOf, OTHER_CALL, refused, said } from '../lib/responses-fixture.ts'

const user = (content: unknown): JsonObject => ({ type: 'message', role: 'user', content })
const developer = (text: string): JsonObject => ({ type: 'message', role: 'developer', content: [{ type: 'input_text', text }] })
const wrote = (text: string, rest: JsonObject = {}): JsonObject => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text }],
  ...rest,
})
const thought = (text: string, rest: JsonObject = {}): JsonObject => ({
  type: 'reasoning',
  summary: [],
  content: [{ type: 'reasoning_text', text }],
  ...rest,
})
const called = (id: string, rest: JsonObject = {}): JsonObject => ({
  type: 'function_call',
  call_id: id,
  name: 'f',
  arguments: '{}',
  ...rest,
})
const gave = (id: string, output: unknown): JsonObject => ({ type: 'function_call_output', call_id: id, output })
const result = (id: string, content: string): JsonObject => ({ role: 'tool', tool_call_id: id, content })
const go = { role: 'user', content: 'go' }

describe('TI-09: the items of one turn', () => {
  const turn = said({ content: 'T', reasoning_content: 'R', tool_calls: [call('a', '{}'), call('b', '{}')] })
  const results = [gave('b', '2'), gave('a', '1')]
  const [r, t, a, b] = [thought('R'), wrote('T'), called('a'), called('b')]

  it.each([
    { order: 'as they were told', items: [r, t, a, b] },
    { order: 'with the message after the calls', items: [r, a, b, t] },
    { order: 'with the message between the calls', items: [r, a, t, b] },
    { order: 'with the reasoning last', items: [t, a, b, r] },
  ])('are one assistant message, then the results in call order: $order', ({ items }) => {
    expect(messagesOf([go, ...items, ...results])).toEqual([go, turn, result('a', '1'), result('b', '2')])
  })

  it('are one message in any order whatever', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([r, t, a, b], { minLength: 4 }), (items) => {
        const [, assistant] = messagesOf([go, ...items])
        expect(assistant).toMatchObject({ role: 'assistant', content: 'T', reasoning_content: 'R' })
        expect(assistant?.role === 'assistant' ? assistant.tool_calls?.map(({ id }) => id).sort() : []).toEqual(['a', 'b'])
      }),
    )
  })

  it('end with a result: what is said next is the next turn', () => {
    expect(messagesOf([go, a, gave('a', '1'), t, b, gave('b', '2'), wrote('U')])).toEqual([
      go,
      said({ tool_calls: [call('a', '{}')] }),
      result('a', '1'),
      said({ content: 'T', tool_calls: [call('b', '{}')] }),
      result('b', '2'),
      said({ content: 'U' }),
    ])
  })

  it('stay one turn when results stand between them and they name one answer', () => {
    const of = (place: number, kind = 'fc') => ({ id: `${kind}_${CALL}_${place}` })
    const items = [called('a', of(0)), gave('a', '1'), called('b', of(1)), gave('b', '2'), wrote('U', { id: `msg_${OTHER_CALL}_0` })]
    expect(messagesOf([go, ...items])).toEqual([
      go,
      said({ tool_calls: [call('a', '{}'), call('b', '{}')], origin: CALL }),
      result('a', '1'),
      result('b', '2'),
      said({ content: 'U', origin: OTHER_CALL }),
    ])
  })

  it('are two turns when they name two answers', () => {
    expect(messagesOf([go, wrote('T', { id: `msg_${CALL}_0` }), wrote('U', { id: `msg_${OTHER_CALL}_0` })])).toEqual([
      go,
      said({ content: 'T', origin: CALL }),
      said({ content: 'U', origin: OTHER_CALL }),
    ])
  })

  it("are not told apart by another server's ids", () => {
    const id = 'a'.repeat(32)
    expect(messagesOf([go, wrote('T', { id: `msg_${id}` }), called('a', { id: `fc_${CALL}` })])).toEqual([
      go,
      said({ content: 'T', tool_calls: [call('a', '{}')] }),
    ])
  })

  it('leave nothing behind when there is nothing in them', () => {
    expect(messagesOf([go, { type: 'reasoning', summary: [], encrypted_content: null }, go])).toEqual([go, go])
  })
})

describe('TI-09: outputs', () => {
  const shown = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } }
  const image = { type: 'input_image', image_url: 'data:image/png;base64,AA' }
  const parts = [{ type: 'input_text', text: 'one' }, image, { type: 'output_text', text: 'two' }]

  it.each<{ output: unknown; text: string }>([
    { output: 'plain\n', text: 'plain\n' },
    { output: '', text: '' },
    { output: [{ type: 'input_text', text: 'one' }], text: 'one' },
    { output: { output: 'inner' }, text: 'inner' },
    { output: { body: [{ type: 'text', text: 'inner' }] }, text: 'inner' },
    { output: { content: 'inner', success: true }, text: 'inner' },
    { output: { output: { content: 'deep' } }, text: 'deep' },
    { output: { ok: true }, text: '{"ok":true}' },
    { output: 7, text: '7' },
  ])('of the shape $output are the text of a tool message', ({ output, text }) => {
    expect(messagesOf([called('a'), gave('a', output)])).toEqual([said({ tool_calls: [call('a', '{}')] }), result('a', text)])
  })

  it('give their images to a user message after all results: tool messages hold text, and nothing may stand between results', () => {
    const read = accepted({ input: [called('a'), called('b'), gave('b', [image]), gave('a', parts), go] })
    expect(read.request.messages.slice(1)).toEqual([
      result('a', 'one\ntwo'),
      result('b', ''),
      { role: 'user', content: [shown, shown] },
      go,
    ])
    expect(read.diagnostics).toEqual([
      { code: 'order-approximated', detail: 'input[2]: images follow the results' },
      { code: 'order-approximated', detail: 'input[3]: images follow the results' },
    ])
  })

  it('without a matching call are refused with the id of the call', () => {
    const failure = refused({ input: [go, called('a'), gave('call_9', 'x')] })
    expect(failure).toMatchObject({ code: 'invalid-request', status: 400, param: 'input[2].call_id' })
    expect(failure.message).toContain('"call_9"')
  })

  it('follow their call directly although a note stood between, and that is said', () => {
    const read = accepted({ input: [go, called('a'), developer('note'), gave('a', '1'), go] })
    expect(read.request.messages).toEqual([
      go,
      said({ tool_calls: [call('a', '{}')] }),
      result('a', '1'),
      { role: 'system', content: 'note' },
      go,
    ])
    expect(read.diagnostics).toEqual([{ code: 'order-approximated', detail: 'input[3]' }])
  })

  it('stay where they came when a later turn was sampled without them', () => {
    expect(messagesOf([go, called('a'), go, wrote('T'), go, gave('a', '1'), go])).toEqual([
      go,
      said({ tool_calls: [call('a', '{}')] }),
      go,
      said({ content: 'T' }),
      go,
      result('a', '1'),
      go,
    ])
  })

  it('belong to the last call of an id that a client uses again', () => {
    expect(messagesOf([called('a'), gave('a', '1'), go, called('a'), gave('a', '2')])).toEqual([
      said({ tool_calls: [call('a', '{}')] }),
      result('a', '1'),
      go,
      said({ tool_calls: [call('a', '{}')] }),
      result('a', '2'),
    ])
  })

  it('are the user’s words where a tool speaks that nobody called', () => {
    const goal = { type: 'function_call_output', id: 'fco_1', namespace: 'agent', name: 'goal_objective', output: 'win' }
    const shown = { type: 'input_image', image_url: 'data:image/png;base64,AA==' }
    const read = accepted({ input: [called('a'), gave('a', '1'), goal, { ...goal, output: [shown] }, wrote('T')] })
    expect(read.request.messages.slice(1)).toEqual([
      result('a', '1'),
      { role: 'user', content: 'agent__goal_objective:\nwin' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'agent__goal_objective:\n' },
          { type: 'image_url', image_url: { url: shown.image_url } },
        ],
      },
      said({ content: 'T' }),
    ])
    expect(read.diagnostics.map(({ code }) => code)).toEqual(['role-approximated', 'role-approximated'])
    expect(refused({ input: [{ ...goal, name: undefined }] }).param).toBe('input[0].call_id')
  })

  it('count once for each call', () => {
    const read = accepted({ input: [called('a'), gave('a', '1'), gave('a', '2')] })
    expect(read.request.messages.slice(1)).toEqual([result('a', '1')])
    expect(read.diagnostics).toEqual([{ code: 'block-dropped', detail: 'input[2]: a second result of one call' }])
  })
})

describe('TI-10: instructions and developer messages', () => {
  const input = [developer('D'), user([{ type: 'input_text', text: 'env' }]), user([{ type: 'input_text', text: 'task' }])]
  const head = [
    { role: 'system', content: 'I\n\nD' },
    { role: 'user', content: 'env' },
    { role: 'user', content: 'task' },
  ]

  it('become one system message at the head, in order', () => {
    expect(messagesOf(input, { instructions: 'I' })).toEqual(head)
    expect(messagesOf(input, { instructions: '' })).toEqual([{ role: 'system', content: 'D' }, ...head.slice(1)])
  })

  it('stay in place when they come later, and the head keeps its bytes', () => {
    const later = [...input, wrote('T'), { role: 'developer', content: 'late note' }]
    expect(messagesOf(later, { instructions: 'I' })).toEqual([...head, said({ content: 'T' }), { role: 'system', content: 'late note' }])
  })
})

describe('TI-12: reasoning items', () => {
  it.each<{ item: JsonObject; message: JsonObject }>([
    { item: thought('R\n'), message: { reasoning_content: 'R\n' } },
    {
      item: thought('R\n', { encrypted_content: null, content: null, summary: [{ type: 'summary_text', text: ' S ' }] }),
      message: { reasoning_content: ' S ' },
    },
    { item: thought(' R ', { summary: [{ type: 'summary_text', text: 'S' }] }), message: { reasoning_content: ' R ' } },
    {
      item: thought('R\n', { encrypted_content: signatureOf(CALL) }),
      message: { reasoning_content: 'R\n', origin: CALL },
    },
    {
      item: { type: 'reasoning', id: `rs_${CALL}_0`, summary: [{ type: 'summary_text', text: 'S' }] },
      message: { reasoning_content: 'S', origin: CALL },
    },
    {
      item: { type: 'reasoning', summary: [], encrypted_content: signatureOf(CALL) },
      message: { origin: CALL },
    },
  ])('$item are the reasoning of their turn, white space included', ({ item, message }) => {
    const read = accepted({ input: [go, item, wrote('T')] })
    expect(read.request.messages).toEqual([go, said({ content: 'T', ...message })])
    expect(read.diagnostics).toEqual([])
  })

  it('of somebody else keep their text, and their signature is noted', () => {
    const read = accepted({ input: [go, thought('R', { encrypted_content: 'gAAAA-foreign' }), wrote('T')] })
    expect(read.request.messages[1]).toEqual(said({ content: 'T', reasoning_content: 'R' }))
    expect(read.diagnostics).toEqual([{ code: 'signature-unknown', detail: 'input[1].encrypted_content' }])
  })

  it('at the end of the input are a turn of their own', () => {
    expect(messagesOf([go, thought('R')])).toEqual([go, said({ content: '', reasoning_content: 'R' })])
  })
})

describe('TI-03: argument texts', () => {
  const texts = [
    '{"path": "a.txt", "limit": 10}',
    '{"10": "b", "2": "a"}',
    '{"x": 1.0, "id": 12345678901234567890}',
    '{"s": "caf\\u00e9"}',
    '',
    '{"broken',
  ]
  it.each(texts)('reach the pivot as they were given: %s', (text) => {
    expect(messagesOf([called('a', { arguments: text })])).toEqual([said({ tool_calls: [call('a', text)] })])
  })

  it('are printed where the client holds an object', () => {
    expect(messagesOf([called('a', { arguments: { b: 1, a: [2] } })])).toEqual([said({ tool_calls: [call('a', '{"b":1,"a":[2]}')] })])
  })
})

describe('TO-07: compaction', () => {
  it.each([
    { type: 'compaction_trigger' },
    { type: 'compaction', encrypted_content: 'zz' },
    { type: 'compaction_summary', encrypted_content: 'zz' },
    { type: 'context_compaction' },
  ])('$type is refused clearly: an empty answer would be taken for a summary', (item) => {
    const failure = refused({ input: [go, item] })
    expect(failure).toMatchObject({ code: 'invalid-request', status: 400, param: 'input[1]' })
    expect(failure.message).toContain(item.type)
  })
})

describe('items and parts', () => {
  it.each([
    'web_search_call',
    'file_search_call',
    'image_generation_call',
    'mcp_list_tools',
    'mcp_call',
    'apply_patch_call_output',
    'agent_message',
  ])('of type %s are dropped with a note, and end no turn', (type) => {
    const read = accepted({ input: [go, thought('R'), { type, id: 'x', call_id: 'y', output: 'z' }, wrote('T')] })
    expect(read.request.messages).toEqual([go, said({ content: 'T', reasoning_content: 'R' })])
    expect(read.diagnostics).toEqual([{ code: 'block-dropped', detail: `input[2]: ${type}` }])
  })

  it('without a message around them are gathered into a user message', () => {
    const image = { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'high' }
    const loose = [
      { type: 'input_text', text: 'a' },
      { type: 'input_text', text: 'b' },
    ]
    expect(messagesOf([...loose, wrote('T'), ...loose, image])).toEqual([
      { role: 'user', content: 'a\nb' },
      said({ content: 'T' }),
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'high' } },
        ],
      },
    ])
  })

  it.each([
    { given: 'low', kept: { detail: 'low' }, notes: [] },
    { given: null, kept: {}, notes: [] },
    { given: 'original', kept: {}, notes: [{ code: 'field-dropped', detail: 'input[0].content[0].detail' }] },
  ])('keep an image, with its detail where an engine knows it: $given', ({ given, kept, notes }) => {
    const read = accepted({ input: [user([{ type: 'input_image', image_url: 'data:image/png;base64,AA', detail: given }])] })
    expect(read.request.messages).toEqual([
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA', ...kept } }] },
    ])
    expect(read.diagnostics).toEqual(notes)
  })

  it.each([
    { outer: {}, kept: 'low' },
    { outer: { detail: null }, kept: 'low' },
    { outer: { detail: 'high' }, kept: 'high' },
  ])('keep an image in the shape of chat, with the detail that stands nearest to its part: $outer', ({ outer, kept }) => {
    const image_url = { url: 'data:image/png;base64,AA', detail: 'low' }
    const read = accepted({ input: [{ type: 'image_url', image_url, ...outer }] })
    expect(read.request.messages).toEqual([{ role: 'user', content: [{ type: 'image_url', image_url: { ...image_url, detail: kept } }] }])
    expect(read.diagnostics).toEqual([])
  })

  it('have texts alone joined to one string, the same on every turn', () => {
    const parts = [
      { type: 'input_text', text: 'a' },
      { type: 'text', text: 'b' },
    ]
    expect(
      messagesOf([
        user(parts),
        {
          ...wrote('x'),
          content: [
            { type: 'output_text', text: 'T' },
            { type: 'refusal', refusal: 'no' },
          ],
        },
      ]),
    ).toEqual([{ role: 'user', content: 'a\nb' }, said({ content: 'T\nno' })])
  })

  it('lose marks that clients put on them for themselves, and say so of anything else', () => {
    const marks = { id: 'fc_1', status: 'completed', phase: 'commentary', caller: {}, async: true, created_by: 'x', metadata: {} }
    const item = { ...called('a'), ...marks, internal_chat_message_metadata_passthrough: { turn_id: 't' }, mood: 1 }
    expect(accepted({ input: [item] }).diagnostics).toEqual([{ code: 'field-dropped', detail: 'input[0].mood' }])
  })

  it('of a kind nobody knows are dropped with a note', () => {
    const read = accepted({ input: [user([{ type: 'hologram' }, { type: 'input_text', text: 'a' }])] })
    expect(read.request.messages).toEqual([{ role: 'user', content: 'a' }])
    expect(read.diagnostics).toEqual([{ code: 'block-dropped', detail: 'input[0].content[0]: hologram' }])
  })
})
