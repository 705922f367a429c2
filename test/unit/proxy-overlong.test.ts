// What no context holds is refused by its length alone, and counted without an engine.
import { describe, expect, it } from 'vitest'
import { HELLO, openProxy } from '../lib/proxy-fixture.ts'

describe('a conversation that no context holds', () => {
  // The engine's is 4,096 tokens.
  const LONG = 'x'.repeat(4_096 * 64)

  it.each<{ where: string; body: object }>([
    { where: 'a text', body: { messages: [{ role: 'user', content: `${LONG}x` }] } },
    { where: 'parts', body: { messages: [{ role: 'user', content: [LONG, 'x'].map((text) => ({ type: 'text', text })) }] } },
    { where: 'reasoning', body: { messages: [{ role: 'assistant', content: 'x', reasoning_content: LONG }] } },
    {
      where: 'arguments',
      body: {
        messages: [{ role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: `${LONG}x` } }] }],
      },
    },
    { where: 'tools', body: { tools: [{ type: 'function', function: { name: 'f', description: LONG } }] } },
  ])('by $where, is refused before an engine tokenizes it, and counted by estimate', async ({ body }) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door, { ...HELLO, max_tokens: 5, ...body })
    expect([sink.status(), sink.json()]).toMatchObject([400, { error: { code: 'context_length_exceeded', param: 'messages' } }])
    const headers = { authorization: `Bearer ${door.key}` }
    const counted = await proxy.send({ url: '/v1/tokenize', headers, bytes: JSON.stringify({ ...HELLO, ...body }) })
    expect(counted.headers()['x-polar-token-count']).toBe('estimate')
    expect(proxy.generations).toEqual([])
    expect(proxy.facts.at(-1)).toMatchObject({ type: 'call-closed', status: 'failed', contextExhausted: true })
  })

  it('is for the engine to judge up to there, and images do not count', async () => {
    const proxy = openProxy()
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${LONG}` } }
    await proxy.chat(proxy.openDoor(), { ...HELLO, messages: [{ role: 'user', content: [{ type: 'text', text: LONG }, image] }] })
    expect(proxy.generations).toHaveLength(1)
  })
})
