// OpenAI Responses as the boundary uses it.
import type { Dialect } from '../dialect.ts'
import { openaiChat } from '../openai-chat/dialect.ts'
import { readInputTokens, writeInputTokens } from './count.ts'
import { echoOf } from './echo.ts'
import { writeResponsesFailure } from './error.ts'
import { readResponses } from './request.ts'
import { writeResponse } from './response.ts'
import { openResponsesStream } from './stream.ts'

export const openaiResponses: Dialect = {
  name: 'openai-responses',
  requestIdHeader: 'x-request-id',
  read(body, context) {
    const read = readResponses(body, context)
    if (!read.ok) return read
    return {
      ok: true,
      call: read.call,
      reply: {
        streamType: 'text/event-stream; charset=utf-8',
        plain: (answer, identity) => writeResponse(answer, identity, read.wishes),
        stream: (identity) => openResponsesStream(identity, read.wishes),
        echo: (call) => echoOf(call, read.wishes.faces),
      },
    }
  },
  readCount: readInputTokens,
  tokenCount: (tokens) => writeInputTokens(tokens),
  failure: writeResponsesFailure,
  // One vendor, one list of models.
  modelList: openaiChat.modelList,
  modelItem: openaiChat.modelItem,
}
