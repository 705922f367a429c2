// A request made fit for the model that will answer it, and its answer freed of what the model's engine leaves in it.
import type { Diagnostic } from '../../contract/call.ts'
import type { ChatAnswer, ChatRequest } from '../chat.ts'
import { isObject, type JsonObject } from '../json.ts'
import { WHOLE_DISTRIBUTION } from '../parameters.ts'
import type { ModelProfile } from './profile.ts'
import { foldSystemMessages } from './system-fold.ts'

export type Prepared = { readonly request: ChatRequest; readonly diagnostics: readonly Diagnostic[] }

/**
 * What the caller said outright stands, but for a budget beyond the model's limit. What nobody said of the sampling of a training session
 * is said here, so that the record knows what the tokens were drawn from.
 */
export function prepare(request: ChatRequest, profile: ModelProfile, tier: 'train' | 'eval'): Prepared {
  const diagnostics: Diagnostic[] = []
  const asked = tier === 'train' ? { ...WHOLE_DISTRIBUTION, ...request.parameters } : request.parameters
  const parameters = budgeted(stopped(thinking(asked, profile), profile), profile, diagnostics)
  const { messages, folded } =
    profile.systemMessages === 'first' ? foldSystemMessages(request.messages) : { messages: request.messages, folded: 0 }
  if (folded > 0) diagnostics.push({ code: 'system-folded', detail: `${folded} system messages after the first` })
  return { request: { ...request, messages, parameters }, diagnostics }
}

/** Without the texts at its end that are none of it. The tokens that spelt them stay sampled. */
export function freed(
  answer: ChatAnswer,
  profile: ModelProfile,
): { readonly answer: ChatAnswer; readonly diagnostics: readonly Diagnostic[] } {
  const { content } = answer.message
  const left = profile.cutStrings.find((text) => content?.endsWith(text) === true)
  if (content === null || left === undefined) return { answer, diagnostics: [] }
  const message = { ...answer.message, content: content.slice(0, -left.length) }
  return { answer: { ...answer, message }, diagnostics: [{ code: 'stop-cut', detail: JSON.stringify(left) }] }
}

function thinking(parameters: JsonObject, profile: ModelProfile): JsonObject {
  const kwargs = parameters.chat_template_kwargs
  const said = isObject(kwargs) ? kwargs : {}
  if (profile.thinking === null || said.enable_thinking !== undefined) return parameters
  return { ...parameters, chat_template_kwargs: { ...said, enable_thinking: profile.thinking } }
}

function stopped(parameters: JsonObject, { stopStrings, stopTokenIds }: ModelProfile): JsonObject {
  if (stopStrings.length === 0 && stopTokenIds.length === 0) return parameters
  const { stop, stop_token_ids: ids } = parameters
  const strings = new Set([...(Array.isArray(stop) ? stop : stop === undefined ? [] : [stop]), ...stopStrings])
  const tokens = new Set([...(Array.isArray(ids) ? ids : []), ...stopTokenIds])
  return {
    ...parameters,
    ...(strings.size === 0 ? {} : { stop: [...strings] }),
    ...(tokens.size === 0 ? {} : { stop_token_ids: [...tokens] }),
  }
}

function budgeted(parameters: JsonObject, profile: ModelProfile, diagnostics: Diagnostic[]): JsonObject {
  const { max_tokens: asked } = parameters
  const { defaultOutputTokens: usual, maxOutputTokens: limit } = profile
  if (typeof asked !== 'number') return usual === null ? parameters : { ...parameters, max_tokens: usual }
  if (limit === null || asked <= limit) return parameters
  diagnostics.push({ code: 'max-tokens-clamped', detail: `${asked} to ${limit}` })
  return { ...parameters, max_tokens: limit }
}
