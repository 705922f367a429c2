// The visible text of a generation as its tokens come: half a character waits for its other half.
import type { Vocabulary } from './model.ts'

export type GrowingText = {
  /** Takes in the next token that leaves text. */
  add(id: number): void
  /** Whole characters only. */
  text(): string
}

const HALF = '\uFFFD'
/** No character has as many bytes: a model that goes on sampling bytes that are no text must not cost more with every token. */
const LONGEST_WAIT = 16

/** `before` is the last token of the prompt: some vocabularies write a word differently where a text begins. */
export function openGrowingText(vocabulary: Vocabulary, before: number | null): GrowingText {
  let settled = ''
  let open: number[] = []
  let openText = ''
  let context = before
  return {
    add(id) {
      open.push(id)
      openText = decodeAfter(vocabulary, context, open)
      if (!openText.endsWith(HALF) || open.length >= LONGEST_WAIT) {
        settled += openText
        context = id
        open = []
        openText = ''
      }
    },
    text: () => (openText === '' ? settled : settled + openText.slice(0, -HALF.length)),
  }
}

function decodeAfter(vocabulary: Vocabulary, context: number | null, ids: readonly number[]): string {
  if (context === null) return vocabulary.decode(ids)
  const [before, whole] = [vocabulary.decode([context]), vocabulary.decode([context, ...ids])]
  return whole.startsWith(before) ? whole.slice(before.length) : vocabulary.decode(ids)
}
