// A stated guess at the length of a prompt, for servers without a tokenizer route.
import type { Countable } from './chat.ts'

/** Of English and code alike; a guess that is too high makes a client compact too soon, one too low never. */
const BYTES_PER_TOKEN = 3.5
/** What a chat template adds around each message. */
const TOKENS_PER_MESSAGE = 5

export function estimateTokens(countable: Countable): number {
  if (countable.kind === 'text') return tokensIn(countable.text)
  const { messages, tools } = countable.request
  const spoken = messages.reduce((sum, message) => sum + TOKENS_PER_MESSAGE + tokensIn(JSON.stringify(message)), 0)
  return spoken + (tools === null ? 0 : tokensIn(JSON.stringify(tools)))
}

function tokensIn(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN)
}
