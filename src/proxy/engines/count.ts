// Counting a prompt by the engine's own tokenizer, where its server has vLLM's tokenize route (SGLang has the same under /v1).
import type { Countable } from '../chat.ts'
import { isObject, parseJson } from '../json.ts'
import type { Send } from './engine.ts'

/** Null when the server has no such route, refuses the conversation, or does not answer. */
export async function countByTokenizer(countable: Countable, model: string, path: string, send: Send): Promise<number | null> {
  const body = countable.kind === 'text' ? { prompt: countable.text } : conversation(countable)
  const reply = await send({
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, model }),
  })
  if (!reply.ok || reply.response.status !== 200) return null
  const parsed = parseJson(reply.response.body)
  const count = parsed.ok && isObject(parsed.value) ? parsed.value.count : null
  return typeof count === 'number' && Number.isInteger(count) && count >= 0 ? count : null
}

function conversation({ request }: Extract<Countable, { kind: 'messages' }>): object {
  const { messages, tools, parameters } = request
  return {
    messages,
    ...(tools === null ? {} : { tools }),
    ...(parameters.chat_template_kwargs === undefined ? {} : { chat_template_kwargs: parameters.chat_template_kwargs }),
    add_generation_prompt: true,
  }
}
