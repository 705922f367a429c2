// The model plane's HTTP server: node:http requests become calls of the boundary, and what sockets took is told back.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Boundary, IncomingCall, ReplySink } from './boundary.ts'
import { openConnections } from './connections.ts'

export type ModelPortOptions = {
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  readonly boundary: Boundary
  readonly maxBodyBytes?: number
  /** Beyond them, connections are cut whose clients wait for nothing. */
  readonly maxConnections?: number
}

export type ModelPort = {
  readonly port: number
  /** Takes no new connection and cuts the open ones. Idempotent. */
  close(): Promise<void>
}

const MAX_BODY_BYTES = 64 * 2 ** 20
const MAX_HEADER_BYTES = 64 * 1024
const MAX_CONNECTIONS = 4_096
/** Longer than clients keep their sockets, so that a server's close never meets a request on its way. */
const KEEP_ALIVE_MS = 120_000
/** What the smallest piece of a body is counted as. */
const MIN_PIECE_BYTES = 512
/** For a whole request to arrive. */
const REQUEST_MS = 300_000

/** Rejects when the port cannot be bound. */
export async function openModelPort(options: ModelPortOptions): Promise<ModelPort> {
  const { host, port, boundary, maxBodyBytes = MAX_BODY_BYTES, maxConnections = MAX_CONNECTIONS } = options
  const connections = openConnections(maxConnections)
  function serve(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    if (!connections.ask(socket)) return
    response.once('close', () => connections.answer(socket))
    const onRead = (): void => void response.once('close', connections.expect(socket))
    void boundary.handle(incomingCall(request, maxBodyBytes, onRead), replySink(response))
  }
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      keepAliveTimeout: KEEP_ALIVE_MS,
      headersTimeout: 60_000,
      requestTimeout: REQUEST_MS,
      noDelay: true,
      // Node would refuse it with an empty body, which no client of a model understands.
      requireHostHeader: false,
    },
    serve,
  )
  // The same refusal without a body awaits an expectation that Node does not know.
  server.on('checkExpectation', serve)
  server.on('connection', (socket) => connections.add(socket))
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
    const tooLarge = error.code === 'HPE_HEADER_OVERFLOW'
    const body = JSON.stringify({
      error: { message: 'the request is not valid HTTP', type: 'invalid_request_error', param: null, code: 'malformed_http' },
    })
    socket.end(
      `HTTP/1.1 ${tooLarge ? '431 Request Header Fields Too Large' : '400 Bad Request'}\r\nconnection: close\r\n` +
        `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
  })
  await new Promise<void>((resolve, reject) => {
    // For good: a later error is that of one connection which could not be accepted, and unheard it would end the thread.
    server.on('error', reject)
    server.listen(port, host, resolve)
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port')
  let closing: Promise<void> | null = null
  return {
    port: address.port,
    close() {
      closing ??= new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
      return closing
    },
  }
}

function incomingCall(request: IncomingMessage, maxBodyBytes: number, onRead: () => void): IncomingCall {
  return {
    method: request.method ?? 'GET',
    url: request.url ?? '/',
    headers: request.headers,
    async body(fits) {
      const read = await readAll(request, maxBodyBytes, fits)
      if (read.ok) onRead()
      return read
    },
  }
}

function readAll(request: IncomingMessage, maxBodyBytes: number, fits: (bytes: number) => boolean): ReturnType<IncomingCall['body']> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let size = 0
    const stop = (): void => {
      request.off('data', take)
      request.off('end', end)
      request.off('close', gone)
      request.off('error', gone)
    }
    const take = (chunk: Buffer): void => {
      size += chunk.byteLength
      const isTooLarge = size > maxBodyBytes
      if (!isTooLarge && fits(Math.max(chunk.byteLength, MIN_PIECE_BYTES))) return void chunks.push(kept(chunk))
      stop()
      // The rest is read and thrown away, so that the client lives to see the answer.
      request.on('error', () => {})
      request.resume()
      resolve({ ok: false, error: isTooLarge ? 'too-large' : 'full' })
    }
    const end = (): void => {
      stop()
      resolve({ ok: true, bytes: Buffer.concat(chunks, size) })
    }
    const gone = (): void => {
      stop()
      resolve({ ok: false, error: 'gone' })
    }
    request.on('data', take)
    request.on('end', end)
    request.on('close', gone)
    request.on('error', gone)
  })
}

/** A small piece is a view into a read that holds many: kept as it is, it would keep the whole read. */
function kept(piece: Buffer): Buffer {
  return piece.byteLength < MIN_PIECE_BYTES ? Buffer.from(piece) : piece
}

function replySink(response: ServerResponse): ReplySink {
  // `close` of the response, not of the request: the latter fires as soon as the body has been read.
  const closed = new Promise<void>((resolve) => response.once('close', resolve))
  response.on('error', () => {})
  return {
    head: (status, headers) => void response.writeHead(status, headers),
    write: (chunk) => response.write(chunk),
    drained: () => Promise.race([new Promise<void>((resolve) => response.once('drain', resolve)), closed]),
    async end(chunk) {
      if (response.destroyed) return response.headersSent ? 'partial' : 'no'
      const finished = new Promise<'yes'>((resolve) => response.once('finish', () => resolve('yes')))
      response.end(chunk)
      return Promise.race([finished, closed.then(() => (response.writableFinished ? 'yes' : 'partial'))])
    },
    destroy: () => void response.destroy(),
    onClosed(listener) {
      void closed.then(() => {
        if (!response.writableFinished) listener()
      })
    },
  }
}
