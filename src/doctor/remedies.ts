// What would mend each kind of drift: a setting of the CLI, an option of the node or the builder, or the engine's chat template.
import type { EngineKind } from '../contract/call.ts'
import type { DriftClass } from '../trajectory/drift.ts'

/** The embedded engine has vLLM's wire, but options of its own. */
export type ServerKind = EngineKind | 'embedded'

export type Remedy = {
  /** `agent.settings` or `builder.config` of a task, `polar_node` of polar.yaml, the inference server, or the agent program itself. */
  readonly where: 'agent.settings' | 'polar.yaml' | 'builder.config' | 'engine' | 'agent'
  /** Dotted name of the setting, an option of the server, or null. `*` stands for the model's name. */
  readonly key: string | null
  readonly says: string
}

/** What is known of a break when a remedy is looked for. */
export type Ailment = {
  readonly class: DriftClass
  readonly reason: string
  readonly harness: string
  readonly engine: ServerKind
  /** The text of the tokens that were sampled or prompted and did not come back; null when nobody could read them. */
  readonly lostText: string | null
}

type Prescription = {
  /** Only for this harness; for every one without it. */
  readonly harness?: string
  readonly when?: (ailment: Ailment) => boolean
  readonly remedy: (ailment: Ailment) => Remedy
}

export const DRIFT_NAMES: { readonly [driftClass in DriftClass]: string } = {
  D1: 'retokenised',
  D2: 'reasoning left out',
  D4: 'turn edited',
  D5: 'white space changed',
  D7: 'cut by its token limit',
  D8: 'system prompt changed',
  D9: 'history compacted',
  D11: 'tool list changed',
  D12: 'sent again',
  D17: 'generation prompt not repeated',
  unclassified: 'not classified',
}

/** Of the server's command line; the embedded engine's template stands in the model's file. */
const TEMPLATE_OPTIONS: { readonly [kind in ServerKind]: string } = {
  vllm: '--chat-template',
  sglang: '--chat-template',
  'sglang-native': '--chat-template',
  llamacpp: '--chat-template-file',
  embedded: 'tokenizer.chat_template',
}

const CONTEXT_OPTIONS: { readonly [kind in EngineKind]: string } = {
  vllm: '--max-model-len',
  sglang: '--context-length',
  'sglang-native': '--context-length',
  llamacpp: '--ctx-size',
}

const setting = (harness: string, key: string, says: string): Prescription => ({
  harness,
  remedy: () => ({ where: 'agent.settings', key, says }),
})
const nodeOption = (key: string, says: string): Prescription => ({ remedy: () => ({ where: 'polar.yaml', key, says }) })
const template = (says: string): Prescription => ({
  remedy: ({ engine }) => ({ where: 'engine', key: TEMPLATE_OPTIONS[engine], says }),
})
const context = (says: string): Prescription => ({
  remedy: ({ engine }) =>
    engine === 'embedded'
      ? { where: 'polar.yaml', key: 'embedded.max_model_len', says }
      : { where: 'engine', key: CONTEXT_OPTIONS[engine], says },
})
const program = (says: string): Prescription => ({ harness: 'shell', remedy: () => ({ where: 'agent', key: null, says }) })
const only = (when: (ailment: Ailment) => boolean, { when: _, ...prescription }: Prescription): Prescription => ({ ...prescription, when })

/** A turn whose thoughts are empty: `<think>`, white space, `</think>`. */
const isEmptyThought = ({ lostText }: Ailment): boolean => lostText !== null && /^\s*<think>\s*<\/think>/.test(lostText)
const isTemplates = ({ reason }: Ailment): boolean => reason.includes('chat template')
const isHistorys = (ailment: Ailment): boolean => !isTemplates(ailment)

/** It bridges a turn that came back otherwise, never a prompt that begins otherwise. */
const SPLICE: Prescription = {
  remedy: () => ({
    where: 'builder.config',
    key: 'splice',
    says: 'true keeps the turn as it was sampled in one row with what follows; that context was never the engine’s, and its share is reported as unreported_context_share',
  }),
}
const AS_ANSWERED = program(
  'send each assistant message back as it was answered: text, reasoning_content and tool arguments, letter by letter',
)

const PRESCRIPTIONS: { readonly [driftClass in DriftClass]: readonly Prescription[] } = {
  D1: [SPLICE],
  D2: [
    only(
      (ailment) => isTemplates(ailment) && isEmptyThought(ailment),
      template('a template that writes an empty <think> block of an earlier turn too'),
    ),
    only(
      (ailment) => isTemplates(ailment) && !isEmptyThought(ailment),
      template('a template that writes the reasoning of every earlier turn as it was sampled'),
    ),
    only(
      (ailment) => isTemplates(ailment) && !isEmptyThought(ailment),
      setting(
        'codex',
        'multi_agent',
        'false, if sub-agents were used: the notice that one has ended is a user message, behind which templates such as Qwen3’s drop earlier reasoning',
      ),
    ),
    only(isHistorys, AS_ANSWERED),
    SPLICE,
  ],
  D4: [AS_ANSWERED, SPLICE],
  D5: [AS_ANSWERED, SPLICE],
  D7: [
    setting('pi', 'max_tokens', 'more tokens for one answer (8192 unless it is set)'),
    setting('claude_code', 'max_tokens', 'more tokens for one answer (32000 for a model that Claude Code does not know)'),
    nodeOption(
      'models.*.max_output_tokens',
      '`default` for a CLI that asks for no limit; a `limit` that is too low cuts what a CLI asks for',
    ),
    context('a longer context, if it was the context that was full'),
  ],
  D8: [
    setting('pi', 'system_prompt', 'a text of your own instead of Pi’s'),
    setting('claude_code', 'system_prompt', 'a text of your own instead of Claude Code’s'),
    setting('claude_code', 'bare', 'true gives a short prompt and three tools; no hooks, plugins, CLAUDE.md'),
    program('keep what changes (dates, ids, counters) out of the system prompt'),
  ],
  D9: [
    setting('pi', 'context_window', 'Pi compacts as this is reached: as many tokens as the engine takes'),
    setting('claude_code', 'auto_compact_window', 'Claude Code compacts when this many tokens are in use'),
    setting('codex', 'auto_compact_token_limit', 'Codex compacts when this many tokens are in use'),
    setting('codex', 'context_window', 'as many tokens as the engine takes'),
    program('do not replace the history by a shorter one while the engine’s context has room'),
    context('a longer context, if it is the engine’s that is short'),
  ],
  D11: [
    setting('claude_code', 'experimental_betas', 'false: with them tools are found by searching, and join the list later'),
    setting(
      'codex',
      'model_catalog',
      'left out, or no MCP servers beside it: with both, tools are found by searching, and join the list later',
    ),
    program('offer every tool from the first call on'),
  ],
  D12: [
    setting('codex', 'stream_idle_timeout_ms', 'more patience before Codex asks again'),
    setting('codex', 'stream_max_retries', '0 makes the first failure the last'),
    setting('claude_code', 'max_retries', '0 makes the first failure the last'),
    program('wait longer for an answer before asking again'),
    nodeOption('stream.linger_seconds', 'how long an answer waits for a client that left and asks again; that one is no second answer'),
  ],
  D17: [
    only(
      isEmptyThought,
      setting('claude_code', 'thinking', 'true: Claude Code then asks for thinking, and no empty <think> block stands in the prompt'),
    ),
    only(
      isEmptyThought,
      setting(
        'codex',
        'reasoning_effort',
        'an effort, not none: Codex then asks for thinking, and no empty <think> block stands in the prompt',
      ),
    ),
    only(
      isEmptyThought,
      nodeOption('models.*.thinking', 'true, unless the CLI itself turns thinking off: then prompts end without the empty <think> block'),
    ),
    template('a template that writes what its generation prompt ends in before every earlier turn too'),
  ],
  unclassified: [],
}

/** In the order in which one would try them; none for a break whose cause is not known. */
export function remediesFor(ailment: Ailment): readonly Remedy[] {
  return PRESCRIPTIONS[ailment.class]
    .filter(({ harness, when }) => (harness ?? ailment.harness) === ailment.harness && (when === undefined || when(ailment)))
    .map(({ remedy }) => remedy(ailment))
}
