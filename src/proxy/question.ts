// What a request asks of the model, so that the same turn asked again is known as such however it is asked.
import { createHash } from 'node:crypto'
import type { DialectName, Lineage } from '../contract/call.ts'
import type { ChatRequest } from './chat.ts'

export type Question = {
  /** Of what the model is to see. */
  readonly digest: string
  /** How much it may say. A client that asks again may allow less, as Claude Code does without a stream, or more, as Qwen Code does after a cut answer. */
  readonly maxTokens: number | null
}

/**
 * Not of how the client wants it told: a stream repeated as a plain request is the same turn, and so is one repeated under another model's
 * name, since every name means the same model here. But of who asks: two agents that are sent on one errand begin with the same words, and
 * neither may be given what the other was answered.
 */
export function questionOf(dialect: DialectName, lineage: Lineage | null, { messages, tools, parameters }: ChatRequest): Question {
  const { max_tokens: maxTokens, ...others } = parameters
  return {
    digest: createHash('sha256')
      .update(JSON.stringify([dialect, lineage?.agent ?? null, messages, tools, others]))
      .digest('hex'),
    maxTokens: typeof maxTokens === 'number' ? maxTokens : null,
  }
}
