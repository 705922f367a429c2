import type { Dialect } from '../dialect.ts'
import { openaiChat } from '../openai-chat/dialect.ts'

export const anthropic: Dialect = { ...openaiChat, name: 'anthropic' }
