// When two assistant messages say the same thing in different spellings, and in what they differ when they do not.
import { createHash } from 'node:crypto'
import type { AnswerMessage, AssistantMessage, ContentPart, ToolCall } from './chat.ts'
import { canonicalText, isObject, type JsonObject, parseJsonText } from './json.ts'

/** Equal for all spellings of one answer: ids and reasoning do not count, nor how text and arguments are written. Different answers may share one. */
export function fingerprint(message: AssistantMessage): string {
  const calls = (message.tool_calls ?? []).map((call) => [call.function.name, canonicalText(argumentsObject(call))])
  return createHash('sha256')
    .update(JSON.stringify([visibleText(message.content), calls]))
    .digest('base64')
}

/** Whether a call of the answer came back as this one. */
type SameCall = (given: ToolCall, returned: ToolCall) => boolean

/** True when a client that was told `answer` may have returned it as `returned` without changing anything. */
export function isSpellingOf(returned: AssistantMessage, answer: AnswerMessage, isSame: SameCall): boolean {
  if (visibleText(returned.content) !== visibleText(answer.content)) return false
  if (!haveSameCalls(returned, answer, isSame)) return false
  // Clients drop reasoning, or show only a part of what its signature stands for; other reasoning is their own.
  if (returned.origin !== undefined || returned.reasoning_content === undefined) return true
  return isSameReasoning(answer.reasoning_content, returned.reasoning_content)
}

function haveSameCalls(returned: AssistantMessage, answer: AnswerMessage, isSame: SameCall): boolean {
  const [kept, given] = [returned.tool_calls ?? [], answer.tool_calls ?? []]
  if (kept.length !== given.length) return false
  return given.every((call, index) => {
    const other = kept[index]
    return other !== undefined && isSame(call, other)
  })
}

/** Clients trim it, and some that were told it in pieces return the last piece alone. */
function isSameReasoning(given: string | undefined, returned: string): boolean {
  return given?.trim().endsWith(returned.trim()) === true
}

/** Equal for argument texts that mean the same value to a client that parsed and printed them. */
export function isSameCall(given: ToolCall, returned: ToolCall): boolean {
  if (given.function.name !== returned.function.name) return false
  if (given.function.arguments === returned.function.arguments) return true
  return canonicalText(argumentsValue(given)) === canonicalText(argumentsValue(returned))
}

/** What of an answer the client changed, for people: the builder's drift classes say what that did to the tokens. */
export function difference(returned: AssistantMessage, answer: AnswerMessage, isSame: SameCall): string {
  const found: string[] = []
  const [was, is] = [visibleText(answer.content), visibleText(returned.content)]
  if (was !== is) found.push(was.trim() === is.trim() ? 'white space of the text' : 'text')
  const [given, kept] = [answer.tool_calls ?? [], returned.tool_calls ?? []]
  if (given.length !== kept.length) found.push(`${given.length} tool calls became ${kept.length}`)
  else if (given.some((call, index) => call.function.name !== kept[index]?.function.name)) found.push('tool name')
  else if (!haveSameCalls(returned, answer, isSame)) found.push('tool arguments')
  if (returned.reasoning_content !== undefined && !isSameReasoning(answer.reasoning_content ?? '', returned.reasoning_content)) {
    found.push('reasoning')
  }
  return found.join(', ')
}

/** The same for null, an empty text, one of nothing but white space (Claude Code drops it beside a call), and a text in parts. */
function visibleText(content: string | readonly ContentPart[] | null): string {
  const text = wholeText(content)
  return text.trim() === '' ? '' : text
}

function wholeText(content: string | readonly ContentPart[] | null): string {
  if (content === null) return ''
  if (typeof content === 'string') return content
  return content.every((part) => part.type === 'text') ? content.map((part) => part.text).join('') : canonicalText(content)
}

/** What the argument text says to a client that parses it: nothing is an empty object, and what is no JSON is the text itself. */
export function argumentsValue({ function: { arguments: text } }: ToolCall): unknown {
  if (text.trim() === '') return {}
  const parsed = parseJsonText(text)
  return parsed.ok ? parsed.value : text
}

/** For most clients what is no object is an empty one. */
function argumentsObject(call: ToolCall): JsonObject {
  const value = argumentsValue(call)
  return isObject(value) ? value : {}
}
