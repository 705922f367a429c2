// What the engine makes of a request body before it generates: the checks, the prompt's ids, and how much may follow.
import { type ChatRequest, chatRequestSchema } from '../wire/chat-request.ts'
import type { Complaint, WireShape } from '../wire/shape.ts'
import type { Qwen } from './qwen.ts'
import { unsupportedPart } from './template-input.ts'

export type Prompt =
  | { readonly ok: true; readonly request: ChatRequest; readonly promptIds: readonly number[]; readonly maxTokens: number }
  | { readonly ok: false; readonly complaint: Complaint }

type Reader = {
  readonly shape: WireShape
  readonly model: string
  readonly maxModelLen: number
  readonly takesImages: boolean
  readonly qwen: Qwen
}

export function readPrompt(reader: Reader, body: unknown): Prompt {
  const parsed = chatRequestSchema.safeParse(body)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const path = issue?.path.join('.') ?? ''
    return bad(`${path === '' ? 'body' : path}: ${issue?.message ?? 'is not valid'}`, path === '' ? null : path)
  }
  const request = parsed.data
  const complaint = reader.shape.complaint(request, reader.model)
  if (complaint !== null) return { ok: false, complaint }
  const part = unsupportedPart(request.messages, reader.takesImages)
  if (part !== null) {
    const model = reader.takesImages ? reader.model : `${reader.model} is not a multimodal model`
    return bad(`${model}: content of type ${part} cannot be served`, 'messages')
  }

  const promptIds = request.input_ids ?? reader.qwen.encode(renderRequest(reader.qwen, request))
  const asked = request.max_completion_tokens ?? request.max_tokens ?? null
  const room = reader.maxModelLen - promptIds.length
  if (room < (asked ?? 1)) {
    return { ok: false, complaint: reader.shape.tooLong({ limit: reader.maxModelLen, prompt: promptIds.length, output: asked ?? 0 }) }
  }
  return { ok: true, request, promptIds, maxTokens: asked ?? room }
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

function bad(message: string, param: string | null): Prompt {
  return { ok: false, complaint: { status: 400, message, param } }
}
