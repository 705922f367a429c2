// HTTP/1.1 replies off a raw socket, read as they come: heads, framed bodies, and whatever stands behind them.

export type Head = { readonly status: number; readonly headers: ReadonlyMap<string, string> }

export type ReplyReader = {
  /** Null until the head is whole. */
  head(): Head | null
  body(): Buffer
  bodyBytes(): number
  isComplete(): boolean
  /** What is wrong with the bytes, once something is. */
  fault(): string | null
  push(chunk: Buffer): void
  /** The peer will send no more. */
  end(): void
  /** Bytes behind the complete reply. */
  rest(): Buffer
}

type Framing = { readonly type: 'length'; left: number } | { readonly type: 'chunked' } | { readonly type: 'until-close' }

const NOTHING = Buffer.alloc(0)

export function openReplyReader(method: string): ReplyReader {
  let pending: Buffer = NOTHING
  let head: Head | null = null
  let framing: Framing | null = null
  let isComplete = false
  let fault: string | null = null
  const chunks: Buffer[] = []
  let bodyBytes = 0

  function keep(bytes: Buffer): void {
    chunks.push(bytes)
    bodyBytes += bytes.length
  }

  /** True when something was read and more may be. */
  function step(): boolean {
    if (isComplete || fault !== null) return false
    if (head === null) return readHead()
    if (framing === null) return false
    if (framing.type === 'chunked') return readChunk()
    const taken = framing.type === 'length' ? pending.subarray(0, framing.left) : pending
    pending = pending.subarray(taken.length)
    if (taken.length > 0) keep(taken)
    if (framing.type === 'length') {
      framing.left -= taken.length
      isComplete = framing.left === 0
    }
    return false
  }

  function readHead(): boolean {
    const end = pending.indexOf('\r\n\r\n')
    if (end === -1) return false
    const [first = '', ...lines] = pending.subarray(0, end).toString('latin1').split('\r\n')
    pending = pending.subarray(end + 4)
    const status = Number(/^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(first)?.[1])
    if (!(status >= 100)) {
      fault = `no status line: ${JSON.stringify(first.slice(0, 100))}`
      return false
    }
    const headers = new Map(
      lines.map((line) => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
      }),
    )
    // An interim answer: the real one follows.
    if (status < 200) return true
    head = { status, headers }
    const length = headers.get('content-length')
    if (method === 'HEAD' || status === 204 || status === 304) isComplete = true
    else if (headers.get('transfer-encoding') === 'chunked') framing = { type: 'chunked' }
    else if (length !== undefined) framing = { type: 'length', left: Number(length) }
    else framing = { type: 'until-close' }
    return !isComplete
  }

  function readChunk(): boolean {
    const end = pending.indexOf('\r\n')
    if (end === -1) return false
    const size = Number.parseInt(pending.subarray(0, end).toString('latin1'), 16)
    if (!(size >= 0)) {
      fault = 'no chunk size'
      return false
    }
    if (pending.length < end + 2 + size + 2) return false
    keep(pending.subarray(end + 2, end + 2 + size))
    pending = pending.subarray(end + 2 + size + 2)
    isComplete = size === 0
    return true
  }

  return {
    head: () => head,
    body: () => Buffer.concat(chunks),
    bodyBytes: () => bodyBytes,
    isComplete: () => isComplete,
    fault: () => fault,
    push(chunk) {
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
      while (step()) {
        // Every step takes something off what is pending.
      }
    },
    end() {
      if (head !== null && framing?.type === 'until-close') isComplete = true
    },
    rest: () => pending,
  }
}
