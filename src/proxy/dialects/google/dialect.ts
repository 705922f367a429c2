// Google's generateContent as the boundary uses it.
import { echoedObject } from '../arguments.ts'
import type { Dialect, ModelEntry, ReplyForm } from '../dialect.ts'
import { readGoogleCount, writeGoogleCount } from './count.ts'
import { writeGoogleFailure } from './error.ts'
import { readGoogle } from './request.ts'
import { type GoogleWishes, writeGoogle } from './response.ts'
import { openGoogleStream } from './stream.ts'

export const google: Dialect = {
  name: 'google',
  requestIdHeader: null,
  read(body, context) {
    const read = readGoogle(body, context)
    return read.ok ? { ok: true, call: read.call, reply: replyForm(read.wishes) } : read
  },
  readCount: readGoogleCount,
  tokenCount: writeGoogleCount,
  failure: writeGoogleFailure,
  modelList: (models) => JSON.stringify({ models: models.map(entry) }),
  modelItem: (model) => JSON.stringify(entry(model)),
}

function replyForm(wishes: GoogleWishes): ReplyForm {
  return {
    streamType: wishes.isArray ? 'application/json' : 'text/event-stream; charset=utf-8',
    plain: (answer, identity) => writeGoogle(answer, identity, wishes),
    stream: (identity) => openGoogleStream(identity, wishes),
    echo: echoedObject,
  }
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
