// Who may ask for what: routes, keys, prefixes and bodies; whatever is refused leaves no trace of a call.
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { knownSessionId } from '../../src/contract/ids.ts'
import { HELLO, openProxy } from '../lib/proxy-fixture.ts'

const CHAT = '/v1/chat/completions'

describe('keys', () => {
  it.each([
    { header: 'authorization', of: (key: string) => `Bearer ${key}` },
    { header: 'authorization', of: (key: string) => `bearer ${key} ` },
    { header: 'x-api-key', of: (key: string) => key },
    { header: 'x-goog-api-key', of: (key: string) => key },
  ])('open the session from $header', async ({ header, of }) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    await proxy.send({ url: CHAT, headers: { [header]: of(door.key) }, bytes: JSON.stringify(HELLO) })
    expect(proxy.generations).toHaveLength(1)
  })

  it('are found beside a credential that is not ours', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    await proxy.send({ url: CHAT, headers: { authorization: 'Bearer other', 'x-goog-api-key': door.key }, bytes: JSON.stringify(HELLO) })
    expect(proxy.generations).toHaveLength(1)
  })

  it.each([
    { given: 'but for its last character', of: (key: string) => key.slice(0, -1) },
    { given: 'but for its first character', of: (key: string) => key.slice(1) },
    { given: 'with another last character', of: (key: string) => `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}` },
    { given: 'with one character more', of: (key: string) => `${key}0` },
    { given: 'in capitals', of: (key: string) => key.toUpperCase() },
  ])('are unknown $given', async ({ of }) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.send({ url: CHAT, headers: { 'x-api-key': of(door.key) }, bytes: JSON.stringify(HELLO) })
    expect([sink.status(), proxy.generations, proxy.facts]).toEqual([401, [], []])
  })

  it('have 32 random bytes and are not the session id', () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    expect(door.key).toMatch(/^[0-9a-f]{64}$/)
    expect(door.basePath).not.toContain(door.key)
  })
})

describe('refused at once and never recorded', () => {
  it.each([
    { given: 'no key', status: 401, code: 'invalid_api_key', headers: () => ({}) },
    { given: 'an unknown key', status: 401, code: 'invalid_api_key', headers: () => ({ authorization: `Bearer ${'0'.repeat(64)}` }) },
    {
      given: 'the session id as key',
      status: 401,
      code: 'invalid_api_key',
      url: CHAT,
      headers: () => ({ authorization: 'Bearer sk-polar-0000-1' }),
    },
    { given: "another session's prefix", status: 403, code: 'forbidden', url: `/s/sk-polar-other${CHAT}` },
    { given: 'malformed JSON', status: 400, code: 'malformed_json', bytes: '{"model":' },
    { given: 'invalid UTF-8', status: 400, code: 'malformed_json', bytes: Uint8Array.of(0x22, 0xff, 0x22) },
    { given: 'an array', status: 400, code: 'invalid_request', bytes: '[]' },
    { given: 'null', status: 400, code: 'invalid_request', bytes: 'null' },
    { given: 'a mistyped body', status: 400, code: 'invalid_request', bytes: '{"model":"m","messages":"hi"}' },
    { given: 'a huge body', status: 413, code: 'too_large', bytes: `{"x":"${'x'.repeat(5_000)}"}` },
    { given: 'TI-07: a bomb', status: 413, code: 'too_large', bytes: zstdCompressSync(Buffer.alloc(2 ** 24)), encoding: 'zstd' },
    { given: 'TI-07: a broken frame', status: 400, code: 'invalid_request', bytes: gzipSync('{}').subarray(0, 12), encoding: 'gzip' },
    {
      given: 'TI-07: a truncated zstd frame',
      status: 400,
      code: 'invalid_request',
      bytes: zstdCompressSync('{"a":1}').subarray(0, 10),
      encoding: 'zstd',
    },
    { given: 'TI-07: an unknown coding', status: 415, code: 'unsupported_encoding', bytes: '{}', encoding: 'snappy' },
    { given: 'a coding named like an object member', status: 415, code: 'unsupported_encoding', bytes: '{}', encoding: 'constructor' },
    { given: 'an unknown route', status: 404, code: 'route_unknown', url: '/v1/embeddings' },
    { given: 'a mistyped route', status: 404, code: 'route_unknown', url: '/v1/chat/completion' },
    { given: 'the wrong method', status: 404, code: 'route_unknown', url: CHAT, method: 'GET' },
    { given: 'completions', status: 404, code: 'route_unknown', url: '/v1/completions' },
    { given: 'TO-07: compaction by the server', status: 404, code: 'route_unknown', url: '/v1/responses/compact' },
    { given: 'TO-02: a WebSocket', status: 426, code: 'upgrade_required', url: '/v1/responses', method: 'GET', upgrade: 'websocket' },
  ])('$given: $status', async ({ status, code, headers, url, method, bytes, encoding, upgrade }) => {
    const proxy = openProxy({ settings: { maxBodyBytes: 4_096 } })
    const door = proxy.openDoor()
    const sink = await proxy.send({
      url: url ?? CHAT,
      method: method ?? 'POST',
      bytes: bytes ?? JSON.stringify(HELLO),
      headers: {
        ...(headers?.() ?? { authorization: `Bearer ${door.key}` }),
        ...(encoding === undefined ? {} : { 'content-encoding': encoding }),
        ...(upgrade === undefined ? {} : { upgrade, connection: 'Upgrade' }),
      },
    })
    // Decompression runs on threads of its own, outside virtual time.
    while (sink.status() === null) await new Promise((resolve) => setImmediate(resolve))
    expect([sink.status(), sink.json()]).toMatchObject([status, { error: { code } }])
    expect(sink.isEnded()).toBe(true)
    expect([proxy.generations, proxy.facts, proxy.records, proxy.faults]).toEqual([[], [], [], []])
    expect((await door.seal()).calls).toEqual([])
  })

  it.each([
    ['POST', '/s/x/chat/completions', 'POST /s/x/v1/chat/completions'],
    ['POST', '/s/x/v1/v1/messages', 'POST /s/x/v1/messages'],
    ['POST', '/v1/v1beta/models/a/b:generateContent?key=k', 'POST /v1beta/models/a/b:generateContent'],
    ['GET', '/s/x/v1/responses', 'POST /s/x/v1/responses'],
    ['POST', '/v1/embeddings', null],
    ['GET', '/v1/v1', null],
  ])('a path under the wrong base URL: %s %s is told %s', async (method, url, meant) => {
    const sink = await openProxy().send({ method, url })
    const hint = meant === null ? '' : `; did you mean ${meant}?`
    expect(sink.status()).toBe(404)
    expect(JSON.stringify(sink.json())).toContain(`${method} ${url.split('?')[0]} is not served here${hint}"`)
  })

  it('a sealed session: 403, and its key is unknown once it is closed', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    await door.seal()
    expect((await proxy.chat(door)).status()).toBe(403)
    expect((await proxy.send({ method: 'GET', url: '/v1/models', headers: { 'x-api-key': door.key } })).status()).toBe(403)
    door.close()
    expect((await proxy.chat(door)).status()).toBe(401)
    expect(proxy.facts).toEqual([])
  })

  it('everything, once the boundary is closed', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    await proxy.chat(door)
    const closing = proxy.boundary.close()
    await proxy.settle()
    await closing
    expect(proxy.generations[0]?.isCancelled()).toBe(true)
    expect((await proxy.chat(door)).status()).toBe(503)
    expect(proxy.boundary.openDoor({ session: knownSessionId('x'), attempt: 1, tier: 'eval', pins: {}, notify: () => {} })).toMatchObject({
      ok: false,
    })
    expect((await door.seal()).calls).toMatchObject([{ status: 'cancelled' }])
  })
})

describe('TI-07: compressed bodies', () => {
  it.each([
    { encoding: 'gzip', bytes: (body: string) => gzipSync(body) },
    { encoding: 'zstd', bytes: (body: string) => zstdCompressSync(body) },
    { encoding: 'gzip, zstd', bytes: (body: string) => zstdCompressSync(gzipSync(body)) },
    { encoding: 'identity', bytes: (body: string) => Buffer.from(body) },
  ])('in $encoding are read', async ({ encoding, bytes }) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    await proxy.send({
      url: CHAT,
      headers: { authorization: `Bearer ${door.key}`, 'content-encoding': encoding },
      bytes: bytes(JSON.stringify(HELLO)),
    })
    while (proxy.generations.length === 0) {
      await new Promise((resolve) => setImmediate(resolve))
      await proxy.settle()
    }
    expect(proxy.generations[0]?.body.messages).toEqual(HELLO.messages)
  })
})

describe('routes that are no generation', () => {
  it.each(['GET', 'HEAD'])('%s / says who is there, without a key', async (method) => {
    const sink = await openProxy().send({ method, url: '/' })
    expect([sink.status(), sink.json()]).toEqual([200, { status: 'ok', service: 'polar-gateway' }])
  })

  const COUNT = '/v1/messages/count_tokens'
  it.each([
    { given: 'a prompt', bytes: JSON.stringify({ messages: HELLO.messages, model: 'm' }), status: 200 },
    { given: 'no messages', bytes: '{"model":"m"}', status: 400 },
    { given: 'no JSON', bytes: '{', status: 400 },
    { given: 'too much', bytes: `{"x":"${'x'.repeat(5_000)}"}`, status: 413 },
  ])(`${COUNT} of $given is answered with $status, and never recorded`, async ({ bytes, status }) => {
    const proxy = openProxy({ promptTokens: 7, settings: { maxBodyBytes: 4_096 } })
    await proxy.settle()
    const door = proxy.openDoor()
    const sink = await proxy.send({ url: COUNT, headers: { 'x-api-key': door.key }, bytes })
    expect(sink.status()).toBe(status)
    expect(sink.json()).toMatchObject(status === 200 ? { input_tokens: 7 } : { type: 'error' })
    expect([proxy.generations, proxy.records, proxy.facts, proxy.faults]).toEqual([[], [], [], []])
  })

  it('/v1/tokenize of a bare text is answered with what the engine counts', async () => {
    const proxy = openProxy({ promptTokens: 7 })
    await proxy.settle()
    const door = proxy.openDoor()
    const headers = { authorization: `Bearer ${door.key}` }
    const sink = await proxy.send({ url: '/v1/tokenize', headers, bytes: '{"prompt":"hello"}' })
    expect([sink.status(), sink.json()]).toMatchObject([200, { count: 7, max_model_len: 4_096 }])
    expect([sink.headers()['x-polar-token-count'], proxy.faults]).toEqual([undefined, []])
  })

  it(`${COUNT} of a client that leaves in the middle is nothing to answer`, async () => {
    const proxy = openProxy({ promptTokens: 7 })
    const door = proxy.openDoor()
    const sink = await proxy.send({ url: COUNT, headers: { 'x-api-key': door.key }, body: async () => ({ ok: false, error: 'gone' }) })
    expect([sink.status(), sink.isDestroyed(), proxy.faults]).toEqual([null, true, []])
  })

  it.each([
    [{}, 'no API key was given'],
    [{ 'x-api-key': 'made-up' }, 'the API key is not known'],
  ])('are told what is wrong with the key: %j', async (headers, problem) => {
    const sink = await openProxy().send({ method: 'GET', url: '/v1/models', headers })
    expect([sink.status(), JSON.stringify(sink.json())]).toEqual([401, expect.stringContaining(problem)])
  })

  it('/health is honest about the replicas', async () => {
    const proxy = openProxy({ replicas: 3, dead: new Set([1]) })
    await proxy.settle()
    const sink = await proxy.send({ method: 'GET', url: '/health' })
    expect([sink.status(), sink.json()]).toMatchObject([200, { status: 'ok', replicas: { total: 3, up: 2 } }])
  })

  it.each([
    { url: '/v1/models?client_version=1', json: { object: 'list', data: [{ id: 'policy', object: 'model', max_model_len: 4096 }] } },
    { url: '/v1/models/gpt-5', json: { id: 'gpt-5', object: 'model', max_model_len: 4096 } },
    { url: '/v1/models/Qwen/Qwen3-8B', json: { id: 'Qwen/Qwen3-8B' } },
    { url: '/v1/models/Qwen%2FQwen3-8B', json: { id: 'Qwen/Qwen3-8B' } },
    { url: '/v1/models/%E0%A4%A', json: { id: '%E0%A4%A' } },
  ])('$url', async ({ url, json }) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    await proxy.settle()
    const sink = await proxy.send({ method: 'GET', url: door.basePath + url, headers: { 'x-api-key': door.key } })
    expect([sink.status(), sink.json()]).toMatchObject([200, json])
    expect((await proxy.send({ method: 'GET', url })).status()).toBe(401)
    expect(proxy.facts).toEqual([])
  })
})
