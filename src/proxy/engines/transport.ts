// The wire to an engine: one agent per replica, no hidden time limits, every failure a value.
import { Agent } from 'undici'
import type { HttpRequest, HttpResponse } from './engine.ts'

/** `refused`: nothing was sent; `reset`: the connection broke after that; `aborted`: our own signal. */
type TransportFailure = 'refused' | 'reset' | 'aborted' | 'too-large'

export type TransportReply =
  | { readonly ok: true; readonly response: HttpResponse }
  | { readonly ok: false; readonly error: TransportFailure; readonly detail: string }

/** Takes a piece of an event stream as it comes, and says how many bytes of what it took it still holds. */
export type Follow = (bytes: Uint8Array) => number

export type Connection = {
  /**
   * Never rejects. The only deadline is the signal. With `follow`, the body of a successful event stream goes there piece by piece and the
   * reply's own body stays empty; any other body is collected as ever.
   */
  send(request: HttpRequest, signal: AbortSignal, follow?: Follow): Promise<TransportReply>
  close(): Promise<void>
}

/** Opens a connection to one replica; simulations bring their own. */
export type Transport = (url: string, maxResponseBytes: number) => Connection

const REFUSED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'EADDRNOTAVAIL',
])

export const undiciTransport: Transport = (url, maxResponseBytes) => {
  const base = new URL(url)
  const prefix = base.pathname.replace(/\/$/, '')
  // Generations are silent for as long as they think: undici's 300 s defaults would cut them. The in-flight cap bounds the sockets.
  const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 10_000 }, connections: null, pipelining: 1 })
  return {
    async send(request, signal, follow) {
      try {
        const reply = await agent.request({
          origin: base.origin,
          path: prefix + request.path,
          method: request.method,
          headers: request.headers,
          body: request.body,
          signal,
        })
        const head = { status: reply.statusCode, headers: singleHeaders(reply.headers) }
        const chunks: Uint8Array[] = []
        let size = 0
        const collect = (bytes: Uint8Array): number => {
          chunks.push(bytes)
          size += bytes.byteLength
          return size
        }
        const take = follow !== undefined && isEventStream(head) ? follow : collect
        for await (const chunk of reply.body) {
          if (take(chunk) > maxResponseBytes) {
            reply.body.destroy()
            return { ok: false, error: 'too-large', detail: `the engine's answer exceeds ${maxResponseBytes} bytes` }
          }
        }
        return { ok: true, response: { ...head, body: Buffer.concat(chunks, size) } }
      } catch (error) {
        return { ok: false, error: signal.aborted ? 'aborted' : classify(error), detail: explain(error) }
      }
    },
    async close() {
      await agent.destroy()
    },
  }
}

/** Whether an answer came in pieces; what follows a stream asks the same of the head that it gets back. */
export function isEventStream({ status, headers }: Pick<HttpResponse, 'status' | 'headers'>): boolean {
  return status >= 200 && status <= 299 && headers['content-type']?.startsWith('text/event-stream') === true
}

function singleHeaders(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const single: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) single[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return single
}

function classify(error: unknown): TransportFailure {
  return REFUSED.has(codeOf(error)) ? 'refused' : 'reset'
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0])
  if ('code' in error && typeof error.code === 'string') return error.code
  return error.cause === undefined ? '' : codeOf(error.cause)
}

function explain(error: unknown): string {
  const code = codeOf(error)
  // OpenSSL ends its messages with a line break; a log and a list have one line for each.
  const message = (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ').trim()
  return code === '' || message.includes(code) ? message : `${code}: ${message}`
}
