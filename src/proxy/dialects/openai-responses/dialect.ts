// OpenAI Responses as the boundary uses it.
import type { Dialect, ReplyForm } from '../dialect.ts'
import { openaiChat } from '../openai-chat/dialect.ts'
import { readResponsesCount, writeResponsesCount } from './count.ts'
import { echoOf } from './echo.ts'
import { writeResponsesFailure } from './error.ts'
import { readResponses } from './request.ts'
import { type ResponsesWishes, writeResponses } from './response.ts'
import { openResponsesStream } from './stream.ts'

export const openaiResponses: Dialect = {
  name: 'openai-responses',
  requestIdHeader: 'x-request-id',
  read(body, context) {
    const read = readResponses(body, context)
    return read.ok ? { ok: true, call: read.call, reply: replyForm(read.wishes) } : read
  },
  readCount: readResponsesCount,
  tokenCount: writeResponsesCount,
  failure: writeResponsesFailure,
  // One vendor, one list of models.
  modelList: openaiChat.modelList,
  modelItem: openaiChat.modelItem,
}

function replyForm(wishes: ResponsesWishes): ReplyForm {
  return {
    streamType: 'text/event-stream; charset=utf-8',
    plain: (answer, identity) => writeResponses(answer, identity, wishes),
    stream: (identity) => openResponsesStream(identity, wishes),
    echo: (call) => echoOf(call, wishes.faces),
  }
}
