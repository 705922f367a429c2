// What the engine makes of a chat-completions body before it generates: the checks, the prompt's ids, and how much may follow.
import { type ChatRequest, chatRequestSchema } from '../wire/chat-request.ts'
import { bad, budgetOf, type Reader, type Reading } from './asked.ts'
import { conversationOf } from './conversation.ts'
import type { Qwen } from './qwen.ts'
import { imageUrls, unsupportedPart } from './template-input.ts'

export function readChat(reader: Reader, body: unknown): Reading {
  const parsed = chatRequestSchema.safeParse(body)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const path = issue?.path.join('.') ?? ''
    return bad(`${path === '' ? 'body' : path}: ${issue?.message ?? 'is not valid'}`, path === '' ? null : path)
  }
  const request = parsed.data
  const { shape, qwen } = reader
  const complaint = shape.complaint(request, reader.model)
  if (complaint !== null) return { ok: false, complaint }
  const part = unsupportedPart(request.messages, reader.takesImages)
  if (part !== null) {
    const model = reader.takesImages ? reader.model : `${reader.model} is not a multimodal model`
    return bad(`${model}: content of type ${part} cannot be served`, 'messages')
  }

  const promptIds = request.input_ids ?? qwen.encode(renderRequest(qwen, request))
  const budget = budgetOf(reader, promptIds.length, request.max_completion_tokens ?? request.max_tokens ?? null)
  if (!budget.ok) return budget
  const tools = request.tools ?? []
  return {
    ok: true,
    asked: {
      promptIds,
      conversation: conversationOf(request.messages, tools),
      imageUrls: imageUrls(request.messages),
      model: request.model ?? null,
      maxTokens: budget.maxTokens,
      choices: request.n ?? 1,
      seed: request.seed ?? null,
      temperature: request.temperature ?? 1,
      topLogprobs: request.logprobs === true ? (request.top_logprobs ?? shape.defaultTopLogprobs) : 0,
      stops: typeof request.stop === 'string' ? [request.stop] : (request.stop ?? []),
      stopTokenIds: request.stop_token_ids ?? [],
      parsesTools: tools.length > 0 && request.tool_choice !== 'none',
    },
    form:
      request.stream === true
        ? { type: 'stream', chunks: (generation, tokensPerChunk) => shape.chunks(generation, request, tokensPerChunk) }
        : { type: 'whole', whole: (generation) => shape.completion(generation, request) },
  }
}

export function renderRequest(
  qwen: Qwen,
  request: Pick<ChatRequest, 'messages' | 'tools' | 'add_generation_prompt' | 'chat_template_kwargs'>,
): string {
  const thinking = request.chat_template_kwargs?.enable_thinking
  return qwen.renderPrompt({
    messages: request.messages,
    tools: request.tools ?? [],
    enableThinking: typeof thinking === 'boolean' ? thinking : null,
    addsGenerationPrompt: request.add_generation_prompt !== false,
  })
}
