// Anthropic Messages as the boundary uses it.
import { echoedObject } from '../arguments.ts'
import type { Dialect, ModelEntry, ReplyForm } from '../dialect.ts'
import { readAnthropicCount, writeAnthropicCount } from './count.ts'
import { writeAnthropicFailure } from './error.ts'
import { readAnthropic } from './request.ts'
import { type AnthropicWishes, writeAnthropic } from './response.ts'
import { openAnthropicStream } from './stream.ts'

export const anthropic: Dialect = {
  name: 'anthropic',
  requestIdHeader: 'request-id',
  read(body, context) {
    const read = readAnthropic(body, context)
    return read.ok ? { ok: true, call: read.call, reply: replyForm(read.wishes) } : read
  },
  readCount: readAnthropicCount,
  tokenCount: writeAnthropicCount,
  failure: writeAnthropicFailure,
  modelList(models) {
    const data = models.map(modelInfo)
    return JSON.stringify({ data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null })
  },
  modelItem: (model) => JSON.stringify(modelInfo(model)),
}

function replyForm(wishes: AnthropicWishes): ReplyForm {
  return {
    streamType: 'text/event-stream; charset=utf-8',
    plain: (answer, identity) => writeAnthropic(answer, identity, wishes),
    stream: (identity) => openAnthropicStream(identity, wishes),
    echo: echoedObject,
  }
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
