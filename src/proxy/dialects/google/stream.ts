// The pivot → a stream of GenerateContentResponses: server-sent events without any terminator, or one JSON array written piece by piece.
import type { ChatAnswer } from '../../chat.ts'
import type { AnswerIdentity, ReplyStream } from '../dialect.ts'
import { pieces } from '../pieces.ts'
import { errorOf } from './error.ts'
import { closing, type GoogleWishes, partsOf, responseOf } from './response.ts'

/**
 * A thought that says nothing yet. `{"candidates":[]}` would do for a bare stream, but Google's own chat sessions drop a whole turn
 * from their history for one response without parts, and an empty text is an empty line to some agents.
 */
const WAITING = [{ text: '', thought: true }] as const

export function openGoogleStream(identity: AnswerIdentity, wishes: GoogleWishes): ReplyStream {
  return wishes.isArray ? openArrayStream(identity, wishes) : openEventStream(identity, wishes)
}

function openEventStream(identity: AnswerIdentity, wishes: GoogleWishes): ReplyStream {
  const frame = (data: object): string => `data: ${JSON.stringify(data)}\n\n`
  return {
    open: () => '',
    beat: () => frame(responseOf(WAITING, identity, null)),
    *answer(answer) {
      for (const response of responsesOf(answer, identity, wishes)) yield frame(response)
    },
    failure: (failure) => frame(errorOf(failure)),
  }
}

function openArrayStream(identity: AnswerIdentity, wishes: GoogleWishes): ReplyStream {
  let separator = ''
  const element = (data: object): string => {
    const written = separator + JSON.stringify(data)
    separator = ',\r\n'
    return written
  }
  return {
    open: () => '[',
    // White space between elements says nothing and keeps the bytes coming.
    beat: () => '\n',
    *answer(answer) {
      const responses = responsesOf(answer, identity, wishes)
      for (const [index, response] of responses.entries()) yield element(response) + (index === responses.length - 1 ? ']' : '')
    },
    failure: (failure) => `${element(errorOf(failure))}]`,
  }
}

function responsesOf(answer: ChatAnswer, identity: AnswerIdentity, wishes: GoogleWishes): readonly object[] {
  const parts = partsOf(answer, identity, wishes, pieces)
  return parts.map((part, index) => responseOf([part], identity, index === parts.length - 1 ? closing(answer, wishes) : null))
}
