// The HTTP server on real sockets: disconnects are seen, bad bytes are answered, slow readers cost no memory, and it closes.
import { request as httpRequest } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import type { Boundary, IncomingCall, ReplySink } from '../../src/proxy/boundary.ts'
import { type ModelPort, type ModelPortOptions, openModelPort } from '../../src/proxy/model-port.ts'

let port: ModelPort | null = null

afterEach(async () => {
  await port?.close()
  port = null
})

type Handler = (call: IncomingCall, sink: ReplySink) => Promise<void>

async function serve(handle: Handler, limits: Pick<ModelPortOptions, 'maxBodyBytes' | 'maxConnections'> = {}): Promise<number> {
  const boundary: Boundary = {
    openDoor: () => ({ ok: false, error: 'none here' }),
    handle,
    addReplica: () => ({ ok: true }),
    removeReplica: () => ({ ok: true }),
    replicas: async () => [],
    callsOf: () => null,
    pause: async () => 'paused',
    resume: () => {},
    inference: async () => ({ paused: false, inFlight: 0, waiting: 0, replicas: [] }),
    close: async () => {},
  }
  port = await openModelPort({ host: '127.0.0.1', port: 0, boundary, ...limits })
  return port.port
}

function open(toPort: number): Promise<Socket> {
  return new Promise((resolve) => {
    const socket = connect(toPort, '127.0.0.1', () => resolve(socket))
    socket.on('error', () => {})
  })
}

function readToEnd(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    socket.on('data', (data) => {
      text += data.toString('latin1')
    })
    socket.on('close', () => resolve(text))
  })
}

const post = (body: string): string => `POST /x HTTP/1.1\r\nhost: h\r\ncontent-length: ${body.length}\r\n\r\n${body}`

/** Resolves when the server handled the request so far that `when` was called. */
function signal<T>(): { readonly promise: Promise<T>; readonly when: (value: T) => void } {
  let when: (value: T) => void = () => {}
  const promise = new Promise<T>((resolve) => {
    when = resolve
  })
  return { promise, when }
}

describe('ST-02: a client that hangs up', () => {
  it.each([
    { moment: 'before the head', head: false, body: false, delivery: 'no' },
    { moment: 'after the head', head: true, body: false, delivery: 'partial' },
    { moment: 'in the middle of the body', head: true, body: true, delivery: 'partial' },
  ])('$moment is seen once, and only then', async ({ head, body, delivery }) => {
    const ready = signal<ReplySink>()
    const closed = signal<void>()
    let closings = 0
    const at = await serve(async (call, sink) => {
      sink.onClosed(() => {
        closings += 1
        closed.when()
      })
      await call.body(() => true)
      if (head) sink.head(200, { 'content-type': 'text/plain' })
      if (body) sink.write('some')
      ready.when(sink)
    })
    const socket = await open(at)
    socket.write(post('{}'))
    const sink = await ready.promise
    // The body has been read to its end: that alone must not count as a departure.
    await new Promise((resolve) => setImmediate(resolve))
    expect(closings).toBe(0)
    socket.destroy()
    await closed.promise
    expect(await sink.end('late')).toBe(delivery)
    expect(closings).toBe(1)
  })

  it('in the middle of its own body is gone, not malformed', async () => {
    const read = signal<Awaited<ReturnType<IncomingCall['body']>>>()
    const at = await serve(async (call) => read.when(await call.body(() => true)))
    const socket = await open(at)
    socket.write('POST /x HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\n{"half":')
    await new Promise((resolve) => setImmediate(resolve))
    socket.destroy()
    expect(await read.promise).toEqual({ ok: false, error: 'gone' })
  })
})

describe('an answer', () => {
  it('that was taken is delivered, and the connection serves the next request', async () => {
    const deliveries: string[] = []
    const closings: number[] = []
    const at = await serve(async (call, sink) => {
      sink.onClosed(() => closings.push(1))
      await call.body(() => true)
      sink.head(200, { 'content-type': 'text/plain' })
      sink.write('a')
      deliveries.push(await sink.end('b'))
    })
    const socket = await open(at)
    const text = readToEnd(socket)
    socket.write(post('1'))
    socket.write(post('2'))
    while (deliveries.length < 2) await new Promise((resolve) => setImmediate(resolve))
    socket.end()
    expect((await text).match(/200 OK/g)).toHaveLength(2)
    expect([deliveries, closings]).toEqual([['yes', 'yes'], []])
  })

  it('ST-08: to a reader that stops does not pile up, and its end is seen when the reader goes', async () => {
    const outcome = signal<{ readonly written: number; readonly delivery: string }>()
    const stuck = signal<void>()
    const at = await serve(async (call, sink) => {
      await call.body(() => true)
      sink.head(200, { 'content-type': 'text/event-stream' })
      const chunk = 'x'.repeat(65_536)
      let written = 0
      let isGone = false
      sink.onClosed(() => {
        isGone = true
      })
      while (!isGone && written < 64 * 2 ** 20) {
        written += chunk.length
        if (sink.write(chunk)) continue
        const drained = sink.drained()
        if (written > 2 ** 20) stuck.when()
        await drained
      }
      outcome.when({ written, delivery: await sink.end() })
    })
    const socket = await open(at)
    socket.pause()
    socket.write(post('{}'))
    await stuck.promise
    socket.destroy()
    const { written, delivery } = await outcome.promise
    // What the kernel's socket buffers take, and no more.
    expect(written).toBeLessThan(32 * 2 ** 20)
    expect(delivery).toBe('partial')
  })

  it('that is cut reaches the client as a broken connection', async () => {
    const at = await serve(async (call, sink) => {
      await call.body(() => true)
      sink.head(200, { 'content-type': 'text/event-stream' })
      sink.write('data: x\n\n')
      sink.destroy()
    })
    const failed = new Promise((resolve) => {
      const request = httpRequest({ port: at, method: 'POST', path: '/' }, (response) => {
        response.on('data', () => {})
        response.on('error', resolve)
        response.on('end', () => resolve('a clean end'))
      })
      request.on('error', resolve)
      request.end('{}')
    })
    expect(await failed).toBeInstanceOf(Error)
  })
})

describe('bad bytes', () => {
  it.each([
    { given: 'no HTTP', bytes: 'hello\r\n\r\n', status: 400 },
    { given: 'a broken length', bytes: 'POST / HTTP/1.1\r\nhost: h\r\ncontent-length: x\r\n\r\n', status: 400 },
    {
      given: 'two lengths',
      bytes: 'POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      status: 400,
    },
    { given: 'endless headers', bytes: `GET / HTTP/1.1\r\nhost: h\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`, status: 431 },
  ])('$given are answered $status, and the server lives', async ({ bytes, status }) => {
    let handled = 0
    const at = await serve(async (call, sink) => {
      handled += 1
      await call.body(() => true)
      sink.head(204, {})
      await sink.end()
    })
    const socket = await open(at)
    const text = readToEnd(socket)
    socket.write(bytes)
    expect(await text).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(handled).toBe(0)
    const response = await fetch(`http://127.0.0.1:${at}/`)
    expect(response.status).toBe(204)
  })

  it.each([
    { given: 'no host', header: '' },
    { given: 'an expectation nobody knows', header: 'host: h\r\nexpect: a-miracle\r\n' },
  ])('$given is no reason not to serve', async ({ header }) => {
    const at = await serve(async (call, sink) => {
      await call.body(() => true)
      sink.head(200, { 'content-type': 'text/plain' })
      await sink.end('served')
    })
    const socket = await open(at)
    const text = readToEnd(socket)
    socket.write(`POST / HTTP/1.1\r\n${header}content-length: 2\r\nconnection: close\r\n\r\n{}`)
    expect(await text).toMatch(/^HTTP\/1.1 200 [\s\S]*served/)
  })

  it('a body over the limit is reported as it grows, and the client sees the answer', async () => {
    const at = await serve(
      async (call, sink) => {
        const read = await call.body(() => true)
        sink.head(read.ok ? 200 : 413, { 'content-type': 'text/plain' })
        await sink.end(read.ok ? 'ok' : read.error)
      },
      { maxBodyBytes: 1_000 },
    )
    for (const [size, status] of [
      [1_000, 200],
      [1_001, 413],
      [8 * 2 ** 20, 413],
    ] as const) {
      const response = await fetch(`http://127.0.0.1:${at}/`, { method: 'POST', body: 'x'.repeat(size) })
      expect([response.status, await response.text()]).toEqual([status, status === 200 ? 'ok' : 'too-large'])
    }
  })

  it('a body in very small pieces counts for what it costs', async () => {
    const counted: number[] = []
    const at = await serve(async (call, sink) => {
      const read = await call.body((bytes) => counted.push(bytes) < 100)
      sink.head(200, { connection: 'close' })
      await sink.end(read.ok ? read.bytes : read.error)
    })
    for (const [pieces, answer] of [
      [50, 'x'.repeat(50)],
      [100, 'full'],
    ] as const) {
      counted.length = 0
      const socket = await open(at)
      const text = readToEnd(socket)
      socket.write(`POST /x HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(pieces)}0\r\n\r\n`)
      expect(await text).toContain(answer)
      expect(counted).toEqual(Array.from({ length: pieces }, () => 512))
    }
  })

  it('TO-02: an upgrade is an ordinary request that says so', async () => {
    const at = await serve(async (call, sink) => {
      sink.head(426, { connection: 'close' })
      await sink.end(String(call.headers.upgrade))
    })
    const socket = await open(at)
    const text = readToEnd(socket)
    socket.write('GET /v1/responses HTTP/1.1\r\nhost: h\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n\r\n')
    expect(await text).toMatch(/^HTTP\/1.1 426 [\s\S]*websocket/)
  })
})

describe('requests that come before the one before them is answered', () => {
  it('are served in order, as long as they are few', async () => {
    const at = await serve(async (call, sink) => {
      sink.head(200, call.url === '/last' ? { connection: 'close' } : {})
      await sink.end(call.url)
    })
    const socket = await open(at)
    const text = readToEnd(socket)
    socket.write(['/a', '/b', '/c', '/last'].map((url) => `GET ${url} HTTP/1.1\r\nhost: h\r\n\r\n`).join(''))
    expect((await text).match(/^\/\w+/gm)).toEqual(['/a', '/b', '/c', '/last'])
  })

  it('cut the connection when they are many', async () => {
    const seen: string[] = []
    const at = await serve(async (call) => void seen.push(call.url))
    const socket = await open(at)
    const text = readToEnd(socket)
    socket.write('GET /x HTTP/1.1\r\nhost: h\r\n\r\n'.repeat(1_000))
    expect(await text).toBe('')
    expect(seen).toHaveLength(16)
  })

  it('may be as many as the client likes, one after the other', async () => {
    const at = await serve(async (call, sink) => {
      await call.body(() => true)
      sink.head(200, {})
      await sink.end('ok')
    })
    for (let count = 0; count < 40; count += 1) expect(await (await fetch(`http://127.0.0.1:${at}/`)).text()).toBe('ok')
  })
})

describe('more connections than there may be', () => {
  it('are cut where nobody waits, the longest first: who waits is answered, and so is who comes', async () => {
    const asked = signal<ReplySink>()
    const at = await serve(
      async (call, sink) => {
        const read = await call.body(() => true)
        if (call.url === '/slow') return void asked.when(sink)
        sink.head(200, {})
        await sink.end(read.ok ? 'ok' : read.error)
      },
      { maxConnections: 3 },
    )
    const slow = await open(at)
    slow.write(post('{}').replace('/x', '/slow'))
    const sink = await asked.promise
    const halves = [await open(at), await open(at)]
    for (const half of halves) half.write('POST /x HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\n{')
    const [first, second] = halves.map(readToEnd)
    expect(await (await fetch(`http://127.0.0.1:${at}/x`, { method: 'POST', body: '{}' })).text()).toBe('ok')
    expect(await first).toBe('')
    const answer = readToEnd(slow)
    sink.head(200, { connection: 'close' })
    await sink.end('late')
    expect(await answer).toContain('late')
    for (const half of halves) half.destroy()
    expect(await second).toBe('')
  })

  it('are refused when everybody waits', async () => {
    const asked = signal<void>()
    const at = await serve(
      async (call) => {
        await call.body(() => true)
        asked.when()
      },
      { maxConnections: 1 },
    )
    const waiting = await open(at)
    waiting.write(post('{}'))
    await asked.promise
    expect(await readToEnd(await open(at))).toBe('')
    expect(waiting.destroyed).toBe(false)
    waiting.destroy()
  })
})

it('closes with connections open, and closing twice is one closing', async () => {
  const reached = signal<void>()
  const at = await serve(async () => reached.when())
  const socket = await open(at)
  const ended = readToEnd(socket)
  socket.write(post('{}'))
  await reached.promise
  await Promise.all([port?.close(), port?.close()])
  expect(await ended).toBe('')
})

it('says so when its port is taken', async () => {
  const at = await serve(async () => {})
  const boundary: Boundary = {
    openDoor: () => ({ ok: false, error: '' }),
    handle: async () => {},
    addReplica: () => ({ ok: true }),
    removeReplica: () => ({ ok: true }),
    replicas: async () => [],
    callsOf: () => null,
    pause: async () => 'paused',
    resume: () => {},
    inference: async () => ({ paused: false, inFlight: 0, waiting: 0, replicas: [] }),
    close: async () => {},
  }
  await expect(openModelPort({ host: '127.0.0.1', port: at, boundary })).rejects.toMatchObject({ code: 'EADDRINUSE' })
})
