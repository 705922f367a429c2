// SGLang's meta information: logprobs as `[logprob, token id, text]` triples, in the answers of its chat and of its own generation alike.
import { isObject } from '../json.ts'

export type Triples = {
  readonly triples: readonly unknown[] | null
  readonly namedIds: readonly unknown[] | null
  readonly logprobs: readonly unknown[] | null
}

/** All null when the engine sent none. */
export function triplesOf(meta: unknown): Triples {
  const triples: unknown = isObject(meta) ? meta.output_token_logprobs : null
  if (!Array.isArray(triples)) return { triples: null, namedIds: null, logprobs: null }
  const member = (at: 0 | 1) => triples.map((triple: unknown): unknown => (Array.isArray(triple) ? triple[at] : undefined))
  return { triples, namedIds: member(1), logprobs: member(0) }
}
