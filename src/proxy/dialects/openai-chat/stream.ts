// The pivot → a chat.completion.chunk stream, as it grows or all at once: role, deltas, finish, usage when asked, [DONE].
import { unreachable } from '../../../kernel/unreachable.ts'
import type { ChatAnswer } from '../../chat.ts'
import { type AnswerDelta, addTold, nothingTold, restOf } from '../../live/answer-delta.ts'
import type { AnswerIdentity, ReplyStream } from '../dialect.ts'
import { type ChatWishes, completionId, writeLogprobs, writeUsage } from './response.ts'

export function openChatStream(identity: AnswerIdentity, wishes: ChatWishes): ReplyStream {
  const head = {
    id: completionId(identity),
    object: 'chat.completion.chunk',
    created: identity.createdSeconds,
    model: identity.model,
  }
  const frame = (data: object): string => `data: ${JSON.stringify(data)}\n\n`
  const usage = wishes.includeUsage ? { usage: null } : {}
  const delta = (content: object, finish: string | null = null, extra: object = {}): string =>
    frame({ ...head, choices: [{ index: 0, delta: content, ...extra, finish_reason: finish }], ...usage })

  const told = nothingTold()

  function tell(added: AnswerDelta): string {
    addTold(told, added)
    const index = told.calls.length - 1
    switch (added.type) {
      case 'reasoning':
        return delta({ reasoning_content: added.text })
      case 'content':
        return delta({ content: added.text })
      case 'call':
        return delta({
          tool_calls: [{ index, id: added.id, type: 'function', function: { name: added.name, arguments: added.arguments } }],
        })
      case 'arguments':
        return delta({ tool_calls: [{ index, function: { arguments: added.text } }] })
      default:
        return unreachable(added)
    }
  }

  return {
    open: () => delta({ role: 'assistant', content: '' }),
    beat: () => delta({}),
    delta: tell,
    *answer(answer: ChatAnswer) {
      for (const added of restOf(answer, told)) yield tell(added)
      const logprobs = writeLogprobs(answer, wishes)
      yield delta({}, answer.finishReason, logprobs === null ? {} : { logprobs })
      if (wishes.includeUsage) yield frame({ ...head, choices: [], usage: writeUsage(answer.usage) })
      yield 'data: [DONE]\n\n'
    },
    // An error object in a chat stream is taken for a quiet end by some clients; a cut connection is retried by all.
    failure: () => null,
  }
}
