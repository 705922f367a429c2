// A model that samples, as the engine's HTTP side sees it: text to ids, ids to text, and generations token by token.

/** How the next token is drawn. `topK` 0 and `topP` 1 keep every candidate. */
export type Sampling = {
  /** 0 takes the most probable token. */
  readonly temperature: number
  readonly topK: number
  readonly topP: number
  readonly minP: number
  /** The same prompt, weights, sampling and seed give the same tokens. */
  readonly seed: number
}

export type GenerationOrder = {
  /** At least one id; those the caller means are those that are read. */
  readonly promptIds: readonly number[]
  readonly sampling: Sampling
  /** `raw`: the model's own distribution, before temperature and truncation; `processed`: the one that was drawn from. */
  readonly logprobMode: 'raw' | 'processed'
  /** The most probable alternatives at each position, the drawn token not added to them; 0 for none. */
  readonly alternatives: number
}

export type GenerationEvent =
  /** The prompt has been read, `cachedTokens` of it from a state that was still there. */
  | { readonly type: 'started'; readonly cachedTokens: number }
  | {
      readonly type: 'drawn'
      readonly id: number
      /** Natural logarithm, finite and at most 0. */
      readonly logprob: number
      readonly alternatives: readonly { readonly id: number; readonly logprob: number }[]
    }

export type Vocabulary = {
  /** Ids of a text; special tokens written out in it become single ids. Nothing is added. */
  encode(text: string): readonly number[]
  /** Special tokens are written out. Bytes that are no whole character become U+FFFD. */
  decode(ids: readonly number[]): string
  /** A control token: it is never a part of what is said. */
  isSpecial(id: number): boolean
  /** A token that ends a generation, of which a model may have several. */
  isEnd(id: number): boolean
  /** The end-of-turn token. */
  readonly endTokenId: number
  /** The token that stands before a text where a template writes it; null for a model without one. */
  readonly startTokenId: number | null
  /** It also stands before a text that no template has written. */
  readonly startsEveryText: boolean
  /** Ids are less than this. */
  readonly size: number
}

export type ModelFacts = {
  /** As the file names itself; the file's name where it does not. */
  readonly name: string
  readonly parameters: number
  /** Tokens of prompt and answer together that one generation may have. */
  readonly contextTokens: number
  /** How many generations go on at once. */
  readonly sequences: number
  /** Jinja; null for a model that brings none. */
  readonly chatTemplate: string | null
}

/** One set of loaded weights. Several generations share each step of the transformer (continuous batching). */
export type LoadedModel = {
  readonly facts: ModelFacts
  readonly vocabulary: Vocabulary
  /**
   * Draws until the caller stops asking: an end token ends nothing by itself. A caller that pauses holds its place, one that returns or
   * whose signal is aborted gives it back; the state it leaves is kept for prompts that begin alike. Throws when more than
   * `facts.sequences` go on at once, when the context is full, and the signal's reason once it is aborted, also while a prompt is read.
   */
  generate(order: GenerationOrder, signal: AbortSignal): AsyncGenerator<GenerationEvent, void, void>
  /** Tokens whose state is held by generations that go on; of `sequences` times `contextTokens`. */
  usedTokens(): number
  /** Ends every generation that goes on. Idempotent. */
  close(): Promise<void>
}

export type ModelFile = {
  readonly path: string
  /** Null: as many as the model was trained for, or as memory allows. */
  readonly contextTokens: number | null
  readonly sequences: number
  readonly threads: number
}

/** `error` says what is wrong with the file in the operator's terms: it is missing, is no GGUF, has another architecture, does not fit. */
export type LoadResult = { readonly ok: true; readonly model: LoadedModel } | { readonly ok: false; readonly error: string }
