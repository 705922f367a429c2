// Whether a sound header describes a model that writes, and one whose shape llama.cpp can take: some numbers would end the process.
import type { GgufHeader, GgufValue } from './llama-file.ts'

/** They read a text, and write none; most say so with a key of their own, too. */
const ENCODERS = new Set(['bert', 'clip', 'jina-bert-v2', 'modern-bert', 'neo-bert', 'nomic-bert', 'nomic-bert-moe', 't5', 't5encoder'])

/** Without these llama.cpp makes tensors of no size, which it takes for a fault of its own. Models with a state instead of attention lack some. */
const NEEDED = ['block_count', 'embedding_length', 'context_length']
const NEEDED_BY_ATTENTION = ['attention.head_count', 'feed_forward_length']
const OPTIONAL = ['attention.head_count_kv', 'attention.key_length', 'attention.value_length']
/** As many as llama.cpp has room for. */
const MOST_LAYERS = 512

/** In the operator's terms; null where nothing keeps it from writing. */
export function whyNoGenerator(header: GgufHeader): string | null {
  const architecture = header.values.get('general.architecture')
  if (typeof architecture !== 'string') return 'does not say which architecture it has'
  if (header.tensors === 0) return 'holds a vocabulary without weights'
  const of = (key: string): GgufValue | undefined => header.values.get(`${architecture}.${key}`)
  if (ENCODERS.has(architecture) || of('attention.causal') === false || of('pooling_type') !== undefined) {
    return `is a model that embeds texts (${architecture}) and writes none`
  }
  const hasState = of('ssm.state_size') !== undefined || of('wkv.head_size') !== undefined
  const needed = hasState ? NEEDED : [...NEEDED, ...NEEDED_BY_ATTENTION]
  const missing = needed.find(
    (key) => of(key) === undefined && !(key === 'feed_forward_length' && of('expert_feed_forward_length') !== undefined),
  )
  if (missing !== undefined) return `is damaged: it does not say its ${architecture}.${missing}`
  const wrong = [...needed, ...(hasState ? [] : OPTIONAL)].find((key) => isBelowOne(of(key)))
  if (wrong !== undefined) return `is damaged: its ${architecture}.${wrong} is not a count`
  if (Number(of('block_count')) > MOST_LAYERS) return `has ${of('block_count')} layers, and llama.cpp takes at most ${MOST_LAYERS}`
  const broken = [...header.values].find(([key, value]) => key.startsWith(`${architecture}.`) && isNoSize(value))
  return broken === undefined ? null : `is damaged: its ${broken[0]} is ${broken[1]}`
}

/** A list has a number for each layer, and some layers may have none of a kind. */
function isBelowOne(value: GgufValue | undefined): boolean {
  if (value === undefined) return false
  return typeof value === 'object' ? value.length === 0 : !(Number(value) >= 1)
}

/** Sizes, bases and smallest differences of a model: none is negative, and all are numbers. */
function isNoSize(value: GgufValue): boolean {
  return typeof value === 'number' && !(value >= 0 && Number.isFinite(value))
}
