// The pivot → a complete chat.completion.chunk stream: role, deltas, finish, usage when asked, [DONE].
import type { ChatAnswer } from '../../chat.ts'
import type { AnswerIdentity, ReplyStream } from '../dialect.ts'
import { pieces } from '../pieces.ts'
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

  return {
    open: () => delta({ role: 'assistant', content: '' }),
    beat: () => delta({}),
    *answer(answer: ChatAnswer) {
      const { reasoning_content: reasoning, content, tool_calls: calls } = answer.message
      for (const piece of pieces(reasoning ?? '')) yield delta({ reasoning_content: piece })
      for (const piece of pieces(content ?? '')) yield delta({ content: piece })
      for (const [index, call] of (calls ?? []).entries()) {
        const [first = '', ...rest] = pieces(call.function.arguments)
        yield delta({ tool_calls: [{ index, id: call.id, type: 'function', function: { name: call.function.name, arguments: first } }] })
        for (const piece of rest) yield delta({ tool_calls: [{ index, function: { arguments: piece } }] })
      }
      const logprobs = writeLogprobs(answer, wishes)
      yield delta({}, answer.finishReason, logprobs === null ? {} : { logprobs })
      if (wishes.includeUsage) yield frame({ ...head, choices: [], usage: writeUsage(answer.usage) })
      yield 'data: [DONE]\n\n'
    },
    // An error object in a chat stream is taken for a quiet end by some clients; a cut connection is retried by all.
    failure: () => null,
  }
}
