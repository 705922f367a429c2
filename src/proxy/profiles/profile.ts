// What is known of a model beyond what its engine says: built in for Qwen's, added to by the operator, chosen by the served name.
import type { ModelRule } from '../../contract/model-profile.ts'
import type { AnswerFormat } from '../answer-text/answer-text.ts'

export type ModelProfile = {
  /** Whether it thinks when the caller does not say; null leaves that to the chat template. */
  readonly thinking: boolean | null
  /** `first`: its chat template takes one system message, at the head, and refuses others. */
  readonly systemMessages: 'anywhere' | 'first'
  /** For engines that do not state it. */
  readonly maxModelLen: number | null
  readonly defaultOutputTokens: number | null
  readonly maxOutputTokens: number | null
  /** Sent with every call, beside the caller's own. */
  readonly stopStrings: readonly string[]
  readonly stopTokenIds: readonly number[]
  /** Texts that the engine leaves at the end of an answer and that are none of it. */
  readonly cutStrings: readonly string[]
  readonly format: AnswerFormat
  /** The template shows the ids of calls to the model, so that an id of ours would become part of later prompts. */
  readonly printsCallIds: boolean
}

export type ProfileOf = (model: string) => ModelProfile

/** Of a model that nobody has said anything about. */
const NEUTRAL: ModelProfile = {
  thinking: null,
  systemMessages: 'anywhere',
  maxModelLen: null,
  defaultOutputTokens: null,
  maxOutputTokens: null,
  stopStrings: [],
  stopTokenIds: [],
  cutStrings: [],
  format: { reasoning: 'think-tags', opensThinking: false, calls: 'json' },
  printsCallIds: false,
}

/**
 * Their chat template opens the thinking block itself, writes calls in tags, and raises on a system message that is not
 * the first one (chat_template.jinja of Qwen3.5-4B).
 */
const QWEN_3_5: ModelProfile = {
  ...NEUTRAL,
  thinking: false,
  systemMessages: 'first',
  format: { reasoning: 'think-tags', opensThinking: true, calls: 'xml' },
}

/** The first that matches holds. */
const BUILT_IN: readonly (readonly [pattern: string, profile: ModelProfile])[] = [
  ['*qwen3.5-4b*', { ...QWEN_3_5, maxModelLen: 32_768 }],
  ['*qwen3.5-122b-a10b*', { ...QWEN_3_5, maxModelLen: 32_768 }],
  ['*qwen3.5*', QWEN_3_5],
  ['*qwen3-coder*', { ...NEUTRAL, format: { reasoning: 'none', opensThinking: false, calls: 'xml' } }],
  ['*qwen3*thinking*', { ...NEUTRAL, format: { reasoning: 'think-tags', opensThinking: true, calls: 'json' } }],
  ['*qwen3*', NEUTRAL],
]

/** The operator's first rule that matches is laid over what is known of the model anyway. */
export function openProfiles(rules: readonly ModelRule[]): ProfileOf {
  const known = BUILT_IN.map(([pattern, profile]) => ({ means: namesMeant(pattern), profile }))
  const said = rules.map(({ pattern, profile }) => ({ means: namesMeant(pattern), profile }))
  return (model) => {
    const base = known.find(({ means }) => means(model))?.profile ?? NEUTRAL
    const rule = said.find(({ means }) => means(model))?.profile
    return rule === undefined ? base : overlaid(base, rule)
  }
}

function overlaid(base: ModelProfile, rule: ModelRule['profile']): ModelProfile {
  return {
    thinking: rule.thinking ?? base.thinking,
    systemMessages: rule.system_messages ?? base.systemMessages,
    maxModelLen: rule.max_model_len ?? base.maxModelLen,
    defaultOutputTokens: rule.max_output_tokens?.default ?? base.defaultOutputTokens,
    maxOutputTokens: rule.max_output_tokens?.limit ?? base.maxOutputTokens,
    stopStrings: rule.stop ?? base.stopStrings,
    stopTokenIds: rule.stop_token_ids ?? base.stopTokenIds,
    cutStrings: rule.cut ?? base.cutStrings,
    format: {
      reasoning: rule.reasoning ?? base.format.reasoning,
      opensThinking: rule.opens_thinking ?? base.format.opensThinking,
      calls: rule.calls ?? base.format.calls,
    },
    printsCallIds: rule.prints_call_ids ?? base.printsCallIds,
  }
}

/** Names are often paths: a pattern may mean the whole or what stands after the last slash. */
function namesMeant(pattern: string): (model: string) => boolean {
  const source = pattern
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '[\\s\\S]*')
    .replaceAll('?', '[\\s\\S]')
  const whole = new RegExp(`^${source}$`, 'i')
  return (model) => whole.test(model) || whole.test(model.slice(model.lastIndexOf('/') + 1))
}
