// OpenAI chat completions as the boundary uses it.
import type { Dialect, ModelEntry } from '../dialect.ts'
import { writeChatFailure } from './error.ts'
import { readChat, readTokenize } from './request.ts'
import { writeChat } from './response.ts'
import { openChatStream } from './stream.ts'

export const openaiChat: Dialect = {
  name: 'openai-chat',
  requestIdHeader: 'x-request-id',
  read(body, context) {
    const read = readChat(body, context)
    if (!read.ok) return read
    return {
      ok: true,
      call: read.call,
      reply: {
        streamType: 'text/event-stream; charset=utf-8',
        plain: (answer, identity) => writeChat(answer, identity, read.wishes),
        stream: (identity) => openChatStream(identity, read.wishes),
        echo: (call) => call,
      },
    }
  },
  readCount: readTokenize,
  // vLLM's shape, which OpenAI has no route for.
  tokenCount: (tokens, model) => JSON.stringify({ count: tokens, max_model_len: model.maxModelLen, tokens: null }),
  failure: writeChatFailure,
  // The second array is what Codex reads.
  modelList: (models) => JSON.stringify({ object: 'list', data: models.map(entry), models: models.map(entry) }),
  modelItem: (model) => JSON.stringify(entry(model)),
}

function entry(model: ModelEntry): object {
  return {
    id: model.id,
    object: 'model',
    created: model.createdSeconds,
    owned_by: 'polar-node',
    ...(model.maxModelLen === null ? {} : { max_model_len: model.maxModelLen }),
  }
}
