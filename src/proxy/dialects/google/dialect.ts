// Google's generateContent as the boundary uses it.
import { echoedObject } from '../arguments.ts'
import type { Dialect, ModelEntry } from '../dialect.ts'
import { writeGoogleFailure } from './error.ts'
import { readCountTokens, readGoogle } from './request.ts'
import { writeGoogle } from './response.ts'
import { openArrayStream, openEventStream } from './stream.ts'

export const google: Dialect = {
  name: 'google',
  requestIdHeader: null,
  read(body, context) {
    const read = readGoogle(body, context)
    if (!read.ok) return read
    const { call, wishes } = read
    const isArray = context.url.form === 'array'
    return {
      ok: true,
      call,
      reply: {
        streamType: isArray ? 'application/json' : 'text/event-stream; charset=utf-8',
        plain: (answer, identity) => writeGoogle(answer, identity, wishes),
        stream: (identity) => (isArray ? openArrayStream(identity, wishes) : openEventStream(identity, wishes)),
        echo: echoedObject,
      },
    }
  },
  readCount: readCountTokens,
  tokenCount: (tokens) => JSON.stringify({ totalTokens: tokens }),
  failure: writeGoogleFailure,
  modelList: (models) => JSON.stringify({ models: models.map(entry) }),
  modelItem: (model) => JSON.stringify(entry(model)),
}

function entry(model: ModelEntry): object {
  return {
    name: `models/${model.id}`,
    baseModelId: model.id,
    version: '1',
    displayName: model.id,
    ...(model.maxModelLen === null ? {} : { inputTokenLimit: model.maxModelLen, outputTokenLimit: model.maxModelLen }),
    supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
  }
}
