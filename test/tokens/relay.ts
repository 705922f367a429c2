// A relay between a node and its engine that keeps every generation as it went over the wire, read by nothing of the node's.
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

export type WireGeneration = {
  readonly promptIds: readonly number[]
  readonly sampledIds: readonly number[]
  /** As the engine wrote them. */
  readonly logprobs: readonly number[]
  readonly finishReason: string
  readonly weightVersion: string | null
  readonly request: WireRequest
}

type WireRequest = {
  readonly temperature?: number
  readonly max_tokens?: number
  readonly tools?: readonly unknown[]
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
}

export type Relay = {
  readonly url: string
  /** What the engine answered well to requests for chat completions, oldest first. */
  generations(): readonly WireGeneration[]
  /** Hears of every such request before the engine does, which waits for it, and may add to it. */
  onRequest(listener: Listener): void
  close(): Promise<void>
}

/** What is to be added; null adds nothing. */
type Listener = (request: WireRequest) => Promise<Readonly<Record<string, unknown>> | null>

const CHAT = '/v1/chat/completions'

export async function openRelay(engineUrl: string): Promise<Relay> {
  const kept: WireGeneration[] = []
  let listen: Listener = async () => null
  const server = createServer((request, response) => {
    // The node cancels a generation by going.
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    void (async () => {
      const text = await textOf(request)
      const added = request.url === CHAT ? await listen(JSON.parse(text)) : null
      const body = added === null ? text : JSON.stringify({ ...JSON.parse(text), ...added })
      const answer = await fetch(engineUrl + request.url, {
        method: request.method ?? 'GET',
        headers: { 'content-type': request.headers['content-type'] ?? 'application/json' },
        ...(body === '' ? {} : { body }),
        signal: gone.signal,
      })
      const told = await answer.text()
      if (request.url === CHAT && answer.ok) kept.push(...read(JSON.parse(body), JSON.parse(told)))
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' }).end(told)
    })().catch(() => response.destroy())
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // a TCP server's address
    generations: () => [...kept],
    onRequest(listener) {
      listen = listener
    },
    async close() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of request.setEncoding('utf8')) text += piece
  return text
}

/** Where the two engines write ids and logprobs. */
type Answer = {
  readonly prompt_token_ids?: readonly number[] | null
  readonly metadata?: { readonly weight_version: string }
  readonly choices: readonly {
    readonly prompt_token_ids?: readonly number[]
    readonly token_ids?: readonly number[] | null
    readonly finish_reason: string
    readonly logprobs: { readonly content: readonly { readonly logprob: number }[] } | null
    readonly meta_info?: { readonly output_token_logprobs?: readonly (readonly [number, number, unknown])[] }
  }[]
}

function read(request: WireRequest, answer: Answer): readonly WireGeneration[] {
  return answer.choices.flatMap((choice) => {
    const promptIds = choice.prompt_token_ids ?? answer.prompt_token_ids
    const sampledIds = choice.token_ids
    const logprobs =
      choice.meta_info?.output_token_logprobs?.map(([logprob]) => logprob) ?? choice.logprobs?.content.map(({ logprob }) => logprob)
    if (promptIds == null || sampledIds == null || logprobs === undefined) return []
    const weightVersion = answer.metadata?.weight_version ?? null
    return [{ promptIds, sampledIds, logprobs, finishReason: choice.finish_reason, weightVersion, request }]
  })
}
