// The wire to engines on real sockets: failures are told apart, nothing is retried behind our back, and only our signal cuts.
import { createServer, type RequestListener, type Server } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import { undiciTransport } from '../../src/proxy/engines/transport.ts'

const servers: Server[] = []

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
}

const POST = { method: 'POST' as const, path: '/v1/chat/completions', headers: { 'content-type': 'application/json' }, body: '{"x":1}' }
const STREAM = { 'content-type': 'text/event-stream' }
const never = (): AbortSignal => new AbortController().signal

describe('an engine', () => {
  it('is sent the request as it is, below its own path', async () => {
    const seen: unknown[] = []
    const url = await serve((request, response) => {
      request.on('data', (data) => seen.push([request.method, request.url, request.headers['content-type'], String(data)]))
      request.on('end', () => response.writeHead(201, { 'retry-after': '7' }).end('body'))
    })
    const connection = undiciTransport(`${url}/base/`, 1_000)
    const reply = await connection.send(POST, never())
    expect(seen).toEqual([['POST', '/base/v1/chat/completions', 'application/json', '{"x":1}']])
    expect(reply).toMatchObject({ ok: true, response: { status: 201, headers: { 'retry-after': '7' } } })
    expect(reply.ok && Buffer.from(reply.response.body).toString()).toBe('body')
    await connection.close()
  })

  it.each<{ given: string; listener: RequestListener; error: string }>([
    { given: 'resets before an answer', listener: (_, response) => void response.socket?.resetAndDestroy(), error: 'reset' },
    { given: 'closes before an answer', listener: (_, response) => void response.destroy(), error: 'reset' },
    {
      given: 'breaks off in the body',
      listener: (_, response) => {
        response.writeHead(200, { 'content-length': '100' })
        response.write('half', () => response.destroy())
      },
      error: 'reset',
    },
    { given: 'answers without end', listener: (_, response) => void response.end('x'.repeat(5_000)), error: 'too-large' },
  ])('that $given is $error, and is asked once', async ({ listener, error }) => {
    let requests = 0
    const url = await serve((request, response) => {
      requests += 1
      request.resume()
      request.on('end', () => listener(request, response))
    })
    const connection = undiciTransport(url, 1_000)
    expect(await connection.send(POST, never())).toMatchObject({ ok: false, error })
    expect(requests).toBe(1)
    await connection.close()
  })

  it('may answer with as much as is taken, to the byte', async () => {
    const url = await serve((_, response) => void response.end('x'.repeat(1_000)))
    const connection = undiciTransport(url, 1_000)
    expect(await connection.send(POST, never())).toMatchObject({ ok: true, response: { status: 200 } })
    await connection.close()
  })

  it('that nobody listens for is refused', async () => {
    const url = await serve(() => {})
    servers[0]?.close()
    await new Promise((resolve) => servers[0]?.once('close', resolve))
    const connection = undiciTransport(url, 1_000)
    expect(await connection.send(POST, never())).toMatchObject({
      ok: false,
      error: 'refused',
      detail: expect.stringContaining('ECONNREFUSED'),
    })
    await connection.close()
  })

  it('that speaks no TLS says so on one line', async () => {
    const url = await serve(() => {})
    const connection = undiciTransport(url.replace('http:', 'https:'), 1_000)
    expect(await connection.send(POST, never())).toMatchObject({
      ok: false,
      detail: expect.stringMatching(/^ERR_SSL_WRONG_VERSION_NUMBER: .*\S$/),
    })
    await connection.close()
  })

  it('sees its connection closed when our signal aborts, before and during the body', async () => {
    for (const begins of [false, true]) {
      const abort = new AbortController()
      const gone = new Promise<void>((resolve) => {
        void serve((request, response) => {
          request.resume()
          response.on('close', resolve)
          if (begins) response.writeHead(200).write('x')
          setImmediate(() => abort.abort())
        }).then(async (url) => {
          const connection = undiciTransport(url, 1_000)
          expect(await connection.send(POST, abort.signal)).toMatchObject({ ok: false, error: 'aborted' })
          await connection.close()
        })
      })
      await gone
    }
  })

  it('is not called at all on a signal that was aborted before, whatever the reason is', async () => {
    let requests = 0
    const url = await serve((_, response) => {
      requests += 1
      response.end('{}')
    })
    const connection = undiciTransport(url, 1_000)
    for (const reason of ['a text', undefined, new Error('an error')])
      expect(await connection.send(POST, AbortSignal.abort(reason))).toMatchObject({
        ok: false,
        error: 'aborted',
        detail: expect.any(String),
      })
    expect(requests).toBe(0)
    await connection.close()
  })

  it('is cut off, whatever is under way, when its connection closes', async () => {
    const gone = Promise.withResolvers<void>()
    const arrived = Promise.withResolvers<void>()
    const url = await serve((request, response) => {
      request.resume()
      response.on('close', gone.resolve)
      arrived.resolve()
    })
    const connection = undiciTransport(url, 1_000)
    const reply = connection.send(POST, never())
    await arrived.promise
    await connection.close()
    expect(await reply).toMatchObject({ ok: false, error: 'reset' })
    await gone.promise
  })

  it('serves as many calls at once as it is sent', async () => {
    const waiting: (() => void)[] = []
    const url = await serve((_, response) => {
      waiting.push(() => response.end('{}'))
      if (waiting.length === 150) for (const answer of waiting) answer()
    })
    const connection = undiciTransport(url, 1_000)
    const replies = await Promise.all(Array.from({ length: 150 }, () => connection.send(POST, never())))
    expect(replies.every((reply) => reply.ok)).toBe(true)
    await connection.close()
  })
})

describe('an answer that is followed', () => {
  async function followed(listener: RequestListener, follow: (bytes: Uint8Array) => number) {
    const url = await serve((request, response) => {
      request.resume()
      request.on('end', () => listener(request, response))
    })
    const connection = undiciTransport(url, 1_000)
    const reply = await connection.send(POST, never(), follow)
    await connection.close()
    return reply
  }

  it('comes piece by piece, the first before the last was written', async () => {
    const taken: string[] = []
    let end = (): void => {}
    const reply = await followed(
      (_, response) => {
        response.writeHead(200, STREAM).write('data: first\n\n')
        end = () => void response.end('data: last\n\n')
      },
      (bytes) => {
        taken.push(Buffer.from(bytes).toString())
        if (taken.length === 1) end()
        return 0
      },
    )
    expect(taken).toEqual(['data: first\n\n', 'data: last\n\n'])
    expect(reply.ok && [reply.response.status, reply.response.body.byteLength]).toEqual([200, 0])
  })

  it.each([
    ['a refusal', 400, STREAM],
    ['what is no event stream', 200, { 'content-type': 'application/json' }],
  ])('is collected as ever when it is %s', async (_name, status, headers) => {
    const taken: unknown[] = []
    const reply = await followed(
      (_, response) => void response.writeHead(status, headers).end('body'),
      (bytes) => taken.push(bytes),
    )
    expect(taken).toEqual([])
    expect(reply.ok && Buffer.from(reply.response.body).toString()).toBe('body')
  })

  it('may be longer than what is held of it, and is broken off when that is too much', async () => {
    const long: RequestListener = (_, response) => void response.writeHead(200, STREAM).end('x'.repeat(5_000))
    expect(await followed(long, () => 1_000)).toMatchObject({ ok: true })
    expect(await followed(long, () => 1_001)).toMatchObject({ ok: false, error: 'too-large' })
  })

  it('that breaks off is reset', async () => {
    const broken: RequestListener = (_, response) => {
      response.writeHead(200, STREAM)
      response.write('data: half', () => response.destroy())
    }
    expect(await followed(broken, () => 0)).toMatchObject({ ok: false, error: 'reset' })
  })
})
