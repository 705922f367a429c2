// A scripted SGLang router: it lists its workers and passes chats on to them, but loses every token's id on the way.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { sendJson, sendText } from '../serve/reply.ts'

export type ScriptedRouterOptions = {
  readonly workers: readonly string[]
  readonly port?: number
  readonly host?: string
}

export type ScriptedRouter = {
  readonly url: string
  /** As an operator scales the fleet: from now on these are listed and served. */
  setWorkers(workers: readonly string[]): void
  /** A worker that is not healthy is listed and not served. */
  setHealthy(worker: string, isHealthy: boolean): void
  /** Chats passed on, by worker. */
  served(): ReadonlyMap<string, number>
  /** Cuts all connections. Idempotent. */
  close(): Promise<void>
}

/** Paths that are passed to a worker; every other path is the router's own or 404. */
const PASSED = new Set(['/v1/chat/completions', '/generate', '/v1/models', '/get_model_info', '/health_generate'])

/** Rejects when the port cannot be listened on. Workers are taken in turn. */
export async function openScriptedRouter(options: ScriptedRouterOptions): Promise<ScriptedRouter> {
  let workers = [...options.workers]
  const sick = new Set<string>()
  const served = new Map<string, number>()
  let turn = 0

  const next = (): string | undefined => {
    const healthy = workers.filter((worker) => !sick.has(worker))
    turn += 1
    return healthy[(turn - 1) % Math.max(1, healthy.length)]
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '/').split('?', 1)[0] ?? '/'
    const own = request.method === 'GET' ? ownAnswer(path, workers, sick) : null
    if (own !== null) return typeof own === 'string' ? sendText(response, 200, own) : sendJson(response, 200, own)
    if (!PASSED.has(path)) return sendText(response, 404, '')
    const worker = next()
    if (worker === undefined) return sendJson(response, 503, { error: { message: 'No available workers', type: 'service_unavailable' } })
    if (path === '/v1/chat/completions') served.set(worker, (served.get(worker) ?? 0) + 1)
    await pass(worker + path, request, response)
  }

  const server = createServer((request, response) => {
    response.on('error', () => {})
    void serve(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy()
      else sendJson(response, 502, { error: { message: String(error), type: 'bad_gateway' } })
    })
  })
  const host = options.host ?? '127.0.0.1'
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, host, resolve)
  })
  const address = server.address()
  let closing: Promise<void> | null = null
  return {
    url: `http://${host}:${typeof address === 'object' && address !== null ? address.port : 0}`,
    setWorkers(list) {
      workers = [...list]
    },
    setHealthy(worker, isHealthy) {
      if (isHealthy) sick.delete(worker)
      else sick.add(worker)
    },
    served: () => served,
    close() {
      closing ??= new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
      return closing
    },
  }
}

/** The gateway's `/workers` and the older router's `/list_workers`, which lists the healthy ones' addresses alone. */
function ownAnswer(path: string, workers: readonly string[], sick: ReadonlySet<string>): object | string | null {
  switch (path) {
    case '/health':
    case '/liveness':
      return 'OK'
    case '/workers': {
      const listed = workers.map((url, index) => ({
        id: `worker-${index}`,
        url,
        model_id: 'unknown',
        priority: 50,
        cost: 1,
        worker_type: 'regular',
        is_healthy: !sick.has(url),
        load: 0,
        connection_mode: 'Http',
      }))
      const stats = { prefill_count: 0, decode_count: 0, regular_count: workers.length }
      return { workers: listed, total: workers.length, stats }
    }
    case '/list_workers':
      return { urls: workers.filter((url) => !sick.has(url)) }
    default:
      return null
  }
}

async function pass(url: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const body = Buffer.concat(chunks)
  const reply = await fetch(url, {
    method: request.method ?? 'GET',
    headers: { 'content-type': 'application/json' },
    ...(body.length === 0 ? {} : { body: withoutTokenWishes(body.toString('utf8')) }),
  })
  response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type') ?? 'application/json' })
  response.end(Buffer.from(await reply.arrayBuffer()))
}

/** What the router's typed request has no place for is gone when it is written again. */
const LOST = ['return_token_ids', 'return_prompt_token_ids', 'return_meta_info', 'input_ids', 'routed_dp_rank']

function withoutTokenWishes(body: string): string {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return body
  }
  if (typeof value !== 'object' || value === null) return body
  return JSON.stringify(Object.fromEntries(Object.entries(value).filter(([name]) => !LOST.includes(name))))
}
