// Reads a conversation back out of a prompt that came as token ids, for rules and generators that look at messages.

import { parseAnswer } from '../serve/answer-text.ts'
import { type ChatMessage, type ChatTool, chatToolSchema } from '../wire/chat-request.ts'
import { type Conversation, conversationOf } from './conversation.ts'
import type { Qwen } from './qwen.ts'

const TURN = /<\|im_start\|>(\w+)\n([\s\S]*?)<\|im_end\|>/g
const TOOLS = /(?:^|\n\n)# Tools\n[\s\S]*?<tools>\n([\s\S]*?)\n<\/tools>[\s\S]*$/
const TOOL_RESPONSE = /<tool_response>\n([\s\S]*?)\n<\/tool_response>/g

/** The inverse of the chat template, as far as a prompt still tells: ids of calls and past reasoning are gone. */
export function readConversation(prompt: string): Conversation {
  const messages: ChatMessage[] = []
  let tools: readonly ChatTool[] = []
  for (const [, role = '', text = ''] of prompt.matchAll(TURN)) {
    const results = role === 'user' ? [...text.matchAll(TOOL_RESPONSE)] : []
    const listed = role === 'system' ? TOOLS.exec(text) : null
    if (listed !== null) tools = readTools(listed[1] ?? '')
    if (results.length > 0) messages.push(...results.map(([, content = '']) => ({ role: 'tool', content })))
    else if (role === 'assistant') messages.push(readAssistant(text))
    else if (listed === null || listed.index > 0) messages.push({ role, content: text.slice(0, listed?.index) })
  }
  return conversationOf(messages, tools)
}

/** The ids at the end of a prompt that are an answer not ended yet: those after the header of its turn, and an empty thought of the template's. */
export function begunAnswer(qwen: Qwen, promptIds: readonly number[]): readonly number[] {
  const header = qwen.encode('<|im_start|>assistant\n')
  const start = promptIds.findLastIndex((id, at) => id === header[0] && header.every((each, offset) => promptIds[at + offset] === each))
  const after = start === -1 ? [] : promptIds.slice(start + header.length)
  if (after.includes(qwen.endTokenId)) return []
  const thought = qwen.encode('<think>\n\n</think>\n\n')
  return thought.every((id, at) => after[at] === id) ? after.slice(thought.length) : after
}

function readAssistant(text: string): ChatMessage {
  const parts = parseAnswer(text, true)
  const content = parts.map((part) => (part.kind === 'content' ? part.text : '')).join('')
  const calls = parts.flatMap((part) =>
    part.kind === 'tool-call' ? [{ type: 'function', function: { name: part.name, arguments: part.arguments } }] : [],
  )
  return { role: 'assistant', content, ...(calls.length === 0 ? {} : { tool_calls: calls }) }
}

function readTools(lines: string): readonly ChatTool[] {
  return lines.split('\n').flatMap((line) => {
    const parsed = chatToolSchema.safeParse(jsonOf(line))
    return parsed.success ? [parsed.data] : []
  })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
