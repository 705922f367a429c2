// The callback client against a real receiver on loopback.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type CallbackTransport, openTransport } from '../../src/actors/callback/transport.ts'

let transport: CallbackTransport
let server: Server
let answer: (request: IncomingMessage, response: ServerResponse, body: string) => void
let requests: {
  readonly method: string | undefined
  readonly url: string | undefined
  readonly headers: IncomingMessage['headers']
  readonly body: string
}[]
let base: string

beforeEach(async () => {
  requests = []
  answer = (_, response) => response.end()
  server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      requests.push({ method: request.method, url: request.url, headers: request.headers, body })
      answer(request, response, body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `127.0.0.1:${(server.address() as AddressInfo).port}`
  transport = openTransport()
})
afterEach(async () => {
  await transport.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const post = (url: string, signal = new AbortController().signal) =>
  transport.post(url, { 'content-type': 'application/json', 'idempotency-key': 'k' }, Buffer.from('{"a":1}'), signal)

describe('the callback client', () => {
  it('posts the body with its headers and answers the status', async () => {
    answer = (_, response) => response.writeHead(202).end('{"ok":true}')
    expect(await post(`http://${base}/cb?x=1`)).toEqual({ status: 202, retryAfter: null })
    expect(requests).toMatchObject([
      {
        method: 'POST',
        url: '/cb?x=1',
        body: '{"a":1}',
        headers: { 'content-type': 'application/json', 'idempotency-key': 'k', 'content-length': '7' },
      },
    ])
  })

  it('answers Retry-After', async () => {
    answer = (_, response) => response.writeHead(429, { 'retry-after': '5' }).end()
    expect(await post(`http://${base}/`)).toEqual({ status: 429, retryAfter: '5' })
  })

  it('does not follow a redirect', async () => {
    answer = (_, response) => response.writeHead(307, { location: `http://${base}/elsewhere` }).end()
    expect(await post(`http://${base}/cb`)).toMatchObject({ status: 307 })
    expect(requests).toHaveLength(1)
  })

  it('sends credentials of the URL as a header, not in the URL', async () => {
    await post(`http://us%40er:se%3Acret@${base}/cb`)
    expect(requests[0]?.url).toBe('/cb')
    expect(requests[0]?.headers.authorization).toBe(`Basic ${Buffer.from('us@er:se:cret').toString('base64')}`)
  })

  it('reaches names that resolve to loopback', async () => {
    expect(await post(`http://localhost:${base.split(':')[1]}/`)).toMatchObject({ status: 200 })
  })

  it('ends when told to, although the receiver never answers', async () => {
    const controller = new AbortController()
    answer = () => controller.abort(new Error('overdue'))
    await expect(post(`http://${base}/`, controller.signal)).rejects.toThrow('overdue')
  })

  it('fails when the receiver drops the connection or is not there', async () => {
    answer = (request) => request.socket.destroy()
    await expect(post(`http://${base}/`)).rejects.toThrow()
    await expect(post('http://127.0.0.1:1/')).rejects.toThrow('ECONNREFUSED')
  })

  it('does not read an endless answer', async () => {
    answer = (request, response) => {
      response.writeHead(200)
      const more = () => {
        while (!request.socket.destroyed && response.write('x'.repeat(65_536)));
      }
      response.on('drain', more)
      more()
    }
    expect(await post(`http://${base}/`)).toMatchObject({ status: 200 })
  })
})
