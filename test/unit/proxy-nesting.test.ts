// JSON nested deeper than anybody nests it: refused in a request, and no more than text in what was sampled.
import { describe, expect, it } from 'vitest'
import { parseJsonText } from '../../src/proxy/json.ts'
import { openProxy } from '../lib/proxy-fixture.ts'

const DEEP = 20_000
const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`
const ROUTES = ['/v1/chat/completions', '/v1/messages', '/v1/responses', '/v1beta/models/m:generateContent']

it.each([
  ['lists', nested],
  ['objects', (depth: number): string => `${'{"a":'.repeat(depth - 1)}{}${'}'.repeat(depth - 1)}`],
])('%s may be nested 512 levels deep, and no deeper', (_given, text) => {
  expect(parseJsonText(text(512)).ok).toBe(true)
  expect(parseJsonText(text(513))).toEqual({ ok: false, detail: 'nested deeper than 512 levels' })
})

describe.each(ROUTES)('a request of %s', (route) => {
  it.each([600, DEEP])('nested %i levels deep is refused as what it is', async (depth) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.send({
      url: `${door.basePath}${route}`,
      headers: { authorization: `Bearer ${door.key}` },
      bytes: `{"model":"m","messages":[{"role":"user","content":${nested(depth)}}]}`,
    })
    expect(sink.status()).toBe(400)
    expect(JSON.stringify(sink.json())).toContain('nested deeper than 512 levels')
    expect(proxy.generations).toEqual([])
    await proxy.close()
  })

  it('whose answer calls a tool with arguments nested too deep gets that answer', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const user = { role: 'user', content: 'hi' }
    const sink = await proxy.send({
      url: `${door.basePath}${route}`,
      headers: { authorization: `Bearer ${door.key}` },
      bytes: JSON.stringify({ model: 'm', messages: [user], input: [user], contents: [{ role: 'user', parts: [{ text: 'hi' }] }] }),
    })
    const args = `{"a":${nested(DEEP)}}`
    const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: args } }
    proxy.generations[0]?.answer({ message: { role: 'assistant', content: null, tool_calls: [call] }, finish: 'tool_calls' })
    await proxy.settle()
    expect(sink.status()).toBe(200)
    expect(proxy.records.at(-1)?.status).toBe('ok')
    await proxy.close()
  })
})
