// One model call of a session: everything about it that is not a token. Token ids and logprobs live in slabs (src/tokens).
import type { CallId, ReplicaId, SessionId } from './ids.ts'

export type DialectName = 'openai-chat' | 'openai-responses' | 'anthropic' | 'google'

/** Polar's names of the same, in every `api_type`. */
export const API_TYPES: { readonly [D in DialectName]: string } = {
  'openai-chat': 'openai_chat',
  'openai-responses': 'openai_responses',
  anthropic: 'anthropic',
  google: 'google',
}

/** `sglang-native` is SGLang's own `/generate`; `sglang` its chat completions. */
export type EngineKind = 'vllm' | 'sglang' | 'sglang-native' | 'llamacpp'

/** `abort` is a failed call, never an answer; `unknown` covers reasons an engine invents. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'abort' | 'unknown'

/** What the client's socket is known to have taken of the answer. */
export type Delivery = 'yes' | 'partial' | 'no'

/** `ok`: answered; `failed`: an error was answered; `aborted`: the engine gave up; `cancelled`: the client or the session ended. */
export type CallStatus = 'ok' | 'failed' | 'aborted' | 'cancelled'

/** Why a call's tokens cannot be trained although the agent got its answer. */
export type CaptureError = {
  readonly code:
    | 'ids-missing'
    | 'lengths-differ'
    | 'logprobs-missing'
    | 'logprob-not-finite'
    | 'prompt-empty'
    | 'sampled-empty'
    | 'arena-full'
  /** The engine's field and the numbers that disagree, for people. */
  readonly detail: string
}

export type Diagnostic = { readonly code: string; readonly detail: string }

/** Sampling parameters as they were sent to the engine. */
export type Sampling = {
  readonly temperature: number | null
  readonly topP: number | null
  readonly topK: number | null
  readonly seed: number | null
  readonly maxTokens: number | null
}

export type Usage = {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Part of the prompt tokens; null when the engine does not say. */
  readonly cachedTokens: number | null
  /** Part of the completion tokens; null when the engine does not say. */
  readonly reasoningTokens: number | null
}

/** Sampled tokens from `start` up to but not including `end`, and the weights that drew them; null: not known. */
export type WeightSpan = { readonly start: number; readonly end: number; readonly version: string | null }

/** What a session asked for and what it was answered from. */
export type ModelUse = { readonly requested: string; readonly used: string; readonly dialect: DialectName }

/** Whose call it is among the agents of its session, in the client's own words. One that lies mislabels nothing but its own session. */
export type Lineage = {
  /** All calls of one agent have the same name, and those of no other. */
  readonly agent: string
  /** Who spawned it; null for an agent that the session began with. */
  readonly parent: string | null
  /** `compaction`: asks for the summary that will stand for the history. Null where the client does not say. */
  readonly purpose: 'turn' | 'compaction' | null
}

export type CallRecord = {
  readonly id: CallId
  readonly session: SessionId
  readonly attempt: number
  /** Rises by one with every call a session opens, in the order of arrival. */
  readonly sequence: number
  readonly dialect: DialectName
  /** Null where the client does not tell its agents apart. */
  readonly lineage: Lineage | null
  readonly modelRequested: string
  readonly modelServed: string
  readonly engine: EngineKind
  readonly replica: ReplicaId | null
  readonly streamed: boolean
  readonly status: CallStatus
  readonly httpStatus: number
  readonly finishReason: FinishReason | null
  readonly delivery: Delivery
  /** SHA-256 of what the model is to see, and of who asks: equal digests in one session are retries of one turn. */
  readonly digest: string
  readonly retryOf: CallId | null
  /** Indexes into the session's message pool: the prompt in order, then the answer's one message. */
  readonly promptMessages: readonly number[]
  readonly responseMessage: number | null
  /** Index into the message pool of the JSON text of the tool list; null without tools. */
  readonly tools: number | null
  readonly toolCount: number
  readonly maxTokensRequested: number | null
  readonly sampling: Sampling
  /** Index into the message pool of the JSON text of every parameter that was sent: stops, thinking and penalties beside the sampling. */
  readonly parameters: number
  /** `raw`: before temperature (vLLM's default); `processed`: as sampled (SGLang's default). */
  readonly logprobMode: 'raw' | 'processed' | 'unknown'
  /** Of the weights that sampled all of it; null where it is not known, or where they were several: `weightSpans` tells. */
  readonly weightVersion: string | null
  /** Every sampled token is in one of them, in order; neighbours differ. */
  readonly weightSpans: readonly WeightSpan[]
  readonly usage: Usage | null
  readonly captureError: CaptureError | null
  readonly diagnostics: readonly Diagnostic[]
  /** Wall clock, for people. */
  readonly startedAtMs: number
  /** Monotonic, from request read to answer ready. */
  readonly durationMs: number
  /** Error text as it was told to the client, for failed calls. */
  readonly error: string | null
}
