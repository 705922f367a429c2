import type { Dialect } from '../dialect.ts'
import { openaiChat } from '../openai-chat/dialect.ts'

export const openaiResponses: Dialect = { ...openaiChat, name: 'openai-responses' }
