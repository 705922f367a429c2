// One connection per engine URL, shared by its data-parallel ranks: each rank's calls carry its header, what all ask is asked once.
import type { HttpRequest } from '../engines/engine.ts'
import type { Connection, Transport, TransportReply } from '../engines/transport.ts'

export type Endpoints = {
  /** A user's own view of the connection to this URL; the connection closes with the last of them. */
  open(url: string, rank: number | null): Connection
}

/** vLLM and SGLang both place a request by it. */
const RANK_HEADER = 'x-data-parallel-rank'

type Endpoint = { readonly connection: Connection; readonly asked: Map<string, Question>; users: number }

/** A question on its way, with how many still want the answer. */
type Question = { readonly reply: Promise<TransportReply>; readonly abort: AbortController; wanted: number }

const ABORTED: TransportReply = { ok: false, error: 'aborted', detail: 'aborted' }

export function openEndpoints(transport: Transport, maxResponseBytes: number): Endpoints {
  const endpoints = new Map<string, Endpoint>()

  function endpointOf(url: string): Endpoint {
    const known = endpoints.get(url)
    if (known !== undefined) return known
    const opened: Endpoint = { connection: transport(url, maxResponseBytes), asked: new Map(), users: 0 }
    endpoints.set(url, opened)
    return opened
  }

  return {
    open(url, rank) {
      const endpoint = endpointOf(url)
      endpoint.users += 1
      let isOpen = true
      return {
        send(request, signal, follow) {
          if (request.method === 'GET') return askOnce(endpoint, request, signal)
          return endpoint.connection.send(rank === null ? request : placed(request, rank), signal, follow)
        },
        async close() {
          if (!isOpen) return
          isOpen = false
          endpoint.users -= 1
          if (endpoint.users > 0) return
          if (endpoints.get(url) === endpoint) endpoints.delete(url)
          await endpoint.connection.close()
        },
      }
    },
  }
}

function placed(request: HttpRequest, rank: number): HttpRequest {
  return { ...request, headers: { ...request.headers, [RANK_HEADER]: String(rank) } }
}

/** Ranks that are probed together share the answers to what does not depend on the rank. */
function askOnce({ connection, asked }: Endpoint, request: HttpRequest, signal: AbortSignal): Promise<TransportReply> {
  if (signal.aborted) return Promise.resolve(ABORTED)
  const { path } = request
  const question = asked.get(path) ?? ask()
  question.wanted += 1
  return new Promise((resolve) => {
    const leave = (): void => {
      question.wanted -= 1
      if (question.wanted === 0) {
        // Who comes before it has settled must not be given its end.
        asked.delete(path)
        question.abort.abort()
      }
      resolve(ABORTED)
    }
    signal.addEventListener('abort', leave, { once: true })
    void question.reply.then((reply) => {
      signal.removeEventListener('abort', leave)
      resolve(reply)
    })
  })

  function ask(): Question {
    const abort = new AbortController()
    const reply = connection.send(request, abort.signal).finally(() => {
      if (asked.get(path)?.abort === abort) asked.delete(path)
    })
    const made: Question = { reply, abort, wanted: 0 }
    asked.set(path, made)
    return made
  }
}
