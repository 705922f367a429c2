// An engine that answers a generation in one exchange: a writer of the request and a strict reader of the answer.
import type { Engine, EngineReply, EngineRequest, HttpRequest, HttpResponse } from './engine.ts'

type Written = { readonly ok: true; readonly http: HttpRequest } | { readonly ok: false; readonly detail: string }

export type ChatCompletions = Omit<Engine, 'generate'> & {
  write(request: EngineRequest): Written
  read(response: HttpResponse): EngineReply
}

export function chatCompletions(engine: ChatCompletions): Engine & ChatCompletions {
  return {
    ...engine,
    async generate(request, send) {
      const written = engine.write(request)
      if (!written.ok) return { type: 'unserved', detail: written.detail }
      const reply = await send(written.http)
      return reply.ok ? engine.read(reply.response) : { type: 'broken', reply }
    },
  }
}
