// The pivot → a stream of GenerateContentResponses, as it grows or all at once: events without any terminator, or one JSON array.
import { unreachable } from '../../../kernel/unreachable.ts'
import type { ChatAnswer } from '../../chat.ts'
import { type AnswerDelta, addTold, nothingTold, restOf } from '../../live/answer-delta.ts'
import type { AnswerIdentity, ReplyStream } from '../dialect.ts'
import { errorOf } from './error.ts'
import { callPart, closing, type GoogleWishes, responseOf, textPart, thoughtPart } from './response.ts'

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
  const parts = openParts(identity, wishes)
  return {
    open: () => '',
    beat: () => frame(responseOf(WAITING, identity, null)),
    delta: (added) => parts.delta(added).map(frame).join(''),
    *answer(answer) {
      for (const response of parts.answer(answer)) yield frame(response)
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
  const parts = openParts(identity, wishes)
  return {
    open: () => '[',
    // White space between elements says nothing and keeps the bytes coming.
    beat: () => '\n',
    delta: (added) => parts.delta(added).map(element).join(''),
    *answer(answer) {
      for (const response of parts.answer(answer)) yield element(response)
      yield ']'
    },
    failure: (failure) => `${element(errorOf(failure))}]`,
  }
}

type Parts = {
  /** The responses that a delta has finished. */
  delta(added: AnswerDelta): readonly object[]
  answer(answer: ChatAnswer): Iterable<object>
}

/**
 * A part is told when the next one begins: the last of them must come with what closes the answer. A call is told whole. Whether calls
 * follow a text is not known while it grows: its pieces are signed then, and where all is known only those of an answer without a call.
 */
function openParts(identity: AnswerIdentity, wishes: GoogleWishes): Parts {
  const told = nothingTold()
  let isSigned = true
  let held: object | null = null
  let call: { readonly id: string; readonly name: string; text: string } | null = null

  function put(part: object): readonly object[] {
    const before = held
    held = part
    return before === null ? [] : [responseOf([before], identity, null)]
  }

  function endCall(): readonly object[] {
    if (call === null) return []
    const part = callPart(call.id, call.name, call.text, told.calls.length === 1 ? identity : null)
    call = null
    return put(part)
  }

  function tell(added: AnswerDelta): readonly object[] {
    const ended = added.type === 'call' ? endCall() : []
    addTold(told, added)
    switch (added.type) {
      case 'reasoning':
        return wishes.thoughts ? put(thoughtPart(added.text)) : []
      case 'content':
        return put(textPart(added.text, isSigned ? identity : null))
      case 'call':
        call = { id: added.id, name: added.name, text: added.arguments }
        return ended
      case 'arguments':
        if (call !== null) call.text += added.text
        return []
      default:
        return unreachable(added)
    }
  }

  return {
    delta: tell,
    *answer(answer) {
      isSigned = (answer.message.tool_calls ?? []).length === 0
      for (const added of restOf(answer, told)) yield* tell(added)
      yield* endCall()
      // An answer without a part is asked for again by clients.
      if (told.content === 0 && told.calls.length === 0) yield* put(textPart('', identity))
      yield responseOf(held === null ? WAITING : [held], identity, closing(answer, wishes))
    },
  }
}
