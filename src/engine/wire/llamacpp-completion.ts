// llama.cpp's own completion: every sampled id, and probabilities for most of them.
import type { GeneratedChoice, Generation } from './generation.ts'
import type { StreamWriter } from './shape.ts'

export type CompletionWishes = { readonly returnsTokens: boolean; readonly probabilities: number }

/** What `/completion` answers. A prompt is one choice here. */
export function ownCompletion(generation: Generation, asked: CompletionWishes): object {
  const [choice] = generation.choices
  if (choice === undefined) return { content: '', stop: true }
  return {
    index: 0,
    content: choice.text,
    tokens: asked.returnsTokens && choice.showsIds ? choice.tokens.map((token) => token.id) : [],
    id_slot: 0,
    stop: true,
    model: generation.model,
    tokens_predicted: choice.tokens.length,
    ...(generation.showsPromptIds ? { tokens_evaluated: generation.promptIds.length } : {}),
    truncated: false,
    stop_type: stopType(choice),
    stopping_word: typeof choice.matchedStop === 'string' ? choice.matchedStop : '',
    tokens_cached: generation.promptIds.length + choice.tokens.length - 1,
    timings: {
      cache_n: generation.cachedTokens ?? 0,
      prompt_n: generation.promptIds.length - (generation.cachedTokens ?? 0),
      predicted_n: choice.tokens.length,
    },
    ...(asked.probabilities === 0 ? {} : { completion_probabilities: probabilities(choice) }),
  }
}

/** An event for each token, and one with the facts of all and the text of none. */
export function ownCompletionStream(asked: CompletionWishes): StreamWriter {
  return {
    saysDone: false,
    opening: () => [],
    delta(generation, choice, { from, to, text }) {
      const grown = { tokens: choice.tokens.slice(from, to), logprobs: choice.logprobs.slice(from, to) }
      const shown = probabilities({ ...choice, ...grown, alternatives: choice.alternatives.slice(from, to), matchedStop: null })
      return [
        {
          index: 0,
          content: text,
          tokens: asked.returnsTokens && choice.showsIds ? grown.tokens.map((token) => token.id) : [],
          stop: false,
          id_slot: -1,
          tokens_predicted: to,
          ...(generation.showsPromptIds ? { tokens_evaluated: generation.promptIds.length } : {}),
          ...(asked.probabilities === 0 ? {} : { completion_probabilities: shown }),
        },
      ]
    },
    closing: (generation) => [{ ...ownCompletion(generation, { ...asked, probabilities: 0 }), content: '', tokens: [] }],
  }
}

/** An aborted slot says neither: the server knows no such end. */
function stopType({ finish, matchedStop }: GeneratedChoice): string {
  if (finish === 'length') return 'limit'
  if (finish === 'stop') return matchedStop === null ? 'eos' : 'word'
  return 'none'
}

/**
 * One entry per token, but none for a token that ends inside a character; after a stop word the server also drops about as
 * many entries as the word has tokens (server-context.cpp: process_token, send_final_response).
 */
export function probabilities(choice: GeneratedChoice): readonly object[] {
  const entries = choice.tokens.flatMap((token, position) => {
    const logprob = choice.logprobs[position]
    if (!token.endsWhole || logprob === undefined) return []
    const bytes = [...Buffer.from(token.text, 'utf8')]
    const top = (choice.alternatives[position] ?? []).map(({ id, text, logprob: other }) => ({
      id,
      token: text,
      bytes: [...Buffer.from(text, 'utf8')],
      logprob: other,
    }))
    return [{ id: token.id, token: token.text, bytes, logprob, top_logprobs: top }]
  })
  const spelt = choice.tokens.filter(({ textEnd }) => textEnd === choice.text.length).length
  return typeof choice.matchedStop === 'string' ? entries.slice(0, Math.max(0, entries.length - spelt)) : entries
}
