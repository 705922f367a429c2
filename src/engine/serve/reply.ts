// Writes answers to the socket, whole or as server-sent events.
import type { ServerResponse } from 'node:http'

export function sendJson(response: ServerResponse, status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): void {
  sendJsonText(response, status, JSON.stringify(value), headers)
}

export function sendJsonText(response: ServerResponse, status: number, body: string, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)), ...headers })
  response.end(body)
}

export function sendText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' })
  response.end(text)
}

export const DONE = 'data: [DONE]\n\n'

export function beginEvents(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  response.flushHeaders()
}

/** False when the client reads more slowly than it is written to. */
export function writeEvents(response: ServerResponse, jsons: readonly string[]): boolean {
  return jsons.length === 0 || response.write(jsons.map((json) => `data: ${json}\n\n`).join(''))
}

/** Waits until the client has read what was written, not once the signal is aborted. */
export async function drained(response: ServerResponse, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const finish = () => {
      response.off('drain', finish)
      signal.removeEventListener('abort', finish)
      resolve()
    }
    response.once('drain', finish)
    signal.addEventListener('abort', finish)
    if (signal.aborted) finish()
  })
}

export function endEvents(response: ServerResponse, saysDone: boolean): void {
  response.end(saysDone ? DONE : '')
}
