// A prompt that the boundary sends as token ids: how it is made by the engine's own template and tokenizer, and what cannot be sent so.
import type { JsonObject } from '../json.ts'
import type { EngineOutcome, EngineRequest } from './engine.ts'
import { refused } from './rejection.ts'

export type OwnPrompt =
  | { readonly ok: true; readonly ids: readonly number[]; readonly beginsInThought: boolean }
  | { readonly ok: false; readonly outcome: EngineOutcome }

/** What the chat template reads, under the names that chat requests have for it. */
const TEMPLATE_PARAMETERS = ['chat_template_kwargs', 'add_generation_prompt', 'continue_final_message', 'reasoning_effort'] as const
/** How tools may be called: read where the answer is parsed, since nothing of it reaches a sampler. */
const TOOL_PARAMETERS = ['tool_choice', 'parallel_tool_calls'] as const

/** The conversation as a chat request has it; parameters that the template reads go with it. */
export function conversationBody({ prompt, parameters, model }: EngineRequest): JsonObject {
  const templated = TEMPLATE_PARAMETERS.flatMap((name) => (parameters[name] === undefined ? [] : [[name, parameters[name]] as const]))
  return {
    messages: prompt.messages,
    ...(prompt.tools === null ? {} : { tools: prompt.tools }),
    add_generation_prompt: true,
    ...Object.fromEntries(templated),
    model,
  }
}

/** Parameters that are neither the template's nor about tools: those the sampler must be told. */
export function samplerParameters(parameters: JsonObject): readonly (readonly [string, unknown])[] {
  const known: readonly string[] = [...TEMPLATE_PARAMETERS, ...TOOL_PARAMETERS]
  return Object.entries(parameters).filter(([name, value]) => !known.includes(name) && value !== undefined && value !== null)
}

/** Whether calls are looked for in the answer: a forced one would need a grammar, which only the engine's chat route builds. */
export function parsesCalls({ prompt, parameters }: EngineRequest): boolean {
  return prompt.tools !== null && parameters.tool_choice !== 'none'
}

/** Why a request cannot be sent as token ids; null when it can. */
export function unservable({ prompt, parameters }: EngineRequest): EngineOutcome | null {
  const { tool_choice: choice } = parameters
  if (choice !== undefined && choice !== 'auto' && choice !== 'none') {
    return refused('tool_choice: a forced tool call cannot be served by this inference server')
  }
  const hasMedia = prompt.messages.some(({ content }) => Array.isArray(content) && content.some(({ type }) => type !== 'text'))
  return hasMedia ? refused('messages: images cannot be served by this inference server') : null
}

/** True when the template has opened the thinking block, by what is known of the model. */
export function opensThought({ format, parameters }: EngineRequest): boolean {
  const kwargs = parameters.chat_template_kwargs
  const isOff = typeof kwargs === 'object' && kwargs !== null && 'enable_thinking' in kwargs && kwargs.enable_thinking === false
  return format.opensThinking && !isOff
}
