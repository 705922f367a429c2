// One raw connection to the model port, and the ways in which a client may use it: whole, slowly, or not to the end.
import { connect, type Socket } from 'node:net'
import { type Head, openReplyReader, type ReplyReader } from './reply-reader.ts'

export type Reading =
  | { readonly type: 'fast' }
  /** So many bytes a turn of the event loop, while the socket is held back. */
  | { readonly type: 'slow'; readonly bytes: number }

/** Where the client goes away. */
export type Cut = 'in-head' | 'in-body' | 'after-request' | 'after-head' | 'after-first-bytes' | 'in-answer'

export type Sending = {
  readonly method: string
  readonly bytes: Buffer
  /** Bytes of head at the front of `bytes`. */
  readonly headBytes: number
  readonly reading: Reading
  /** In pieces of so many bytes, one a turn of the event loop; null sends all at once. */
  readonly dribble: number | null
  readonly cut: { readonly at: Cut; readonly resets: boolean } | null
  /** Ends its own side after the request and still reads. */
  readonly halfCloses: boolean
  /** How many replies the bytes ask for. */
  readonly replies: number
}

export type Reply = { readonly head: Head; readonly body: Buffer }

export type Outcome =
  | { readonly type: 'answered'; readonly replies: readonly Reply[]; readonly canGoOn: boolean }
  | { readonly type: 'left' }
  /** The server closed first. `partial` is what had come of the reply it owed. */
  | { readonly type: 'closed'; readonly replies: readonly Reply[]; readonly partial: Reply | null }
  | { readonly type: 'hung'; readonly replies: readonly Reply[]; readonly partial: Reply | null }
  | { readonly type: 'garbled'; readonly detail: string }

export type Connection = {
  /** Never rejects. One at a time. */
  exchange(sending: Sending, deadlineMs: number): Promise<Outcome>
  isOpen(): boolean
  close(): void
}

/** Turns of the event loop after which a slow client takes more at a time, and into which a dribbled request is cut at most. */
const TURNS_AT_ONE_PACE = 400

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

export function openConnection(port: number): Connection {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  let isOpen = true
  socket.on('error', () => {})
  socket.on('close', () => {
    isOpen = false
  })
  return {
    exchange: (sending, deadlineMs) => exchange(socket, sending, deadlineMs),
    isOpen: () => isOpen && !socket.destroyed && !socket.readableEnded,
    close: () => void socket.destroy(),
  }
}

async function exchange(socket: Socket, sending: Sending, deadlineMs: number): Promise<Outcome> {
  const { cut, method } = sending
  const replies: Reply[] = []
  let reader = openReplyReader(method)
  let isSent = false
  let settle: (outcome: Outcome) => void = () => {}
  const settled = new Promise<Outcome>((resolve) => {
    settle = resolve
  })
  const leave = (): void => {
    if (cut?.resets === true) socket.resetAndDestroy()
    else socket.destroy()
    settle({ type: 'left' })
  }
  const partial = (): Reply | null => {
    const head = reader.head()
    return head === null ? null : { head, body: reader.body() }
  }

  function take(chunk: Buffer): void {
    let rest = chunk
    for (;;) {
      reader.push(rest)
      const fault = reader.fault()
      if (fault !== null) {
        settle({ type: 'garbled', detail: fault })
        return
      }
      if (isCutDue(cut?.at ?? null, reader)) {
        leave()
        return
      }
      if (!reader.isComplete()) return
      replies.push({ head: reader.head() ?? { status: 0, headers: new Map() }, body: reader.body() })
      rest = reader.rest()
      if (replies.length === sending.replies) {
        // A server may answer before it has heard all; what is still on its way then belongs to this request.
        const canGoOn = isSent && reader.rest().length === 0 && replies.at(-1)?.head.headers.get('connection') !== 'close'
        settle({ type: 'answered', replies, canGoOn })
        return
      }
      reader = openReplyReader(method)
    }
  }
  const closed = (): void => {
    reader.end()
    if (reader.isComplete() && replies.length < sending.replies) {
      const last = partial()
      if (last !== null) replies.push(last)
    }
    if (replies.length === sending.replies) settle({ type: 'answered', replies, canGoOn: false })
    else settle({ type: 'closed', replies, partial: partial() })
  }

  const timer = setTimeout(() => settle({ type: 'hung', replies, partial: partial() }), deadlineMs)
  socket.once('close', closed)
  socket.once('end', closed)
  const stopReading = startReading(socket, sending.reading, take)
  void send(socket, sending, leave).then(() => {
    isSent = true
  })
  const outcome = await settled
  clearTimeout(timer)
  stopReading()
  socket.off('close', closed)
  socket.off('end', closed)
  return outcome
}

function isCutDue(at: Cut | null, reader: ReplyReader): boolean {
  switch (at) {
    case 'after-head':
      return reader.head() !== null
    case 'after-first-bytes':
      return reader.bodyBytes() > 0
    case 'in-answer':
      return reader.bodyBytes() > 400
    default:
      return false
  }
}

async function send(socket: Socket, { bytes, headBytes, dribble, cut, halfCloses }: Sending, leave: () => void): Promise<void> {
  const end =
    cut?.at === 'in-head'
      ? Math.floor(headBytes / 2)
      : cut?.at === 'in-body'
        ? headBytes + Math.floor((bytes.length - headBytes) / 2)
        : bytes.length
  const size = Math.max(1, dribble === null ? end : Math.max(dribble, Math.ceil(end / TURNS_AT_ONE_PACE)))
  for (let at = 0; at < end && !socket.destroyed; at += size) {
    const piece = bytes.subarray(at, Math.min(at + size, end))
    await new Promise<void>((resolve) => socket.write(piece, () => resolve()))
    if (dribble !== null) await turn()
  }
  if (cut?.at === 'in-head' || cut?.at === 'in-body' || cut?.at === 'after-request') leave()
  else if (halfCloses) socket.end()
}

/** Slow reading takes bytes off the stream's own buffer, so that the kernel's fills and the server feels it. */
function startReading(socket: Socket, reading: Reading, take: (chunk: Buffer) => void): () => void {
  if (reading.type === 'fast') {
    socket.on('data', take)
    socket.resume()
    return () => {
      socket.off('data', take)
      socket.pause()
    }
  }
  let isStopped = false
  let size = reading.bytes
  let turns = 0
  const pump = async (): Promise<void> => {
    for (;;) {
      const chunk: Buffer | null = isStopped ? null : (socket.read(size) ?? socket.read())
      if (chunk === null) return
      take(chunk)
      // A long answer must end within the run.
      turns += 1
      if (turns % TURNS_AT_ONE_PACE === 0) size *= 4
      await turn()
    }
  }
  let pumping: Promise<void> = Promise.resolve()
  const wake = (): void => {
    pumping = pumping.then(pump)
  }
  socket.on('readable', wake)
  wake()
  return () => {
    isStopped = true
    socket.off('readable', wake)
  }
}
