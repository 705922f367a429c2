// The chat-completions request as both engines take it: known fields checked, unknown ones accepted and ignored.
import { z } from 'zod'

const part = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  image_url: z.looseObject({ url: z.string().min(1) }).optional(),
})

const toolCall = z.looseObject({
  id: z.string().optional(),
  type: z.string().optional(),
  function: z.looseObject({ name: z.string(), arguments: z.unknown().optional() }),
})

const message = z.looseObject({
  role: z.string().min(1),
  content: z.union([z.string(), z.array(part), z.null()]).optional(),
  reasoning: z.string().nullish(),
  reasoning_content: z.string().nullish(),
  tool_calls: z.array(toolCall).nullish(),
})

export const chatToolSchema = z.looseObject({
  type: z.literal('function').default('function'),
  function: z.looseObject({
    name: z.string().min(1),
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.unknown()).nullish(),
    strict: z.boolean().nullish(),
  }),
})

export const chatRequestSchema = z.looseObject({
  messages: z.array(message).min(1),
  model: z.string().nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  n: z.int().min(1).max(128).nullish(),
  max_tokens: z.int().min(1).nullish(),
  max_completion_tokens: z.int().min(1).nullish(),
  temperature: z.number().min(0).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  ignore_eos: z.boolean().nullish(),
  seed: z.int().nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  stop_token_ids: z.array(z.int()).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  tools: z.array(chatToolSchema).nullish(),
  tool_choice: z.unknown().optional(),
  chat_template_kwargs: z.record(z.string(), z.unknown()).nullish(),
  add_generation_prompt: z.boolean().nullish(),
  /** SGLang's token-in prompt: it replaces the rendered one. */
  input_ids: z.array(z.int().min(0)).nullish(),
  return_token_ids: z.boolean().nullish(),
  return_tokens_as_token_ids: z.boolean().nullish(),
  return_prompt_token_ids: z.boolean().nullish(),
  return_meta_info: z.boolean().nullish(),
})

export type ChatRequest = z.infer<typeof chatRequestSchema>
export type ContentPart = z.infer<typeof part>
export type ChatMessage = ChatRequest['messages'][number]
export type ChatTool = NonNullable<ChatRequest['tools']>[number]
