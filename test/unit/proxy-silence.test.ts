// An engine that thinks for minutes: the client library's own time limits must not end the call. Alone in its file, because that
// library keeps one clock for all its connections, which has to be the fake one from the start.
import { createServer, type RequestListener, type Server } from 'node:http'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { undiciTransport } from '../../src/proxy/engines/transport.ts'

let server: Server | null = null

beforeAll(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
})

afterAll(() => {
  vi.useRealTimers()
})

afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

async function serve(listener: RequestListener): Promise<string> {
  const opened = createServer(listener)
  server = opened
  await new Promise<void>((resolve) => opened.listen(0, '127.0.0.1', resolve))
  const address = opened.address()
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
}

const POST = { method: 'POST' as const, path: '/v1/chat/completions', headers: {}, body: '{}' }

it.each(['before its head', 'in its body'])('may be silent for longer than any default limit: %s', async (moment) => {
  let requests = 0
  let answer = (): void => {}
  const reached = new Promise<void>((resolve) => {
    answer = resolve
  })
  let finish = (): void => {}
  const url = await serve((_, response) => {
    requests += 1
    if (moment === 'in its body') response.writeHead(200).write('{')
    finish = () => response.end('}')
    answer()
  })
  const connection = undiciTransport(url, 1_000)
  const sent = connection.send(POST, new AbortController().signal)
  await reached
  // Several turns, so that what has been sent has also arrived.
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  for (let second = 0; second < 700; second += 1) vi.advanceTimersByTime(500)
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  finish()
  expect(await sent).toMatchObject({ ok: true })
  expect(requests).toBe(1)
  await connection.close()
})
