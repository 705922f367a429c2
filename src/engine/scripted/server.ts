// One HTTP request to the engine: its body is read within bounds and it goes to chat or to a route.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { serveChat } from './chat.ts'
import { sendJson, sendText } from './reply.ts'
import { answerRoute, type ServedEngine } from './routes.ts'

const MAX_BODY_BYTES = 64 * 1024 * 1024

export async function serveRequest(engine: ServedEngine, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = '/', query = ''] = (request.url ?? '/').split('?', 2)
  const method = request.method ?? 'GET'
  const body = await readBody(request)
  if (body === 'gone') return
  if (!body.ok) {
    sendJson(response, body.status, engine.shape.error({ status: body.status, message: body.message, param: null }))
    return
  }
  if (method === 'POST' && path === '/v1/chat/completions') {
    await serveChat(engine, body.value, response)
    return
  }
  const input = { engine, query: new URLSearchParams(query), body: body.value, isLoopback: isLoopback(request) }
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
