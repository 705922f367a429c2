// One sampled call that is no JSON must not end a session: an engine that refuses to be shown it again is asked without it, once.
import { expect, it } from 'vitest'
import type { ChatMessage } from '../../src/proxy/chat.ts'
import { withSoundArguments } from '../../src/proxy/sound-arguments.ts'
import { openProxy, type ProxyFixture } from '../lib/proxy-fixture.ts'

const BROKEN = '{"path": "a.txt", "text": "unclosed'
const user = { role: 'user', content: 'hi' }
const history = (args: string) => [
  user,
  { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: args } }] },
  { role: 'tool', tool_call_id: 'c1', content: 'not run' },
]
const sent = (proxy: ProxyFixture, index: number): unknown => {
  const messages = proxy.generations[index]?.body.messages
  return Array.isArray(messages) ? messages[1].tool_calls[0].function.arguments : undefined
}

it.each([400, 500])('is asked again with an empty object after a %i, and the record says so', async (status) => {
  const proxy = openProxy()
  const door = proxy.openDoor()
  const sink = await proxy.chat(door, { model: 'm', messages: history(BROKEN) })
  expect(sent(proxy, 0)).toBe(BROKEN)
  proxy.generations[0]?.respond(status, { error: { message: 'Unterminated string starting at: line 1 column 27 (char 26)' } })
  await proxy.settle()
  expect(sent(proxy, 1)).toBe('{}')
  proxy.generations[1]?.answer()
  await proxy.settle()
  expect(sink.status()).toBe(200)
  expect(proxy.records.at(-1)?.diagnostics).toContainEqual({
    code: 'arguments-replaced',
    detail: '1 calls in history: Unterminated string starting at: line 1 column 27 (char 26)',
  })
  await proxy.close()
})

it('leaves arguments that are empty or an object as they were sampled', () => {
  const said = (...texts: readonly string[]): ChatMessage => ({
    role: 'assistant',
    content: null,
    tool_calls: texts.map((text, index) => ({ id: `c${index}`, type: 'function', function: { name: 'f', arguments: text } })),
  })
  expect(withSoundArguments([said('', '{"a":  1}')])).toBeNull()
  expect(withSoundArguments([said('', '{"a":  1}', '[1]', 'x')])).toEqual({ messages: [said('', '{"a":  1}', '{}', '{}')], replaced: 2 })
})

it('is asked only once more, and not at all when every call in history is sound or the prompt is too long', async () => {
  const proxy = openProxy()
  const door = proxy.openDoor()
  const refused = await proxy.chat(door, { model: 'm', messages: history(BROKEN) })
  proxy.generations[0]?.respond(400, { error: { message: 'bad' } })
  await proxy.settle()
  proxy.generations[1]?.respond(400, { error: { message: 'still bad' } })
  await proxy.settle()
  expect(refused.status()).toBe(400)
  await proxy.chat(door, { model: 'm', messages: history('{"a": 1}') })
  proxy.generations[2]?.respond(400, { error: { message: 'bad' } })
  await proxy.settle()
  await proxy.chat(door, { model: 'm2', messages: history(BROKEN) })
  proxy.generations[3]?.respond(400, { error: { message: "This model's maximum context length is 4096 tokens" } })
  await proxy.settle()
  expect(proxy.generations).toHaveLength(4)
  await proxy.close()
})
