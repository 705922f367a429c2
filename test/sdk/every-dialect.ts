// The same promise kept by every dialect: one describe block per driver, each with its own history type.
import { describe } from 'vitest'
import { chat } from './drivers/chat.ts'
import type { Driver } from './drivers/driver.ts'
import { google } from './drivers/google.ts'
import { messages } from './drivers/messages.ts'
import { responses } from './drivers/responses.ts'

export function describeEveryDialect(tests: <History>(driver: Driver<History>) => void): void {
  describe(chat.dialect, () => tests(chat))
  describe(responses.dialect, () => tests(responses))
  describe(messages.dialect, () => tests(messages))
  describe(google.dialect, () => tests(google))
}
