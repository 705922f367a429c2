// An engine's HTTP server: each request is read within bounds and goes to a generation or to another route.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { z } from 'zod'
import type { ShapeName } from '../wire/shape.ts'
import type { ReadRequest } from './asked.ts'
import { readCompletion, readCompletions, readGenerate } from './own-routes.ts'
import { readChat } from './prompt.ts'
import { sendJson, sendText } from './reply.ts'
import type { ServedEngine } from './route.ts'
import { answerRoute } from './routes.ts'

export type EngineServer = {
  readonly url: string
  readonly port: number
  /** Cuts all connections. Idempotent. */
  close(): Promise<void>
}

/** Port 0 takes a free one. Rejects when the port cannot be listened on. */
export async function openServer(
  engine: ServedEngine,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<EngineServer> {
  const server = createServer((request, response) => {
    // A client may go at any time; a write to it then is no news.
    response.on('error', () => {})
    void serveRequest(engine, request, response).catch((error: unknown) => {
      const message = messageOf(error)
      if (response.headersSent) response.destroy()
      else sendJson(response, 500, engine.shape.error({ status: 500, message, param: null }))
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const address = server.address()
  const listened = typeof address === 'object' && address !== null ? address.port : 0
  let closing: Promise<void> | null = null
  return {
    port: listened,
    url: `http://${host.includes(':') ? `[${host}]` : host}:${listened}`,
    close() {
      closing ??= new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
      return closing
    },
  }
}

/** An error with a code says all that there is to say. A bug of ours must show on the wire and leave the other requests alone. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return 'code' in error ? error.message : (error.stack ?? error.message)
}

const MAX_BODY_BYTES = 64 * 1024 * 1024

/** Which paths generate, and how their bodies are read. */
const GENERATIONS: { readonly [shape in ShapeName]: Readonly<Record<string, ReadRequest>> } = {
  vllm: { '/v1/chat/completions': readChat, '/v1/completions': readCompletions },
  sglang: { '/v1/chat/completions': readChat, '/generate': readGenerate },
  llamacpp: { '/v1/chat/completions': readChat, '/completion': readCompletion, '/completions': readCompletion },
}

async function serveRequest(engine: ServedEngine, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = '/', query = ''] = (request.url ?? '/').split('?', 2)
  const method = request.method ?? 'GET'
  const body = await readBody(request)
  if (body === 'gone') return
  if (!body.ok) {
    sendJson(response, body.status, engine.shape.error({ status: body.status, message: body.message, param: null }))
    return
  }
  const reader = engine.reader()
  if (reader === null) {
    sendJson(response, 503, engine.shape.error({ status: 503, message: 'Loading model', param: null }))
    return
  }
  const read = method === 'POST' ? GENERATIONS[engine.shapeName][path] : undefined
  if (read !== undefined) {
    await engine.serveGeneration(read, { path, body: body.value, rank: rankOf(request, body.value) }, response)
    return
  }
  const input = { engine, reader, query: new URLSearchParams(query), body: body.value, isLoopback: isLoopback(request) }
  const reply = await answerRoute(method, path, input)
  if ('text' in reply) sendText(response, reply.status, reply.text)
  else sendJson(response, reply.status, reply.json)
}

type Body = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly status: number; readonly message: string }

async function readBody(request: IncomingMessage): Promise<Body | 'gone'> {
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of request) {
      length += chunk.length
      if (length <= MAX_BODY_BYTES) chunks.push(chunk)
    }
  } catch {
    return 'gone'
  }
  if (length > MAX_BODY_BYTES) return { ok: false, status: 413, message: `the body is larger than ${MAX_BODY_BYTES} bytes` }
  if (length === 0) return { ok: true, value: undefined }
  try {
    return { ok: true, value: JSON.parse(Buffer.concat(chunks).toString('utf8')) }
  } catch (error) {
    return { ok: false, status: 400, message: `the body is not JSON: ${error instanceof Error ? error.message : String(error)}` }
  }
}

function isLoopback(request: IncomingMessage): boolean {
  const address = request.socket.remoteAddress ?? ''
  return address === '::1' || address.startsWith('127.') || address.startsWith('::ffff:127.')
}

const ranked = z.looseObject({ routed_dp_rank: z.int().nullish(), data_parallel_rank: z.int().nullish() })

/** vLLM and SGLang take the header; SGLang also a field, under two names. */
function rankOf(request: IncomingMessage, body: unknown): number | null {
  const header = request.headers['x-data-parallel-rank']
  if (typeof header === 'string' && /^\d+$/.test(header)) return Number(header)
  const named = ranked.safeParse(body)
  return named.success ? (named.data.routed_dp_rank ?? named.data.data_parallel_rank ?? null) : null
}
