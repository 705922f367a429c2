// A conversation that is too long, in the words of every engine, as the clients of every dialect must know it.
import { describe, expect, it } from 'vitest'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import type { Dialect } from '../../src/proxy/dialects/dialect.ts'
import { google } from '../../src/proxy/dialects/google/dialect.ts'
import { openaiChat } from '../../src/proxy/dialects/openai-chat/dialect.ts'
import { openaiResponses } from '../../src/proxy/dialects/openai-responses/dialect.ts'
import { failure } from '../../src/proxy/failure.ts'

/** As their sources say it. */
const ENGINES = {
  'vLLM before 0.12':
    "This model's maximum context length is 32768 tokens. However, you requested 46000 tokens (45000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.",
  vLLM: "This model's maximum context length is 32768 tokens. However, you requested 1000 output tokens and your prompt contains 45000 input tokens, for a total of 46000 tokens. Please reduce the length of the input prompt or the number of requested output tokens.",
  SGLang: "The input (45000 tokens) is longer than the model's context length (32768 tokens).",
  'SGLang, with a budget':
    "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 46000 tokens: 45000 tokens from the input messages and 1000 tokens for the completion.",
  'llama.cpp': 'request (45000 tokens) exceeds the available context size (32768 tokens), try increasing it',
}
const WORDLESS = 'the conversation is longer than any 32768 tokens'

/** The clients' own tests of a message, from their sources. */
const PI_AND_OPENCODE =
  /prompt is too long|exceeds the context window|input token count.*exceeds the maximum|maximum context length is \d+ tokens/i
const QWEN =
  /\bcontext[_\s-]?length[_\s-]?exceeded\b|\bprompt\s+(?:is\s+)?too long\b|\b(?:input|prompt|messages?|context)\b[^\n]{0,120}\btokens?\b[^\n]{0,120}\bexceed(?:s|ed|ing)?\b/i
const QWEN_COUNTS: readonly RegExp[] = [
  /(?<tokens>\d+)\s*tokens?\s*>\s*(?<maximum>\d+)/i,
  /maximum context length is\s*(?<maximum>\d+)\s*tokens?[\s\S]*?(?:resulted in|requested|used)\s*(?<tokens>\d+)\s*tokens?/i,
  /input\s+token\s+(?:count|length)[^\d]*(?<tokens>\d+)[\s\S]*?exceed(?:s|ed)?[\s\S]*?(?:maximum|limit)[^\d]*(?<maximum>\d+)/i,
]
const CLAUDE = /^prompt is too long: \d+ tokens > \d+ maximum$/

const DIALECTS: readonly Dialect[] = [openaiChat, openaiResponses, anthropic, google]

function told(dialect: Dialect, words: string): { readonly status: number; readonly message: string; readonly body: string } {
  const { status, body } = dialect.failure(failure('context-overflow', words, { param: 'messages' }))
  return { status, body, message: JSON.parse(body).error.message }
}

describe.each(DIALECTS)('too long in $name', (dialect) => {
  it.each(Object.entries(ENGINES))('is known by the clients, with both lengths, from %s', (_, words) => {
    const { status, message, body } = told(dialect, words)
    expect(status).toBe(400)
    expect(message).toMatch(PI_AND_OPENCODE)
    expect(body).toMatch(QWEN)
    const counts = QWEN_COUNTS.map((pattern) => pattern.exec(message)?.groups).find((groups) => groups !== undefined)
    expect({ ...counts }).toEqual({ tokens: '45000', maximum: '32768' })
    if (dialect === anthropic) expect(message).toMatch(CLAUDE)
  })

  it('is known by the clients where nobody has counted', () => {
    const { message, body } = told(dialect, WORDLESS)
    expect(message).toMatch(PI_AND_OPENCODE)
    expect(body).toMatch(QWEN)
    expect(message).toContain(WORDLESS)
  })
})

it('is told by OpenAI’s code, which Codex knows', () => {
  for (const dialect of [openaiChat, openaiResponses]) expect(told(dialect, WORDLESS).body).toContain('"code":"context_length_exceeded"')
})
