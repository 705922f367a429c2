// Anthropic Messages as the boundary uses it.
import { echoedObject } from '../arguments.ts'
import type { Dialect, ModelEntry } from '../dialect.ts'
import { writeAnthropicFailure } from './error.ts'
import { readMessagesCount, readMessagesRequest } from './request.ts'
import { messageOf } from './response.ts'
import { openMessageStream } from './stream.ts'

export const anthropic: Dialect = {
  name: 'anthropic',
  requestIdHeader: 'request-id',
  read(body, context) {
    const read = readMessagesRequest(body, context)
    if (!read.ok) return read
    return {
      ok: true,
      call: read.call,
      reply: {
        streamType: 'text/event-stream; charset=utf-8',
        plain: (answer, identity) => JSON.stringify(messageOf(answer, identity, read.wishes)),
        stream: (identity) => openMessageStream(identity, read.wishes),
        echo: echoedObject,
      },
    }
  },
  readCount: readMessagesCount,
  tokenCount: (tokens) => JSON.stringify({ input_tokens: tokens }),
  failure: writeAnthropicFailure,
  modelList(models) {
    const data = models.map(modelInfo)
    return JSON.stringify({ data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null })
  },
  modelItem: (model) => JSON.stringify(modelInfo(model)),
}

export function modelInfo(model: ModelEntry) {
  return {
    type: 'model' as const,
    id: model.id,
    display_name: model.id,
    created_at: new Date(model.createdSeconds * 1000).toISOString(),
    max_input_tokens: model.maxModelLen,
    max_tokens: model.maxModelLen,
    lifecycle: 'active' as const,
    line: null,
    capabilities: null,
    deprecated_at: null,
    retires_at: null,
  }
}
