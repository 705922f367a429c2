import type { Dialect } from '../dialect.ts'
import { openaiChat } from '../openai-chat/dialect.ts'

export const google: Dialect = { ...openaiChat, name: 'google' }
