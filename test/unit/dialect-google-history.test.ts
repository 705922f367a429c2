// Google's contents as history: turns, reasoning, ids that clients lose, results they repeat, and the answers that come back byte for byte.
import { describe, expect, it } from 'vitest'
import { echoedObject } from '../../src/proxy/dialects/arguments.ts'
import { google } from '../../src/proxy/dialects/google/dialect.ts'
import { signatureOf } from '../../src/proxy/dialects/signature.ts'
import { openRecall } from '../../src/proxy/recall.ts'

const CALL_A = 'a'.repeat(32)
const CALL_B = 'b'.repeat(32)
const PNG = { mimeType: 'image/png', data: 'AAAA' }
const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }

function read(contents: unknown, more: object = {}) {
  const result = google.read({ contents, ...more }, { tier: 'train', pins: {}, url: { model: 'm', form: 'plain' } })
  if (!result.ok) throw new Error(result.failure.message)
  return result.call
}

const user = (...parts: object[]) => ({ role: 'user', parts })
const model = (...parts: object[]) => ({ role: 'model', parts })
const call = (name: string, args: object, id?: string) => ({ functionCall: { ...(id === undefined ? {} : { id }), name, args } })
const result = (name: string, response: unknown, id?: string) => ({
  functionResponse: { ...(id === undefined ? {} : { id }), name, response },
})
const asked = (id: string, name: string, args = '{}') => ({ id, type: 'function', function: { name, arguments: args } })
const told = (id: string, content: string) => ({ role: 'tool', tool_call_id: id, content })
const said = (content: unknown) => ({ role: 'user', content })

describe('what the user and the system say', () => {
  it.each([
    { given: [user({ text: 'a' })], sent: [said('a')] },
    { given: [user({ text: 'a' }, { text: 'b' })], sent: [said('a\nb')] },
    { given: 'a', sent: [said('a')] },
    { given: { parts: { text: 'a' } }, sent: [said('a')] },
    { given: [{ parts: [{ text: 'a' }] }], sent: [said('a')] },
    { given: [user({ text: 'a' }), user({ text: 'b' })], sent: [said('a'), said('b')] },
    { given: [user({ text: 'a' }, { inlineData: PNG })], sent: [said([{ type: 'text', text: 'a' }, image])] },
    { given: [user({ inline_data: { mime_type: 'image/png', data: 'AAAA' } })], sent: [said([image])] },
    {
      given: [user({ fileData: { mimeType: 'image/webp', fileUri: 'data:image/webp;base64,AAAA' } })],
      sent: [said([{ type: 'image_url', image_url: { url: 'data:image/webp;base64,AAAA' } }])],
    },
    {
      given: [user({ text: 'a' }), model({ text: 'b' }), { role: 'system', parts: [{ text: 'note' }] }, user({ text: 'c' })],
      sent: [said('a'), { role: 'assistant', content: 'b' }, { role: 'system', content: 'note' }, said('c')],
    },
  ])('$given becomes $sent', ({ given, sent }) => {
    const taken = read(given)
    expect(taken.request.messages).toEqual(sent)
    expect(taken.diagnostics).toEqual([])
  })

  it.each([
    'S',
    { parts: [{ text: 'S' }] },
    { role: 'user', parts: [{ text: 'S' }] },
    { parts: { text: 'S' } },
    { text: 'S' },
    [{ text: 'S' }],
    ['S'],
  ])('a system instruction may be %j', (instruction) => {
    const sent = [{ role: 'system', content: 'S' }, said('a')]
    for (const more of [
      { systemInstruction: instruction },
      { system_instruction: instruction },
      { config: { systemInstruction: instruction } },
    ]) {
      const taken = read([user({ text: 'a' })], more)
      expect(taken.request.messages).toEqual(sent)
      expect(taken.diagnostics).toEqual([])
    }
  })

  it('a system instruction keeps its images, and one system message with it at the head', () => {
    expect(read([{ role: 'system', parts: [{ text: 'B' }] }, user({ text: 'a' })], { systemInstruction: 'A' }).request.messages).toEqual([
      { role: 'system', content: 'A\n\nB' },
      said('a'),
    ])
    expect(read([user({ text: 'a' })], { systemInstruction: [{ text: 'A' }, { inlineData: PNG }] }).request.messages[0]).toEqual({
      role: 'system',
      content: [{ type: 'text', text: 'A' }, image],
    })
    expect(read([user({ text: 'a' })], { systemInstruction: { parts: [] } }).request.messages).toEqual([said('a')])
  })
})

it('what nobody knows of a content, a part, a call or a result is dropped with a note', () => {
  const taken = read([
    { role: 'user', parts: [{ text: 'q', mood: 1, partMetadata: {} }], mood: 1 },
    model({ functionCall: { id: 'x', name: 'f', mood: 1 } }),
    user({ functionResponse: { id: 'x', name: 'f', response: 1, mood: 1, scheduling: 'SILENT' } }),
  ])
  expect(taken.request.messages).toEqual([said('q'), { role: 'assistant', content: null, tool_calls: [asked('x', 'f')] }, told('x', '1')])
  expect(taken.diagnostics).toEqual(
    [
      'contents[0].mood',
      'contents[0].parts[0].mood',
      'contents[1].parts[0].functionCall.mood',
      'contents[2].parts[0].functionResponse.mood',
    ].map((detail) => ({ code: 'field-dropped', detail })),
  )
})

describe('a model turn', () => {
  it.each([
    { given: [model({ text: 'a' })], sent: [{ role: 'assistant', content: 'a' }] },
    { given: [{ role: 'model', parts: ['a'] }], sent: [{ role: 'assistant', content: 'a' }] },
    // Pieces of a stream, as some clients keep them.
    { given: [model({ text: 'a' }, { text: ' b' })], sent: [{ role: 'assistant', content: 'a b' }] },
    { given: [model({ text: 'a' }), model({ text: ' b' })], sent: [{ role: 'assistant', content: 'a b' }] },
    {
      given: [model({ text: 'R\n', thought: true }, { text: ' T' }, call('f', { a: 1 }, 'c1'))],
      sent: [{ role: 'assistant', content: ' T', reasoning_content: 'R\n', tool_calls: [asked('c1', 'f', '{"a":1}')] }],
    },
    {
      given: [model({ text: 'R', thought: true }), model(call('f', {}, 'c1'), call('g', {}, 'c2'))],
      sent: [{ role: 'assistant', content: null, reasoning_content: 'R', tool_calls: [asked('c1', 'f'), asked('c2', 'g')] }],
    },
    { given: [model()], sent: [{ role: 'assistant', content: '' }] },
    { given: [{ role: 'model' }], sent: [{ role: 'assistant', content: '' }] },
    { given: [model({ text: '' })], sent: [{ role: 'assistant', content: '' }] },
    { given: [model({ text: '', thought: true }), model({ text: 'a' })], sent: [{ role: 'assistant', content: 'a' }] },
  ])('$given is one message', ({ given, sent }) => {
    const taken = read([user({ text: 'q' }), ...given])
    expect(taken.request.messages).toEqual([said('q'), ...sent])
    expect(taken.diagnostics).toEqual([])
  })

  it.each([
    { turn: [model({ text: 'a', thoughtSignature: signatureOf(CALL_A) })] },
    { turn: [model({ ...call('f', {}, 'c'), thoughtSignature: signatureOf(CALL_A) }, call('g', {}, 'd'))] },
    { turn: [model({ text: 'R', thought: true, thought_signature: signatureOf(CALL_A) })] },
    { turn: [model({ text: 'a' }), model({ text: '', thoughtSignature: signatureOf(CALL_A) })] },
    { turn: [model({ text: 'a', thoughtSignature: signatureOf(CALL_A) }), model({ text: 'b' })] },
  ])('is known by its signature, on whatever part: $turn', ({ turn }) => {
    const taken = read([user({ text: 'q' }), ...turn])
    expect(taken.request.messages).toHaveLength(2)
    expect(taken.request.messages[1]).toMatchObject({ origin: CALL_A })
    expect(taken.diagnostics).toEqual([])
  })

  it.each(['skip_thought_signature_validator', 'c29tZWJvZHk=', ''])('tolerates the signature %j with a note', (thoughtSignature) => {
    const taken = read([user({ text: 'q' }), model({ ...call('f', {}, 'c'), thoughtSignature })])
    expect(taken.request.messages[1]).toEqual({ role: 'assistant', content: null, tool_calls: [asked('c', 'f')] })
    expect(taken.diagnostics).toEqual([{ code: 'signature-unknown', detail: 'contents[1].parts[0]' }])
  })

  it('is two when it is known to be two answers', () => {
    const [a, b] = [CALL_A, CALL_B].map((id) => model({ text: id[0], thoughtSignature: signatureOf(id) }))
    expect(read([user({ text: 'q' }), a, b].map((content) => content ?? {})).request.messages.slice(1)).toEqual([
      { role: 'assistant', content: 'a', origin: CALL_A },
      { role: 'assistant', content: 'b', origin: CALL_B },
    ])
  })

  it('keeps words that stood after calls or before thoughts, and notes that they moved', () => {
    const taken = read([user({ text: 'q' }), model({ text: 'a' }, { text: 'R', thought: true }, call('f', {}, 'c'), { text: 'b' })])
    expect(taken.request.messages[1]).toEqual({
      role: 'assistant',
      content: 'ab',
      reasoning_content: 'R',
      tool_calls: [asked('c', 'f')],
    })
    expect(taken.diagnostics).toEqual([
      { code: 'order-approximated', detail: 'contents[1].parts[1]' },
      { code: 'order-approximated', detail: 'contents[1].parts[3]' },
    ])
  })

  it('leaves out what Google’s own servers ran, and notes it', () => {
    const taken = read([
      user({ text: 'q' }),
      model(
        { executableCode: { code: 'x' } },
        { codeExecutionResult: {} },
        { text: 'a' },
        { videoMetadata: {} },
        { toolCall: {} },
        { tool_response: {} },
      ),
    ])
    expect(taken.request.messages[1]).toEqual({ role: 'assistant', content: 'a' })
    expect(taken.diagnostics).toEqual([
      { code: 'block-dropped', detail: 'contents[1].parts[0].executableCode' },
      { code: 'block-dropped', detail: 'contents[1].parts[1].codeExecutionResult' },
      { code: 'field-dropped', detail: 'contents[1].parts[3].videoMetadata' },
      { code: 'block-dropped', detail: 'contents[1].parts[4].toolCall' },
      { code: 'block-dropped', detail: 'contents[1].parts[5].tool_response' },
    ])
  })
})

describe('results', () => {
  const q = user({ text: 'q' })
  const turn = (...calls: object[]) => ({ role: 'assistant', content: null, tool_calls: calls })
  it.each([
    {
      name: 'are paired by id, in the order given',
      given: [q, model(call('f', {}, 'x'), call('f', {}, 'y')), user(result('f', { output: 'Y' }, 'y'), result('f', { output: 'X' }, 'x'))],
      sent: [said('q'), turn(asked('x', 'f'), asked('y', 'f')), told('y', '{"output":"Y"}'), told('x', '{"output":"X"}')],
    },
    {
      name: 'without ids are paired by name and order',
      given: [q, model(call('f', {}), call('g', {}), call('f', {})), user(result('g', 1), result('f', 2), result('f', 3))],
      sent: [
        said('q'),
        turn(asked('call_0', 'f'), asked('call_1', 'g'), asked('call_2', 'f')),
        told('call_1', '1'),
        told('call_0', '2'),
        told('call_2', '3'),
      ],
    },
    {
      name: 'with an id the call lost are paired by name',
      given: [q, model(call('f', {})), user(result('f', {}, 'made-up'))],
      sent: [said('q'), turn(asked('call_0', 'f')), told('call_0', '{}')],
    },
    {
      name: 'without a name are paired by id',
      given: [q, model(call('f', {}, 'x')), user({ functionResponse: { id: 'x' } })],
      sent: [said('q'), turn(asked('x', 'f')), told('x', '{}')],
    },
    {
      name: 'in several contents, and under the role they once had',
      given: [
        q,
        model(call('f', {}, 'x'), call('g', {}, 'y')),
        { role: 'function', parts: [result('f', 1, 'x')] },
        user(result('g', 2, 'y')),
        user({ text: 'z' }),
      ],
      sent: [said('q'), turn(asked('x', 'f'), asked('y', 'g')), told('x', '1'), told('y', '2'), said('z')],
    },
    {
      name: 'of every shape are the JSON text of the response',
      given: [q, model(call('f', {}, 'x')), user(result('f', { error: 'é\n', nested: { a: [1.5, null] } }, 'x'))],
      sent: [said('q'), turn(asked('x', 'f')), told('x', '{"error":"é\\n","nested":{"a":[1.5,null]}}')],
    },
    {
      name: 'show what they hold after all of them, with the words beside them',
      given: [
        q,
        model(call('f', {}, 'x'), call('g', {}, 'y')),
        user(
          { functionResponse: { id: 'x', name: 'f', response: { output: 'see' }, parts: [{ inlineData: PNG }] } },
          result('g', { output: 'Y' }, 'y'),
          { text: 'late' },
        ),
      ],
      sent: [
        said('q'),
        turn(asked('x', 'f'), asked('y', 'g')),
        told('x', '{"output":"see"}'),
        told('y', '{"output":"Y"}'),
        said([image, { type: 'text', text: 'late' }]),
      ],
    },
    {
      name: 'of ids that are used again belong to the later calls',
      given: [q, model(call('f', {}, 'x')), user(result('f', 1, 'x')), model(call('f', {}, 'x')), user(result('f', 1, 'x'))],
      sent: [said('q'), turn(asked('x', 'f')), told('x', '1'), turn(asked('x', 'f')), told('x', '1')],
    },
    {
      name: 'of earlier turns keep their position when more calls follow',
      given: [
        q,
        model(call('f', {})),
        user(result('f', 1)),
        model(call('f', {}), call('g', {}, 'own')),
        user(result('f', 2), result('g', 3, 'own')),
      ],
      sent: [
        said('q'),
        turn(asked('call_0', 'f')),
        told('call_0', '1'),
        turn(asked('call_1', 'f'), asked('own', 'g')),
        told('call_1', '2'),
        told('own', '3'),
      ],
    },
  ])('$name', ({ given, sent }) => {
    const taken = read(given)
    expect(taken.request.messages).toEqual(sent)
    expect(taken.diagnostics).toEqual([])
  })

  it.each([
    {
      name: 'given twice are given once',
      replies: [user(result('f', 1, 'x'), result('f', 1, 'x'))],
      sent: [told('x', '1')],
      notes: ['block-dropped contents[2].parts[1].functionResponse'],
    },
    {
      name: 'given again without their name are given once',
      replies: [user(result('f', 1, 'x'), { functionResponse: { id: 'x', response: 1 } })],
      sent: [told('x', '1')],
      notes: ['block-dropped contents[2].parts[1].functionResponse'],
    },
    {
      name: 'given again by name are given once',
      replies: [user(result('f', 1)), user(result('f', 1))],
      sent: [told('x', '1')],
      notes: ['block-dropped contents[3].parts[0].functionResponse'],
    },
    {
      name: 'given again in a later turn are given once',
      replies: [user(result('f', 1, 'x')), model({ text: 'T' }), user(result('f', 1, 'x'), { text: 'go on' })],
      sent: [told('x', '1'), { role: 'assistant', content: 'T' }, said('go on')],
      notes: ['block-dropped contents[4].parts[0].functionResponse'],
    },
    {
      name: 'given in pieces become one',
      replies: [user(result('f', 1, 'x'), result('f', 2, 'x'))],
      sent: [told('x', '1\n2')],
      notes: ['block-joined contents[2].parts[1].functionResponse'],
    },
    {
      name: 'given otherwise in a later turn stay as they were',
      replies: [user(result('f', 1, 'x')), model({ text: 'T' }), user(result('f', 2, 'x'), { text: 'go on' })],
      sent: [told('x', '1'), { role: 'assistant', content: 'T' }, said('go on')],
      notes: ['block-dropped contents[4].parts[0].functionResponse'],
    },
    {
      name: 'stand before words that came first',
      replies: [user({ text: 'early' }), user(result('f', 1, 'x'))],
      sent: [told('x', '1'), said('early')],
      notes: ['order-approximated contents[3].parts[0].functionResponse'],
    },
    {
      name: 'show what they hold where they stood',
      replies: [
        user({ text: 'early' }),
        user({ functionResponse: { id: 'x', name: 'f', response: 1, parts: [{ inlineData: PNG }] } }, { text: 'late' }),
      ],
      sent: [told('x', '1'), said('early'), said([image, { type: 'text', text: 'late' }])],
      notes: ['order-approximated contents[3].parts[0].functionResponse'],
    },
  ])('$name, and a note says so', ({ replies, sent, notes }) => {
    const taken = read([q, model(call('f', {}, 'x')), ...replies])
    expect(taken.request.messages.slice(2)).toEqual(sent)
    expect(taken.diagnostics.map(({ code, detail }) => `${code} ${detail.split(':')[0]}`)).toEqual(notes)
  })

  it.each([
    [user(result('other', 2))],
    [user(result('other', 2, 'lost'))],
    [user(result('f', 1, 'x')), user(result('f', 2, 'lost'))],
    [user(result('f', 1)), model({ text: 'T' }), user(result('f', 2))],
  ])('that answer no call are refused by their place, and can be counted: %j', (...replies) => {
    const contents = [q, model(call('f', {}, 'x')), ...replies]
    const context = { tier: 'eval', pins: {}, url: { model: 'm', form: 'plain' } } as const
    const param = `contents[${contents.length - 1}].parts[0].functionResponse`
    expect(google.read({ contents }, context)).toMatchObject({ ok: false, failure: { status: 400, param } })
    const counted = google.readCount({ contents }, context)
    if (!counted.ok || counted.countable.kind !== 'messages') throw new Error('not counted')
    expect(counted.countable.request.messages.at(-1)).toMatchObject({
      role: 'tool',
      tool_call_id: expect.stringMatching(/^(lost|result_1)$/),
    })
  })

  it('of a user who says nothing make no message', () => {
    const taken = read([q, user()])
    expect(taken.request.messages).toEqual([said('q')])
    expect(taken.diagnostics).toEqual([{ code: 'block-dropped', detail: 'contents[1]' }])
  })
})

describe('an answer of the session', () => {
  const identity = { id: CALL_A, createdSeconds: 0, model: 'm' }
  const reply = (() => {
    const outcome = google.read({ contents: 'q' }, { tier: 'train', pins: {}, url: { model: 'm', form: 'plain' } })
    if (!outcome.ok) throw new Error(outcome.failure.message)
    return outcome.reply
  })()
  const tell = (message: object) =>
    JSON.parse(
      reply.plain(
        {
          message: { role: 'assistant', content: null, ...message },
          finishReason: 'stop',
          usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null, reasoningTokens: null },
          stopSequence: null,
          logprobs: null,
        },
        identity,
      ),
    ).candidates[0].content

  it.each([
    '{"path": "a.txt", "limit": 10}',
    '{"10": "b", "2": "a"}',
    '{"x": 1.0, "id": 12345678901234567890}',
    '{"s": "caf\\u00e9"}',
    '{"unclosed": ',
  ])('TI-03: comes back with the arguments it sampled: %s', (args) => {
    const recall = openRecall(() => 'fresh')
    const message = {
      role: 'assistant' as const,
      content: '\n\nT ',
      reasoning_content: 'R\n',
      tool_calls: [{ id: 'c1', type: 'function' as const, function: { name: 'f', arguments: args } }],
    }
    const content = tell(recall.remember(CALL_A, message, echoedObject))
    const parts: readonly { thought?: boolean; thoughtSignature?: string; functionCall?: { id?: string } }[] = content.parts
    const forms = {
      whole: parts,
      withoutThoughts: parts.filter((part) => part.thought !== true),
      withoutSignatures: parts.map(({ thoughtSignature: _dropped, ...part }) => part),
      withoutIds: parts.map((part) => {
        const { id: _dropped, ...rest } = part.functionCall ?? {}
        return part.functionCall === undefined ? part : { ...part, functionCall: rest }
      }),
    }
    for (const [form, returned] of Object.entries(forms)) {
      // A client parses and prints what it keeps.
      const contents = JSON.parse(
        JSON.stringify([user({ text: 'q' }), { role: 'model', parts: returned }, user(result('f', { output: 'ok' }))]),
      )
      expect({ form, messages: recall.restore(read(contents).request.messages).messages }).toEqual({
        form,
        messages: [said('q'), message, told('c1', '{"output":"ok"}')],
      })
    }
  })

  it('TI-12: gives its thoughts back exactly, by the part itself or by the signature alone, and no signature reaches the engine', () => {
    const recall = openRecall(() => 'fresh')
    const message = { role: 'assistant' as const, content: 'T', reasoning_content: 'R\n' }
    const { parts } = tell(recall.remember(CALL_A, message, echoedObject))
    expect(parts).toEqual([
      { text: 'R\n', thought: true },
      { text: 'T', thoughtSignature: expect.stringMatching(/^[A-Za-z0-9+/]+={0,2}$/) },
    ])
    const shown = read([user({ text: 'q' }), { role: 'model', parts }]).request.messages[1]
    expect(shown).toEqual({ ...message, origin: CALL_A })
    for (const returned of [parts, parts.slice(1)]) {
      const restored = recall.restore(read([user({ text: 'q' }), { role: 'model', parts: returned }]).request.messages)
      expect(restored.messages[1]).toEqual(message)
    }
  })
})
