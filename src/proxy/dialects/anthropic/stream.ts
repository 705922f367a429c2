// The pivot → an Anthropic event stream, as it grows or all at once: message_start, blocks one after another, message_delta, message_stop.
import { unreachable } from '../../../kernel/unreachable.ts'
import type { ChatAnswer } from '../../chat.ts'
import { type AnswerDelta, addTold, nothingTold, restOf } from '../../live/answer-delta.ts'
import { objectText } from '../arguments.ts'
import type { AnswerIdentity, ReplyStream } from '../dialect.ts'
import { pieces } from '../pieces.ts'
import { signatureOf } from '../signature.ts'
import { streamedError } from './error.ts'
import { type AnthropicWishes, messageHead, stopOf, textBlock, thinkingBlock, toolUseBlock, usageOf } from './response.ts'

const UNKNOWN_USAGE = { promptTokens: 0, completionTokens: 0, cachedTokens: null, reasoningTokens: null }

/** The block that is being told. The input of a call is told when it is whole: only then is it known to be an object. */
type OpenBlock = { readonly type: 'thinking' } | { readonly type: 'text' } | { readonly type: 'tool_use'; input: string }

export function openAnthropicStream(identity: AnswerIdentity, wishes: AnthropicWishes): ReplyStream {
  const told = nothingTold()
  let open: OpenBlock | null = null
  let index = -1

  const delta = (fields: object): string => event('content_block_delta', { index, delta: fields })

  function* begin(block: OpenBlock, start: object): Iterable<string> {
    yield* end()
    open = block
    index += 1
    yield event('content_block_start', { index, content_block: start })
  }

  function* end(): Iterable<string> {
    if (open === null) return
    for (const last of lastDeltas(open, identity)) yield delta(last)
    open = null
    yield event('content_block_stop', { index })
  }

  function* tell(added: AnswerDelta): Iterable<string> {
    addTold(told, added)
    switch (added.type) {
      case 'reasoning':
        if (open?.type !== 'thinking') yield* begin({ type: 'thinking' }, thinkingBlock('', ''))
        yield delta({ type: 'thinking_delta', thinking: added.text })
        return
      case 'content':
        if (open?.type !== 'text') yield* begin({ type: 'text' }, textBlock(''))
        yield delta({ type: 'text_delta', text: added.text })
        return
      case 'call':
        yield* begin({ type: 'tool_use', input: added.arguments }, toolUseBlock(added.id, added.name, {}))
        return
      case 'arguments':
        if (open?.type === 'tool_use') open.input += added.text
        return
      default:
        return unreachable(added)
    }
  }

  return {
    open(answer) {
      // Nothing is sampled yet as far as this event goes; what the prompt costs is told as soon as it is known.
      const usage = usageOf(answer === null ? UNKNOWN_USAGE : { ...answer.usage, completionTokens: 0, reasoningTokens: null })
      return event('message_start', { message: { ...messageHead(identity), content: [], stop_reason: null, stop_sequence: null, usage } })
    },
    beat: () => event('ping', {}),
    delta: (added) => [...tell(added)].join(''),
    *answer(answer: ChatAnswer) {
      for (const added of restOf(answer, told)) yield* tell(added)
      // Clients take an answer with nothing to see for a fault.
      if (told.content === 0 && told.calls.length === 0) yield* begin({ type: 'text' }, textBlock(''))
      yield* end()
      const last = { ...stopOf(answer, wishes), container: null, stop_details: null }
      yield event('message_delta', { delta: last, usage: usageOf(answer.usage) })
      yield event('message_stop', {})
    },
    failure: (failure) => `event: error\ndata: ${JSON.stringify(streamedError(failure, `msg_${identity.id}`))}\n\n`,
  }
}

/** The vendor's clients ignore what has no `event:` line. */
function event(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`
}

/** What is told of a block when it is whole. */
function lastDeltas(block: OpenBlock, identity: AnswerIdentity): readonly object[] {
  switch (block.type) {
    case 'thinking':
      return [{ type: 'signature_delta', signature: signatureOf(identity.id) }]
    case 'text':
      return []
    case 'tool_use':
      return pieces(objectText(block.input)).map((piece) => ({ type: 'input_json_delta', partial_json: piece }))
    default:
      return unreachable(block)
  }
}
