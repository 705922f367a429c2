// Answers that come back in a client's spelling are put back byte for byte; what the client changed stays changed.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AnswerMessage, AssistantMessage, ChatMessage, ToolCall } from '../../src/proxy/chat.ts'
import { openRecall } from '../../src/proxy/recall.ts'
import { HELLO, openProxy } from '../lib/proxy-fixture.ts'

const call = (args: string, id = 'c1') => ({ id, type: 'function' as const, function: { name: 'f', arguments: args } })
const said = (rest: Partial<AnswerMessage>): AnswerMessage => ({ role: 'assistant', content: null, ...rest })
const unchanged = (each: ToolCall): ToolCall => each
const user: ChatMessage = { role: 'user', content: 'x' }

function restore(answers: readonly AnswerMessage[], echo: AssistantMessage, as = unchanged): ChatMessage | undefined {
  const recall = openRecall(newIds())
  for (const [index, answer] of answers.entries()) recall.remember(`${index}`, answer, as)
  return recall.restore([user, echo]).messages[1]
}

function newIds(): () => string {
  let count = 0
  return () => `new_${count++}`
}

describe('put back exactly', () => {
  it.each([
    ['{"path": "a.txt", "limit": 10}', '{"path":"a.txt","limit":10}'],
    ['{"10": "b", "2": "a"}', '{"2":"a","10":"b"}'],
    ['{"x": 1.0, "id": 12345678901234567890}', '{"x":1,"id":12345678901234567000}'],
    ['{"b": 1, "a": 2}', '{"a":2,"b":1}'],
    ['{"s": "caf\\u00e9"}', '{"s":"café"}'],
    ['', '{}'],
    [' \n', '{}'],
    ['{"broken', '{"broken'],
  ])('arguments %s from %s', (sampled, echoed) => {
    const answer = said({ tool_calls: [call(sampled)] })
    expect(restore([answer], { role: 'assistant', content: '', tool_calls: [call(echoed)] })).toEqual(answer)
  })

  it.each([
    { given: 'trimmed', reasoning: 'R' },
    { given: 'dropped', reasoning: undefined },
    { given: 'kept', reasoning: '\nR \n' },
  ])('reasoning that was $given', ({ reasoning }) => {
    const answer = said({ content: '\n\nT', reasoning_content: '\nR \n' })
    expect(
      restore([answer], { role: 'assistant', content: '\n\nT', ...(reasoning === undefined ? {} : { reasoning_content: reasoning }) }),
    ).toEqual(answer)
  })

  it.each([null, '', ' '])('a text of white space that came back as %j', (content) => {
    const answer = said({ content: '\n\n', reasoning_content: 'R', tool_calls: [call('{"a": 1}')] })
    expect(restore([answer], { role: 'assistant', content, tool_calls: [call('{"a":1}')] })).toEqual(answer)
  })

  it('with the name that the client gave it', () => {
    const answer = said({ content: 'T', reasoning_content: 'R' })
    expect(restore([answer], { role: 'assistant', content: 'T', name: 'ann' })).toEqual({ ...answer, name: 'ann' })
    expect(restore([answer], { role: 'assistant', content: 'T' })).not.toHaveProperty('name')
  })

  it('texts in parts', () => {
    const answer = said({ content: 'ab' })
    const content = [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ]
    expect(restore([answer], { role: 'assistant', content })).toEqual(answer)
  })
})

describe('left as the client wrote it', () => {
  const answer = said({ content: 'T', reasoning_content: 'R', tool_calls: [call('{"a": 1}')] })
  it.each<{ given: string; echo: AssistantMessage }>([
    { given: 'another text', echo: { role: 'assistant', content: 'T ', tool_calls: [call('{"a": 1}')] } },
    { given: 'other arguments', echo: { role: 'assistant', content: 'T', tool_calls: [call('{"a":2}')] } },
    {
      given: 'an image beside its text',
      echo: {
        role: 'assistant',
        content: [
          { type: 'text', text: 'T' },
          { type: 'image_url', image_url: { url: 'data:x' } },
        ],
        tool_calls: [call('{"a": 1}')],
      },
    },
    { given: 'a call less', echo: { role: 'assistant', content: 'T' } },
    { given: 'other reasoning', echo: { role: 'assistant', content: 'T', reasoning_content: 'Q', tool_calls: [call('{"a": 1}')] } },
  ])('$given', ({ echo }) => {
    expect(restore([answer], echo)).toEqual(echo)
  })
})

describe('put back whatever the client made of the ids', () => {
  const answer = said({ tool_calls: [call('{"a": 1}', 'functions.f:0'), call('{"a": 2}', 'functions.f:1')] })

  it.each([
    ['rewritten', 'x', 'y'],
    ['dropped', '', ''],
  ])('%s', (_given, first, second) => {
    const echo: AssistantMessage = { role: 'assistant', content: null, tool_calls: [call('{"a":1}', first), call('{"a":2}', second)] }
    expect(restore([answer], echo)).toEqual(answer)
  })

  it('TI-08 and tells ids that every dialect takes, each once in the session, and knows the results by them', () => {
    const recall = openRecall(newIds())
    const engineIds = ['functions.Bash:0', 'chatcmpl-tool-1', 'call a/b', 'functions.Bash:0', 'a.b:0', 'a_b_0', 'chatcmpl-tool-1']
    const told = engineIds.map((id, index) => {
      const message = recall.remember(`${index}`, said({ content: `turn ${index}`, tool_calls: [call('{}', id)] }), unchanged)
      return message.tool_calls?.[0]?.id ?? ''
    })
    expect(new Set(told).size).toBe(engineIds.length)
    for (const id of told) expect(id).toMatch(/^[A-Za-z0-9_-]+$/)
    expect(told[1]).toBe('chatcmpl-tool-1')
    const history = told.flatMap((id, index): ChatMessage[] => [
      { role: 'assistant', content: `turn ${index}`, tool_calls: [call('{}', id)] },
      { role: 'tool', tool_call_id: id, content: 'ok' },
    ])
    const back = recall.restore([...history, { role: 'tool', tool_call_id: 'never.told:1', content: 'ok' }]).messages
    expect(back.flatMap((message) => (message.role === 'assistant' ? (message.tool_calls?.[0]?.id ?? []) : []))).toEqual(engineIds)
    expect(back.flatMap((message) => (message.role === 'tool' ? message.tool_call_id : []))).toEqual([...engineIds, 'never.told:1'])
  })

  it('answers that say the same are told apart by their ids, and without any by their order', () => {
    const [one, two] = [said({ tool_calls: [call('{ }', 'c1')] }), said({ tool_calls: [call('{}', 'c2')] })]
    const recall = openRecall(newIds())
    recall.remember('0', one, unchanged)
    recall.remember('1', two, unchanged)
    const echo = (id: string): AssistantMessage => ({ role: 'assistant', content: null, tool_calls: [call('{}', id)] })
    const three = said({ tool_calls: [call('{  }', 'c3')] })
    recall.remember('2', three, unchanged)
    expect(recall.restore([echo('c2'), echo('c1')]).messages).toEqual([two, one])
    expect(recall.restore([echo(''), user, echo(''), echo('')]).messages).toEqual([one, user, two, three])
  })
})

describe('put back by the signature that came with it', () => {
  const [one, two] = [said({ content: 'ok', reasoning_content: ' one\n' }), said({ content: 'ok', reasoning_content: 'two' })]

  it('whatever was shown of the reasoning', () => {
    const echo: AssistantMessage = { role: 'assistant', content: 'ok', reasoning_content: 'a summary', origin: '1' }
    expect(restore([one, two], echo)).toEqual(two)
  })

  it('and not by the ids beside it', () => {
    const [first, second] = [one, two].map((message, index) => ({ ...message, tool_calls: [call('{}', `c${index}`)] }))
    const echo: AssistantMessage = { role: 'assistant', content: 'ok', tool_calls: [call('{}', 'c1')], origin: '0' }
    expect(restore([first ?? one, second ?? two], echo)).toEqual(first)
  })

  it('but not when the text is another one; the signature itself is never sent on', () => {
    expect(restore([one], { role: 'assistant', content: 'other', origin: '0' })).toEqual({ role: 'assistant', content: 'other' })
  })
})

describe('put back by its reasoning, when several answers say the same', () => {
  it.each([
    ['as it was', ' A\n', 0],
    ['as another one was', 'A', 1],
    ['trimmed otherwise', '\nA', 0],
    ['in its last piece', 'piece', 2],
  ])('%s', (_given, reasoning, position) => {
    const answers = [' A\n', 'A', 'B and a last piece', 'C'].map((each) => said({ content: 'ok', reasoning_content: each }))
    expect(restore(answers, { role: 'assistant', content: 'ok', reasoning_content: reasoning })).toEqual(answers[position])
  })
})

describe('put back although a dialect could not carry it', () => {
  it.each([
    ['TI-04 a freeform call in an object', '{"input": "*** Begin Patch\\n"}'],
    ['TI-04 a freeform call under another name', '{"patch": "*** Begin Patch\\n"}'],
    ['TI-04 a freeform call as bare text', '*** Begin Patch\n'],
  ])('%s', (_given, sampled) => {
    const answer = said({ tool_calls: [call(sampled)] })
    const bare = call(JSON.stringify({ input: '*** Begin Patch\n' }))
    expect(restore([answer], { role: 'assistant', content: null, tool_calls: [bare] }, () => bare)).toEqual(answer)
    expect(restore([answer], { role: 'assistant', content: null, tool_calls: [{ ...bare, id: '' }] }, () => bare)).toEqual(answer)
  })

  it.each(['{"a": tru', '[1, 2]', '"x"', 'null'])('arguments that are no object, told as an empty one: %s', (sampled) => {
    const answer = said({ tool_calls: [call(sampled)] })
    expect(restore([answer], { role: 'assistant', content: null, tool_calls: [call('{}', '')] }, () => call('{}'))).toEqual(answer)
    const changed = { role: 'assistant' as const, content: null, tool_calls: [call('{"a": fals')] }
    expect(restore([answer], changed)).toEqual(changed)
  })
})

describe('in an answer that was changed', () => {
  it('the calls that were not keep their text, and what was changed is named', () => {
    const recall = openRecall(newIds())
    recall.remember('0', said({ content: 'T', tool_calls: [call('{"a": 1}', 'x.1'), call('{"b": 2}', 'c2')] }), unchanged)
    const { messages, diagnostics } = recall.restore([
      { role: 'assistant', content: 'T ', tool_calls: [call('{"a":1}', 'new_0'), call('{"b":3}', 'c2')] },
      { role: 'tool', tool_call_id: 'new_0', content: 'ok' },
    ])
    expect(messages).toEqual([
      { role: 'assistant', content: 'T ', tool_calls: [call('{"a": 1}', 'x.1'), call('{"b":3}', 'c2')] },
      { role: 'tool', tool_call_id: 'x.1', content: 'ok' },
    ])
    expect(diagnostics).toEqual([{ code: 'history-changed', detail: 'messages[0]: white space of the text, tool arguments' }])
  })
})

describe('put back although the client cleaned its arguments', () => {
  const properties = { command: { type: 'string' }, replace_all: { type: 'boolean', default: false }, timeout: { type: 'number' } }
  const tools = [{ type: 'function' as const, function: { name: 'f', parameters: { type: 'object', properties } } }]
  const back = (sampled: string, returned: string, id = 'c1'): boolean => {
    const recall = openRecall(newIds())
    recall.remember('0', said({ tool_calls: [call(sampled)] }), unchanged)
    const [message] = recall.restore([{ role: 'assistant', content: null, tool_calls: [call(returned, id)] }], tools).messages
    return message?.role === 'assistant' && message.tool_calls?.[0]?.function.arguments === sampled
  }

  it.each([
    ['a default filled in', '{"a": "x"}', '{"replace_all":false,"a":"x"}'],
    ['white space at line ends', '{"a": "A  \\n\\tq \\t"}', '{"a":"A\\n\\tq"}'],
    ['a number told as text', '{"timeout": "30000"}', '{"timeout":30000}'],
    ['a boolean told as text', '{"replace_all": "true"}', '{"replace_all":true}'],
    ['the change to its own folder', '{"command": "cd /srv/x && ls -l"}', '{"command":"ls -l"}'],
    ['a list told as text', '{"edits": "[{\\"a\\": 1}]"}', '{"edits":[{"a":1}]}'],
  ])('%s', (_given, sampled, returned) => {
    expect(back(sampled, returned)).toBe(true)
    // Of a call nobody named, it cannot be said whose words these are.
    expect(back(sampled, returned, 'unknown')).toBe(false)
  })

  it.each([
    ['an added value that is no default', '{"a": "x"}', '{"replace_all":true,"a":"x"}'],
    ['an added key without a default', '{"a": "x"}', '{"timeout":1,"a":"x"}'],
    ['a key less', '{"a": "x", "b": 1}', '{"a":"x"}'],
    ['white space inside a line', '{"a": "A  q"}', '{"a":"A q"}'],
    ['another number', '{"timeout": "30000"}', '{"timeout":3000}'],
    ['a command cut elsewhere', '{"command": "rm x && ls"}', '{"command":"ls"}'],
    ['a command cut to nothing', '{"command": "cd /x && "}', '{"command":""}'],
    ['another list', '{"edits": "[1]"}', '{"edits":[2]}'],
    ['no object any more', '{"a": "x"}', '["x"]'],
    ['an object where there was none', '[]', '{"replace_all":false}'],
  ])('but not %s', (_given, sampled, returned) => {
    expect(back(sampled, returned)).toBe(false)
  })
})

describe('put back although the client named it otherwise', () => {
  const named = (name: string, args: string): ToolCall => ({ id: 'c1', type: 'function', function: { name, arguments: args } })
  const complaint = (tool: string, more = {}) => named('invalid', JSON.stringify({ tool, error: 'no such tool', ...more }))
  const back = (sampled: ToolCall, returned: ToolCall): boolean => {
    const recall = openRecall(newIds())
    recall.remember('0', said({ content: 'T', tool_calls: [sampled] }), unchanged)
    const [message] = recall.restore([{ role: 'assistant', content: 'T', tool_calls: [returned] }], []).messages
    return message?.role === 'assistant' && message.tool_calls?.[0]?.function === sampled.function
  }

  it.each([
    ['a name in lower case', named('Read', '{"limit": 1.0}'), named('read', '{"limit":1}')],
    ['a complaint of a tool that there is not', named('look', '{"far": 1}'), complaint('look')],
    ['a complaint of what cannot be read', named('look', '{"far'), complaint('look')],
  ])('%s', (_given, sampled, returned) => {
    expect(back(sampled, returned)).toBe(true)
    expect(back(sampled, { ...returned, id: 'unknown' })).toBe(false)
  })

  it.each([
    ['a name in upper case', named('read', '{}'), named('READ', '{}')],
    ['other arguments', named('Read', '{"limit": 1}'), named('read', '{"limit":2}')],
    ['a complaint of another tool', named('look', '{}'), complaint('read')],
    ['a complaint that says more', named('look', '{}'), complaint('look', { more: 1 })],
    ['a complaint without a word', named('look', '{}'), complaint('look', { error: undefined })],
  ])('but not %s', (_given, sampled, returned) => {
    expect(back(sampled, returned)).toBe(false)
  })
})

it('forgets the oldest of thousands of answers, and no other', () => {
  const recall = openRecall(newIds())
  const answerOf = (index: number) =>
    said({ content: `turn ${index}`, reasoning_content: `R${index}`, tool_calls: [call('{ }', `c${index}`)] })
  const alike = (reasoning: string) => said({ content: 'alike', reasoning_content: reasoning })
  recall.remember('old', alike('old'), unchanged)
  for (let index = 0; index < 4_095; index += 1) recall.remember(`${index}`, answerOf(index), unchanged)
  recall.remember('new', alike('new'), unchanged)
  // By its words, its signature and the ids of its calls.
  const echo = { role: 'assistant' as const, content: 'alike' }
  expect(recall.restore([echo, { ...echo, origin: 'old' }]).messages).toEqual([alike('new'), alike('new')])
  recall.remember('newer', said({ content: 'newer' }), unchanged)
  const [first, second] = [0, 1].map(
    (index): AssistantMessage => ({ ...answerOf(index), reasoning_content: ' ', tool_calls: [call('{}', `c${index}`)] }),
  )
  expect(recall.restore([first ?? echo, second ?? echo]).messages).toEqual([first, answerOf(1)])
  // Its ids can be told again.
  expect(recall.remember('again', answerOf(0), unchanged).tool_calls).toEqual([call('{ }', 'c0')])
})

it('takes the last piece of a reasoning for the whole of it', () => {
  const answer = said({ content: 'T', reasoning_content: 'first piece, last piece' })
  expect(restore([answer], { role: 'assistant', content: 'T', reasoning_content: 'last piece' })).toEqual(answer)
})

it('chooses by reasoning among answers that look alike, and without it the first, so that later turns never change it', () => {
  const [one, two] = [said({ content: 'ok', reasoning_content: 'one' }), said({ content: 'ok', reasoning_content: 'two' })]
  expect(restore([one, two], { role: 'assistant', content: 'ok', reasoning_content: ' two' })).toEqual(two)
  expect(restore([one, two], { role: 'assistant', content: 'ok' })).toEqual(one)
})

it('puts back any JSON arguments a client parsed and printed', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      const answer = said({ tool_calls: [call(text)] })
      const printed = JSON.stringify(JSON.parse(text))
      expect(restore([answer], { role: 'assistant', content: null, tool_calls: [call(printed)] })).toEqual(answer)
    }),
  )
})

it('makes the next request carry the sampled bytes, of this session only, and says so on the record', async () => {
  const proxy = openProxy()
  const [door, stranger] = [proxy.openDoor(), proxy.openDoor()]
  await proxy.chat(door)
  proxy.generations[0]?.answer({ message: said({ reasoning_content: ' R ', tool_calls: [call('{"a":  1.0}')] }), finish: 'tool_calls' })
  await proxy.settle()
  const echo = { role: 'assistant', content: '', tool_calls: [call('{"a":1}')] }
  const messages = [...HELLO.messages, echo, { role: 'tool', tool_call_id: 'c1', content: 'ok' }]
  await proxy.chat(door, { ...HELLO, messages })
  await proxy.chat(stranger, { ...HELLO, messages })
  expect(proxy.generations[1]?.body).toMatchObject({
    messages: { 1: { content: null, reasoning_content: ' R ', tool_calls: [call('{"a":  1.0}')] } },
  })
  expect(proxy.generations[2]?.body).toMatchObject({ messages: { 1: echo } })
  proxy.generations[1]?.answer()
  await proxy.settle()
  const { calls } = await door.seal()
  expect(calls[1]?.promptMessages[1]).toBe(calls[0]?.responseMessage)
  expect(calls[1]?.diagnostics).toEqual([{ code: 'history-restored', detail: 'messages[1]' }])
})
