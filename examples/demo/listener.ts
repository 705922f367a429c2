// A trainer's side of callbacks: a small HTTP listener that takes task results and acknowledges them.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Polar's TaskResult, as far as the demo reads it. */
export type TaskResult = {
  readonly task_id: string
  readonly status: string
  readonly results: readonly {
    readonly session_id: string
    readonly status: string
    readonly error?: string
    readonly trajectory: { readonly traces: readonly Trace[]; readonly metadata: Readonly<Record<string, unknown>> }
    readonly metadata: { readonly polar_node?: { readonly outcome: string; readonly reward: number | null; readonly calls: number } }
  }[]
}

export type Trace = {
  readonly prompt_ids: readonly number[]
  readonly response_ids: readonly number[]
  readonly loss_mask: readonly number[]
  readonly response_logprobs: readonly number[] | null
  readonly reward: number | null
}

export type Callback = { readonly result: TaskResult; readonly idempotencyKey: string }

export type Listener = {
  readonly url: string
  /** Resolves with the result of this task, also one that came before. */
  received(task: string): Promise<Callback>
  close(): Promise<void>
}

export async function openListener(): Promise<Listener> {
  const callbacks = new Map<string, PromiseWithResolvers<Callback>>()
  const arrival = (task: string): PromiseWithResolvers<Callback> => {
    const known = callbacks.get(task) ?? Promise.withResolvers<Callback>()
    callbacks.set(task, known)
    return known
  }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const result = JSON.parse(Buffer.concat(chunks).toString('utf8')) as TaskResult // the documented shape of a callback
      response.setHeader('content-type', 'application/json').end('{"ok":true}')
      arrival(result.task_id).resolve({ result, idempotencyKey: String(request.headers['idempotency-key'] ?? '') })
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const { port } = server.address() as AddressInfo // listening on TCP, so never a pipe's name
  return {
    url: `http://127.0.0.1:${port}/callback/task_result`,
    received: (task) => arrival(task).promise,
    close: () =>
      new Promise((closed) => {
        server.closeAllConnections()
        server.close(() => closed())
      }),
  }
}
