// OpenAI chat completions as the boundary uses it.
import type { Dialect, ModelEntry, ReplyForm } from '../dialect.ts'
import { readChatCount, writeChatCount } from './count.ts'
import { writeChatFailure } from './error.ts'
import { readChat } from './request.ts'
import { type ChatWishes, writeChat } from './response.ts'
import { openChatStream } from './stream.ts'

export const openaiChat: Dialect = {
  name: 'openai-chat',
  requestIdHeader: 'x-request-id',
  read(body, context) {
    const read = readChat(body, context)
    return read.ok ? { ok: true, call: read.call, reply: replyForm(read.wishes) } : read
  },
  readCount: readChatCount,
  tokenCount: writeChatCount,
  failure: writeChatFailure,
  // The second array is what Codex reads.
  modelList: (models) => JSON.stringify({ object: 'list', data: models.map(entry), models: models.map(entry) }),
  modelItem: (model) => JSON.stringify(entry(model)),
}

function replyForm(wishes: ChatWishes): ReplyForm {
  return {
    streamType: 'text/event-stream; charset=utf-8',
    plain: (answer, identity) => writeChat(answer, identity, wishes),
    stream: (identity) => openChatStream(identity, wishes),
    echo: (call) => call,
  }
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
