// The grammars of all dialects, by name.
import type { DialectName } from '../../../src/contract/call.ts'
import { anthropicGrammar } from './anthropic.ts'
import { googleGrammar } from './google.ts'
import type { Grammar } from './grammar.ts'
import { chatGrammar } from './openai-chat.ts'
import { responsesGrammar } from './openai-responses.ts'

export const GRAMMARS: { readonly [name in DialectName]: Grammar } = {
  'openai-chat': chatGrammar,
  'openai-responses': responsesGrammar,
  anthropic: anthropicGrammar,
  google: googleGrammar,
}

// Object.keys forgets which keys an object has.
export const DIALECTS = Object.keys(GRAMMARS) as readonly DialectName[]
