// A conversation as rules and generators look at it.

import { contentText } from '../serve/template-input.ts'
import type { ChatMessage, ChatTool } from '../wire/chat-request.ts'

export type Conversation = {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ChatTool[]
  /** 1 + the number of assistant messages. */
  readonly turn: number
  readonly lastRole: string
  readonly lastText: string
  /** All system and developer messages. */
  readonly systemText: string
  readonly firstUserText: string
}

export function conversationOf(messages: readonly ChatMessage[], tools: readonly ChatTool[]): Conversation {
  const last = messages.at(-1)
  const firstUser = messages.find((message) => message.role === 'user')
  return {
    messages,
    tools,
    turn: 1 + messages.filter((message) => message.role === 'assistant').length,
    lastRole: last?.role ?? '',
    lastText: last === undefined ? '' : contentText(last),
    systemText: messages
      .filter((message) => message.role === 'system' || message.role === 'developer')
      .map(contentText)
      .join('\n'),
    firstUserText: firstUser === undefined ? '' : contentText(firstUser),
  }
}

/** The conversation as it stood when its first answer was asked for, and that answer; null at turn 1. */
export function firstTurn(conversation: Conversation): { readonly before: Conversation; readonly answer: ChatMessage } | null {
  const index = conversation.messages.findIndex((message) => message.role === 'assistant')
  const answer = conversation.messages[index]
  if (answer === undefined) return null
  return { before: conversationOf(conversation.messages.slice(0, index), conversation.tools), answer }
}
