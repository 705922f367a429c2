// A model of somebody else's behind an OpenAI-compatible server: it answers text alone, no token ids and no logprobs.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export type ClosedModel = {
  readonly url: string
  /** The seeds of the calls that were answered, in order; the node's own probe has none. */
  seeds(): readonly number[]
  /** From that many answers on nothing is answered any more until `release`. */
  holdAfter(answers: number): void
  release(): void
  close(): Promise<void>
}

/** Its answer is the seed that it was called with. */
export async function openClosedModel(): Promise<ClosedModel> {
  const seeds: number[] = []
  const held: (() => void)[] = []
  let limit = Number.POSITIVE_INFINITY
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    const send = (value: unknown): void => void response.setHeader('content-type', 'application/json').end(JSON.stringify(value))
    if (request.url === '/v1/models') return send({ object: 'list', data: [{ id: 'closed', object: 'model' }] })
    if (request.url === '/health') return send({})
    if (request.url !== '/v1/chat/completions') return void response.writeHead(404).end('{}')
    const { seed } = JSON.parse(body) as { readonly seed?: number }
    const answer = (): void => {
      if (seed !== undefined) seeds.push(seed)
      const message = { role: 'assistant', content: String(seed) }
      send({
        id: 'chatcmpl-1',
        object: 'chat.completion',
        created: 1,
        model: 'closed',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
      })
    }
    if (seed === undefined || seeds.length < limit) answer()
    else held.push(answer)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seeds: () => seeds,
    holdAfter(answers) {
      limit = answers
    },
    release() {
      limit = Number.POSITIVE_INFINITY
      for (const answer of held.splice(0)) answer()
    },
    async close() {
      const closed = new Promise((done) => server.close(done))
      server.closeAllConnections()
      await closed
    },
  }
}
