// What the engine makes of a chat-completions body before it generates: the checks, the prompt's ids, and how much may follow.
import { type ChatRequest, chatRequestSchema } from '../wire/chat-request.ts'
import { bad, budgetOf, encodePrompt, otherSampling, promptProblem, type Reader, type Reading, samplingOf } from './asked.ts'
import type { Language, Rendered } from './language.ts'
import { imageUrls, unsupportedPart } from './template-input.ts'

export function readChat(reader: Reader, body: unknown): Reading {
  const parsed = chatRequestSchema.safeParse(body)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const path = issue?.path.join('.') ?? ''
    return bad(`${path === '' ? 'body' : path}: ${issue?.message ?? 'is not valid'}`, path === '' ? null : path)
  }
  const request = parsed.data
  const { shape } = reader
  const complaint = shape.complaint(request, reader.model)
  if (complaint !== null) return { ok: false, complaint }
  const part = unsupportedPart(request.messages, reader.takesImages)
  if (part !== null) {
    const model = reader.takesImages ? reader.model : `${reader.model} is not a multimodal model`
    return bad(`${model}: content of type ${part} cannot be served`, 'messages')
  }

  const prompt = promptOf(reader, request)
  if (!prompt.ok) return bad(prompt.message, 'messages')
  const problem = promptProblem(reader, prompt.ids, request.input_ids ? 'input_ids' : 'messages')
  if (problem !== null) return { ok: false, complaint: problem }
  const budget = budgetOf(reader, prompt.ids.length, request.max_completion_tokens ?? request.max_tokens ?? null)
  if (!budget.ok) return budget
  const tools = request.tools ?? []
  return {
    ok: true,
    asked: {
      promptIds: prompt.ids,
      chat: { messages: request.messages, tools },
      imageUrls: imageUrls(request.messages),
      model: request.model ?? null,
      maxTokens: budget.maxTokens,
      choices: request.n ?? 1,
      seed: request.seed ?? null,
      ...samplingOf(request, shape.defaultSampling),
      topLogprobs: request.logprobs === true ? (request.top_logprobs ?? shape.defaultTopLogprobs) : 0,
      stops: typeof request.stop === 'string' ? [request.stop] : (request.stop ?? []),
      stopTokenIds: request.stop_token_ids ?? [],
      parsesTools: tools.length > 0 && request.tool_choice !== 'none',
      beginsInThought: prompt.beginsInThought,
      otherSampling: otherSampling(request),
    },
    form:
      request.stream === true
        ? { type: 'stream', writer: shape.stream(request) }
        : { type: 'whole', whole: (generation) => shape.completion(generation, request) },
  }
}

type Prompt =
  | { readonly ok: true; readonly ids: readonly number[]; readonly beginsInThought: boolean }
  | { readonly ok: false; readonly message: string }

function promptOf(reader: Reader, request: ChatRequest): Prompt {
  if (request.input_ids) return { ok: true, ids: request.input_ids, beginsInThought: false }
  const rendered = renderRequest(reader.language, request)
  if (!rendered.ok) return rendered
  return { ok: true, ids: encodePrompt(reader, rendered.text), beginsInThought: /<think>\s*$/.test(rendered.text) }
}

export function renderRequest(
  language: Language,
  request: Pick<ChatRequest, 'messages' | 'tools' | 'add_generation_prompt' | 'chat_template_kwargs'>,
): Rendered {
  return language.renderPrompt({
    messages: request.messages,
    tools: request.tools ?? [],
    templateArguments: request.chat_template_kwargs ?? {},
    addsGenerationPrompt: request.add_generation_prompt !== false,
  })
}
