// The pivot → a complete Anthropic event stream: message_start, blocks one after another, message_delta, message_stop.
import { unreachable } from '../../../kernel/unreachable.ts'
import type { ChatAnswer } from '../../chat.ts'
import type { AnswerIdentity, ReplyStream } from '../dialect.ts'
import { pieces } from '../pieces.ts'
import { errorBody } from './error.ts'
import { type AnthropicWishes, blocksOf, messageHead, stopOf, type ToldBlock, usageOf } from './response.ts'

const UNKNOWN_USAGE = { promptTokens: 0, completionTokens: 0, cachedTokens: null, reasoningTokens: null }

export function openAnthropicStream(identity: AnswerIdentity, wishes: AnthropicWishes): ReplyStream {
  return {
    open(answer) {
      // Nothing is sampled yet as far as this event goes; what the prompt costs is told as soon as it is known.
      const usage = usageOf(answer === null ? UNKNOWN_USAGE : { ...answer.usage, completionTokens: 0, reasoningTokens: null })
      return event('message_start', { message: { ...messageHead(identity), content: [], stop_reason: null, stop_sequence: null, usage } })
    },
    beat: () => event('ping', {}),
    *answer(answer: ChatAnswer) {
      for (const [index, told] of blocksOf(answer, identity).entries()) {
        yield event('content_block_start', { index, content_block: emptied(told) })
        for (const delta of deltasOf(told)) yield event('content_block_delta', { index, delta })
        yield event('content_block_stop', { index })
      }
      const delta = { ...stopOf(answer, wishes), container: null, stop_details: null }
      yield event('message_delta', { delta, usage: usageOf(answer.usage) })
      yield event('message_stop', {})
    },
    failure: (failure) => `event: error\ndata: ${JSON.stringify(errorBody(failure, `msg_${identity.id}`))}\n\n`,
  }
}

/** The vendor's clients ignore what has no `event:` line. */
function event(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`
}

/** The block as it starts: the deltas fill it. */
function emptied({ block }: ToldBlock): object {
  switch (block.type) {
    case 'thinking':
      return { ...block, thinking: '', signature: '' }
    case 'text':
      return { ...block, text: '' }
    case 'tool_use':
      return { ...block, input: {} }
    default:
      return unreachable(block)
  }
}

function deltasOf(told: ToldBlock): readonly object[] {
  if ('inputText' in told) return pieces(told.inputText).map((piece) => ({ type: 'input_json_delta', partial_json: piece }))
  const { block } = told
  if (block.type === 'text') return pieces(block.text).map((text) => ({ type: 'text_delta', text }))
  const thoughts = pieces(block.thinking).map((thinking) => ({ type: 'thinking_delta', thinking }))
  return [...thoughts, { type: 'signature_delta', signature: block.signature }]
}
