// A way from a client to the model port on which one answer goes wrong, at a place of the test's choice.
import { type AddressInfo, connect, createServer } from 'node:net'
import { unreachable } from '../../src/kernel/unreachable.ts'

/** What becomes of an answer that the node gives. */
export type Loss =
  /** Cut when its first bytes come: none is passed on. */
  | { readonly type: 'before the head' }
  /** Passed on up to the end of the first event in which the text is found, then cut; `isHeld`: then nothing, until `cut` is called. */
  | { readonly type: 'after an event'; readonly holding: RegExp; readonly isHeld?: boolean }
  /** Read to its end, of which the client gets nothing: the sender cannot know. */
  | { readonly type: 'on the way'; readonly instead: Instead }

/** The body of a stream that the client gets in its place; null: a cut. */
type Instead = string | null

export type Relay = {
  readonly port: number
  /** What happens to the next answer; the one after it is passed on. */
  lose(loss: Loss): void
  /** Ends what is open, on both sides. */
  cut(instead: Instead): void
  /** True when it has happened. */
  isLost(): boolean
  /** Requests that came by. */
  requests(): number
  close(): Promise<void>
}

/** The last piece of a chunked body. */
const LAST_CHUNK = '0\r\n\r\n'

export async function openRelay(modelPort: number): Promise<Relay> {
  const open = new Set<{ readonly cut: (last: string) => void }>()
  let loss: Loss | null = null
  let isLost = false
  let requests = 0

  const server = createServer((client) => {
    const node = connect(modelPort, '127.0.0.1')
    let answered = ''
    let isSilent = false
    const end = (): void => {
      open.delete(way)
      client.destroy()
      node.destroy()
    }
    const way = {
      cut(last: string): void {
        open.delete(way)
        node.destroy()
        client.end(Buffer.from(last, 'latin1'), () => client.destroy())
      },
    }
    open.add(way)
    client.on('error', end).on('close', end)
    // What `cut` has written to the client may still be on its way.
    node.on('error', end).on('close', () => (client.writableEnded ? undefined : end()))
    client.on('data', (chunk) => {
      // Clients write a request's head at the beginning of a piece.
      if (chunk.toString('latin1', 0, 5) === 'POST ') requests += 1
      node.write(chunk)
    })
    node.on('data', (chunk) => {
      if (client.writableEnded || isSilent) return
      if (loss === null) return void client.write(chunk)
      answered += chunk.toString('latin1')
      const last = lastOf(loss, answered)
      if (last === null) return
      isSilent = loss.type === 'after an event' && loss.isHeld === true
      loss = null
      isLost = true
      if (isSilent) client.write(Buffer.from(last, 'latin1'))
      else way.cut(last)
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    port: (server.address() as AddressInfo).port, // a TCP server's address
    lose(next) {
      loss = next
      isLost = false
    },
    cut(instead) {
      for (const way of open) way.cut(streamOf(instead))
    },
    isLost: () => isLost,
    requests: () => requests,
    async close() {
      for (const way of open) way.cut('')
      await new Promise((closed) => server.close(closed))
    },
  }
}

/** What is passed on of an answer before it is cut; null while more of it has to come. */
function lastOf(loss: Loss, answered: string): string | null {
  switch (loss.type) {
    case 'before the head':
      return ''
    case 'after an event': {
      const [head, body] = readChunked(answered)
      const found = loss.holding.exec(body)
      const end = found === null ? -1 : body.indexOf('\n\n', found.index + found[0].length) + 2
      // A whole piece: some clients give out nothing of a piece that breaks off.
      return end < 2 ? null : `${head}${end.toString(16)}\r\n${body.slice(0, end)}\r\n`
    }
    case 'on the way':
      if (!answered.endsWith(LAST_CHUNK) && !isWhole(answered)) return null
      return streamOf(loss.instead)
    default:
      return unreachable(loss)
  }
}

/** As from a proxy whose upstream has gone. */
function streamOf(body: Instead): string {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n'
  return body === null ? '' : `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

/** The head of an answer, and so much of its body as has come. */
export function readChunked(answer: string): readonly [head: string, body: string] {
  const start = answer.indexOf('\r\n\r\n') + 4
  let body = ''
  for (let at = start; at < answer.length; ) {
    const line = answer.indexOf('\r\n', at)
    if (line === -1) break
    const size = Number.parseInt(answer.slice(at, line), 16)
    body += answer.slice(line + 2, line + 2 + size)
    at = line + 2 + size + 2
  }
  return [answer.slice(0, start), body]
}

/** A message with as many bytes of body as its head says. */
function isWhole(message: string): boolean {
  const head = message.indexOf('\r\n\r\n')
  const length = /\r\ncontent-length: (\d+)/i.exec(message.slice(0, head))?.[1]
  return head !== -1 && length !== undefined && message.length >= head + 4 + Number(length)
}
