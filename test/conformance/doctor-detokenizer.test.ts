import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { openDetokenizer } from '../../src/doctor/detokenizer.ts'
import { openScriptedEngine } from '../../src/engine/scripted/engine.ts'

const opened: { close(): unknown }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

/** `<|im_end|>`, a line break, `<think>`: of Qwen3. */
const IDS = [151_645, 198, 151_667]
const TEXT = '<|im_end|>\n<think>'

/** Answers every request in the same way, and keeps what was asked. */
async function answering(status: number, body: string) {
  const asked: { readonly url: string | undefined; readonly body: unknown }[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const part of request) text += part
    asked.push({ url: request.url, body: JSON.parse(text) })
    response.writeHead(status, { 'content-type': 'application/json' }).end(body)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  opened.push({ close: () => new Promise((closed) => server.close(closed)) })
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` } // a TCP server's address
}

describe('ids as text', () => {
  it.each([
    ['vllm', 'vllm'],
    ['sglang', 'sglang'],
    ['sglang', 'embedded'],
    ['sglang', 'sglang-native'],
    ['llamacpp', 'llamacpp'],
  ] as const)('from a server of the shape of %s, called %s, special tokens included', async (shape, kind) => {
    const engine = await openScriptedEngine({ generator: {}, shape, model: 'm' })
    opened.push(engine)
    expect(await openDetokenizer(kind, engine.url, 'm')(IDS)).toEqual({ ok: true, text: TEXT })
  })

  it.each([
    ['vllm', { model: 'm', tokens: IDS }],
    ['sglang', { model: 'm', tokens: IDS, skip_special_tokens: false }],
    ['llamacpp', { tokens: IDS }],
  ] as const)('are asked of %s in its own terms', async (kind, body) => {
    const { asked, url } = await answering(200, '{}')
    await openDetokenizer(kind, url, 'm')(IDS)
    expect(asked).toEqual([{ url: '/detokenize', body }])
  })

  it('are not asked for where there are none', async () => {
    expect(await openDetokenizer('vllm', 'http://127.0.0.1:9', null)([])).toEqual({ ok: true, text: '' })
  })

  it.each([
    ['has no such route', 404, '{"detail":"Not Found"}', 'answered 404'],
    ['answers in another shape', 200, '{"text":"a"}', 'answered without a text'],
    ['answers no JSON', 200, 'oops', 'gave no answer'],
  ])('cannot be had from a server that %s', async (_, status, body, problem) => {
    const { url } = await answering(status, body)
    expect(await openDetokenizer('vllm', url, null)(IDS)).toEqual({
      ok: false,
      problem: expect.stringContaining(`${url}/detokenize ${problem}`),
    })
  })

  it('cannot be had from a server that is gone', async () => {
    expect(await openDetokenizer('vllm', 'http://127.0.0.1:9', null)(IDS)).toMatchObject({ ok: false })
  })
})
