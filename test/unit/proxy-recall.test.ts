// Answers that come back in a client's spelling are put back byte for byte; what the client changed stays changed.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AnswerMessage, AssistantMessage, ChatMessage } from '../../src/proxy/chat.ts'
import { openRecall } from '../../src/proxy/recall.ts'
import { HELLO, openProxy } from '../lib/proxy-fixture.ts'

const call = (args: string, id = 'c1') => ({ id, type: 'function' as const, function: { name: 'f', arguments: args } })
const said = (rest: Partial<AnswerMessage>): AnswerMessage => ({ role: 'assistant', content: null, ...rest })
const user: ChatMessage = { role: 'user', content: 'x' }

function restore(answers: readonly AnswerMessage[], echo: AssistantMessage): ChatMessage | undefined {
  const recall = openRecall()
  for (const answer of answers) recall.remember(answer)
  return recall.restore([user, echo]).messages[1]
}

describe('put back exactly', () => {
  it.each([
    ['{"path": "a.txt", "limit": 10}', '{"path":"a.txt","limit":10}'],
    ['{"10": "b", "2": "a"}', '{"2":"a","10":"b"}'],
    ['{"x": 1.0, "id": 12345678901234567890}', '{"x":1,"id":12345678901234567000}'],
    ['{"b": 1, "a": 2}', '{"a":2,"b":1}'],
    ['{"s": "caf\\u00e9"}', '{"s":"café"}'],
    ['', '{}'],
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
    { given: 'another text', echo: { role: 'assistant', content: 'T ', tool_calls: [call('{"a":1}')] } },
    { given: 'other arguments', echo: { role: 'assistant', content: 'T', tool_calls: [call('{"a":2}')] } },
    { given: 'another id', echo: { role: 'assistant', content: 'T', tool_calls: [call('{"a":1}', 'c2')] } },
    { given: 'a call less', echo: { role: 'assistant', content: 'T' } },
    { given: 'other reasoning', echo: { role: 'assistant', content: 'T', reasoning_content: 'Q', tool_calls: [call('{"a":1}')] } },
  ])('$given', ({ echo }) => {
    expect(restore([answer], echo)).toEqual(echo)
  })
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
