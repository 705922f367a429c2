// The shapes of OpenAI chat completions, from the SDK's types, and the order of a chunk stream.
import { z } from 'zod'
import { count, demand, eventsOf, type Folded, json, nonEmpty, shaped, type Wishes } from './folded.ts'

const usage = z.strictObject({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: z.strictObject({ cached_tokens: count, audio_tokens: count.optional() }),
  completion_tokens_details: z.strictObject({ reasoning_tokens: count, audio_tokens: count.optional() }),
})

const finish = z.enum(['stop', 'length', 'tool_calls', 'content_filter'])

const alternative = z.strictObject({ token: z.string(), logprob: z.number(), bytes: z.array(count).nullable() })
const logprobs = z.strictObject({
  content: z.array(alternative.extend({ top_logprobs: z.array(alternative) })),
  refusal: z.null(),
})

const toolCall = z.strictObject({
  id: nonEmpty,
  type: z.literal('function'),
  function: z.strictObject({ name: nonEmpty, arguments: z.string() }),
})

const message = z.strictObject({
  role: z.literal('assistant'),
  content: z.string().nullable(),
  refusal: z.null(),
  reasoning_content: nonEmpty.optional(),
  tool_calls: z.array(toolCall).min(1).optional(),
  annotations: z.array(z.never()).optional(),
})

const head = { id: z.string().regex(/^chatcmpl-/), created: count, model: nonEmpty, system_fingerprint: z.string().optional() }

const completion = z.strictObject({
  ...head,
  object: z.literal('chat.completion'),
  choices: z.tuple([z.strictObject({ index: z.literal(0), message, logprobs: logprobs.nullable(), finish_reason: finish })]),
  usage,
})

const toolCallDelta = z.strictObject({
  index: count,
  id: nonEmpty.optional(),
  type: z.literal('function').optional(),
  function: z.strictObject({ name: nonEmpty.optional(), arguments: z.string().optional() }),
})

const delta = z.strictObject({
  role: z.literal('assistant').optional(),
  content: z.string().optional(),
  reasoning_content: nonEmpty.optional(),
  tool_calls: z.tuple([toolCallDelta]).optional(),
})

const chunk = z.strictObject({
  ...head,
  object: z.literal('chat.completion.chunk'),
  choices: z
    .array(z.strictObject({ index: z.literal(0), delta, logprobs: logprobs.nullable().optional(), finish_reason: finish.nullable() }))
    .max(1),
  usage: usage.nullable().optional(),
})

type Message = z.infer<typeof message>

export function readPlainChat(body: string, wishes: Wishes): Folded {
  const reply = shaped(completion, json(body, 'a completion'), 'chat completion')
  const [choice] = reply.choices
  demand(wishes.logprobs !== false || choice.logprobs === null, 'logprobs were not asked for')
  return fold(reply, choice.message, choice.finish_reason)
}

export function readChatStream(body: string, wishes: Wishes): Folded {
  const events = eventsOf(body)
  demand(
    events.every(({ event }) => event === null),
    'a chat stream has no event names',
  )
  demand(events.at(-1)?.data === '[DONE]', `the stream ends with ${JSON.stringify(events.at(-1)?.data.slice(0, 200))} and not with [DONE]`)
  const chunks = events.slice(0, -1).map(({ data }) => shaped(chunk, json(data, 'a chunk'), 'chunk'))
  const [first] = chunks
  demand(first?.choices[0]?.delta.role === 'assistant', 'the first chunk names the role')
  const collected = { text: '', reasoning: '', calls: [] as { id: string; name: string; arguments: string }[] }
  let stage = 0
  let ended: string | null = null
  let usageChunks = 0

  for (const [index, each] of chunks.entries()) {
    demand(each.id === first.id && each.created === first.created && each.model === first.model, 'id, created and model stay the same')
    const [choice] = each.choices
    if (choice === undefined) {
      demand(
        wishes.usageChunk !== false && ended !== null && each.usage !== null && each.usage !== undefined,
        'a chunk without a choice is the usage at the end',
      )
      usageChunks += 1
      continue
    }
    demand(ended === null, 'nothing follows the finish reason')
    demand(each.usage === null || each.usage === undefined, 'usage stands in the last chunk alone')
    demand(
      wishes.usageChunk === null || wishes.usageChunk === (each.usage === null),
      'usage is null in every chunk exactly when it was asked for',
    )
    demand(index === 0 || choice.delta.role === undefined, 'the role is named once')
    demand(wishes.logprobs !== false || (choice.logprobs ?? null) === null, 'logprobs were not asked for')
    const { reasoning_content: reasoning, content, tool_calls: calls } = choice.delta
    if (reasoning !== undefined) stage = ordered(stage, 1)
    if (content !== undefined && content !== '') stage = ordered(stage, 2)
    if (calls !== undefined) stage = ordered(stage, 3)
    collected.reasoning += reasoning ?? ''
    collected.text += content ?? ''
    if (calls !== undefined) take(collected.calls, calls[0])
    ended = choice.finish_reason
  }
  demand(ended !== null, 'the stream names a finish reason')
  demand(wishes.usageChunk === null ? usageChunks <= 1 : usageChunks === (wishes.usageChunk ? 1 : 0), `usage came ${usageChunks} times`)
  const said: Message = {
    role: 'assistant',
    content: collected.text,
    refusal: null,
    ...(collected.reasoning === '' ? {} : { reasoning_content: collected.reasoning }),
    ...(collected.calls.length === 0
      ? {}
      : { tool_calls: collected.calls.map(({ id, ...named }) => ({ id, type: 'function' as const, function: named })) }),
  }
  return fold(first, said, ended)
}

function ordered(stage: number, next: number): number {
  demand(next >= stage, 'reasoning comes before content, content before calls')
  return next
}

function take(calls: { id: string; name: string; arguments: string }[], given: z.infer<typeof toolCallDelta>): void {
  const { index, id, type, function: named } = given
  if (index === calls.length) {
    demand(id !== undefined && type !== undefined && named.name !== undefined, 'a call begins with id, type and name')
    calls.push({ id, name: named.name, arguments: named.arguments ?? '' })
    return
  }
  const last = calls.at(-1)
  demand(last !== undefined && index === calls.length - 1, `call ${index} goes on after call ${calls.length - 1} has begun`)
  demand(id === undefined && named.name === undefined, 'a call is named once')
  last.arguments += named.arguments ?? ''
}

function fold(reply: { readonly id: string; readonly model: string }, said: Message, finishReason: string): Folded {
  const calls = said.tool_calls ?? []
  demand(new Set(calls.map(({ id }) => id)).size === calls.length, 'ids of calls are distinct')
  demand(finishReason !== 'stop' || calls.length === 0, 'an answer with calls does not end with stop')
  const { refusal: _none, ...kept } = said
  return {
    id: reply.id,
    model: reply.model,
    text: said.content ?? '',
    reasoning: said.reasoning_content ?? '',
    calls: calls.map(({ id, function: { name, arguments: text } }) => ({ id, name, given: { text } })),
    kept: { items: [kept], calls: calls.map(({ id, function: { name } }) => ({ id, name, kind: 'function' })), responseId: null },
  }
}

export const chatCount = z.strictObject({ count, max_model_len: count.nullable(), tokens: z.null() })

const entry = z.strictObject({
  id: nonEmpty,
  object: z.literal('model'),
  created: count,
  owned_by: nonEmpty,
  max_model_len: count.optional(),
})
export const chatModel = entry
export const chatModels = z.strictObject({ object: z.literal('list'), data: z.array(entry).min(1), models: z.array(entry).min(1) })

/** Of both OpenAI APIs. */
export const openaiError = z.strictObject({
  error: z.strictObject({ message: nonEmpty, type: nonEmpty, param: z.string().nullable(), code: z.string().nullable() }),
})
