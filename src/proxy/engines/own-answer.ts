// The chat answer that is made of an engine's bare text: parsed by the model's format, ended as a chat completion would say.
import type { Usage } from '../../contract/call.ts'
import { readAnswerText } from '../answer-text/answer-text.ts'
import type { AnswerMessage } from '../chat.ts'
import type { CapturedTokens, EngineReply, EngineRequest } from './engine.ts'
import { parsesCalls } from './own-prompt.ts'
import type { Weights } from './weight-spans.ts'

export type BareAnswer = {
  readonly text: string
  readonly beginsInThought: boolean
  readonly finishReason: 'stop' | 'length' | 'content_filter'
  readonly stopSequence: string | null
  readonly usage: Usage
  readonly tokens: CapturedTokens
  readonly weights: Weights
  /** As OpenAI's `logprobs.content`; null when texts of tokens were not asked for. */
  readonly logprobs: readonly unknown[] | null
}

export function answerOf(request: EngineRequest, bare: BareAnswer): EngineReply {
  const { format, prompt } = request
  const { tokens, weights, usage, stopSequence, logprobs } = bare
  const parsed = readAnswerText(bare.text, {
    format,
    beginsInThought: bare.beginsInThought,
    tools: parsesCalls(request) ? prompt.tools : null,
  })
  const { reasoning, content, calls } = parsed
  const message: AnswerMessage = {
    role: 'assistant',
    content: content === '' && (calls.length > 0 || reasoning !== '') ? null : content,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    // Whoever opened the call gives each an id.
    ...(calls.length === 0 ? {} : { tool_calls: calls.map((call) => ({ id: '', type: 'function', function: call })) }),
  }
  // A length limit stays one although a call was complete by then, as SGLang has it.
  const finishReason = bare.finishReason === 'stop' && calls.length > 0 ? 'tool_calls' : bare.finishReason
  return {
    type: 'answer',
    answer: { message, finishReason, usage, stopSequence, logprobs },
    tokens,
    ...weights,
    diagnostics: parsed.diagnostics,
  }
}
