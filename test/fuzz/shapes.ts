// What each dialect promises of its replies: the strict readers of every form of an answer, of counts, lists and failures.
import type { z } from 'zod'
import type { DialectName } from '../../src/contract/call.ts'
import { anthropicCount, anthropicError, anthropicModel, anthropicModels, readMessageStream, readPlainMessage } from './shapes/anthropic.ts'
import { demand, eventsOf, type Folded, json, shaped, type Wishes } from './shapes/folded.ts'
import { googleCount, googleError, googleModel, googleModels, readGoogleArray, readGoogleStream, readPlainGoogle } from './shapes/google.ts'
import { chatCount, chatModel, chatModels, openaiError, readChatStream, readPlainChat } from './shapes/openai-chat.ts'
import { failedEvent, readPlainResponse, readResponseStream, responsesCount } from './shapes/openai-responses.ts'

export type { Folded, Wishes } from './shapes/folded.ts'
export { ShapeFault } from './shapes/folded.ts'

/** Every function throws a `ShapeFault` at the first thing that is not as promised. */
export type Shapes = {
  plain(body: string, wishes: Wishes): Folded
  events(body: string, wishes: Wishes): Folded
  array(body: string, wishes: Wishes): Folded
  /** Of a stream that ended in a failure told inside it. */
  failedEvents(body: string): void
  failedArray(body: string): void
  readonly error: z.ZodType
  readonly count: z.ZodType
  readonly model: z.ZodType
  readonly models: z.ZodType
}

const none = (what: string) => (): never => {
  demand(false, what)
  throw new Error('unreachable')
}
const noArray = none('this dialect has no array form')

export const SHAPES: { readonly [name in DialectName]: Shapes } = {
  'openai-chat': {
    plain: readPlainChat,
    events: readChatStream,
    array: noArray,
    failedEvents: none('a chat stream cannot tell a failure'),
    failedArray: noArray,
    error: openaiError,
    count: chatCount,
    model: chatModel,
    models: chatModels,
  },
  'openai-responses': {
    plain: readPlainResponse,
    events: readResponseStream,
    array: noArray,
    failedEvents: (body) => void shaped(failedEvent, json(lastEvent(body), 'the last event'), 'response.failed'),
    failedArray: noArray,
    error: openaiError,
    count: responsesCount,
    model: chatModel,
    models: chatModels,
  },
  anthropic: {
    plain: readPlainMessage,
    events: readMessageStream,
    array: noArray,
    failedEvents: (body) => void shaped(anthropicError, json(lastEvent(body), 'the last event'), 'error event'),
    failedArray: noArray,
    error: anthropicError,
    count: anthropicCount,
    model: anthropicModel,
    models: anthropicModels,
  },
  google: {
    plain: readPlainGoogle,
    events: readGoogleStream,
    array: readGoogleArray,
    failedEvents: (body) => void shaped(googleError, json(lastEvent(body), 'the last event'), 'error in the stream'),
    failedArray(body) {
      const list = json(body, 'the array')
      demand(Array.isArray(list), 'the streamed body is an array')
      shaped(googleError, list.at(-1), 'error in the array')
    },
    error: googleError,
    count: googleCount,
    model: googleModel,
    models: googleModels,
  },
}

function lastEvent(body: string): string {
  const last = eventsOf(body).at(-1)
  demand(last !== undefined, 'the stream holds no event')
  return last.data
}
