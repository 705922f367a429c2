// Qwen's answer text: how reasoning, content and tool calls are written, and how an engine's parsers read them back.

import { pythonJson, pythonJsonOf } from '../../python-json.ts'
import type { AnswerPart } from '../wire/generation.ts'

export type AnswerContent = {
  readonly reasoning: string
  readonly text: string
  readonly toolCalls: readonly { readonly name: string; readonly arguments: Readonly<Record<string, unknown>> }[]
}

export const THINK_OPEN = '<think>'
export const THINK_CLOSE = '</think>'
export const CALL_OPEN = '<tool_call>'
const CALL_CLOSE = '</tool_call>'

/**
 * The text a model would sample for this answer. It is written as the chat template writes an assistant turn, so that
 * the next prompt repeats it token for token.
 */
export function writeAnswer(answer: AnswerContent): string {
  const thinking = answer.reasoning === '' ? '' : `${THINK_OPEN}\n${answer.reasoning}\n${THINK_CLOSE}\n\n`
  const calls = answer.toolCalls.map(
    (call) => `${CALL_OPEN}\n{"name": "${call.name}", "arguments": ${pythonJsonOf(call.arguments)}}\n${CALL_CLOSE}`,
  )
  const body = answer.text === '' ? calls : [answer.text, ...calls]
  return (thinking + body.join('\n')).normalize('NFC')
}

/**
 * Reads an answer as vLLM's `qwen3` reasoning parser and `hermes` tool parser do: thinking stands first and needs both its
 * tags, and one malformed tool call makes the whole rest plain content. Line breaks around the tags belong to no part; engines differ
 * here, and keeping none is what lets the template give back the sampled text.
 */
export function parseAnswer(text: string, parsesTools: boolean, beginsInThought = false): readonly AnswerPart[] {
  const parts: AnswerPart[] = []
  let rest = 0
  const start = thoughtStart(text, beginsInThought)
  const close = text.indexOf(THINK_CLOSE)
  if (start !== null && close >= start) {
    parts.push(...trimmed('reasoning', text, start, close))
    rest = close + THINK_CLOSE.length
  } else if (beginsInThought && start !== null) {
    return trimmed('reasoning', text, start, text.length)
  }
  const calls = parsesTools ? readCalls(text, rest) : null
  if (calls === null) return [...parts, ...(rest === 0 ? whole(text) : trimmed('content', text, rest, text.length))]
  const contentEnd = text.indexOf(CALL_OPEN, rest)
  return [...parts, ...trimmed('content', text, rest, contentEnd), ...calls]
}

/** Where a thought begins at the text's beginning; null where none does. A template may have opened it, and the model again. */
export function thoughtStart(text: string, beginsInThought: boolean): number | null {
  if (text.trimStart().startsWith(THINK_OPEN)) return text.indexOf(THINK_OPEN) + THINK_OPEN.length
  return beginsInThought ? 0 : null
}

function readCalls(text: string, from: number): readonly AnswerPart[] | null {
  const calls: AnswerPart[] = []
  let at = text.indexOf(CALL_OPEN, from)
  while (at !== -1) {
    const bodyStart = at + CALL_OPEN.length
    const close = text.indexOf(CALL_CLOSE, bodyStart)
    const bodyEnd = close === -1 ? text.length : close
    const call = readCall(text, at, bodyStart, bodyEnd, close === -1 ? text.length : close + CALL_CLOSE.length)
    if (call === null) return null
    calls.push(call)
    at = close === -1 ? -1 : text.indexOf(CALL_OPEN, close)
  }
  return calls.length === 0 ? null : calls
}

function readCall(text: string, start: number, bodyStart: number, bodyEnd: number, end: number): AnswerPart | null {
  const body = text.slice(bodyStart, bodyEnd)
  const parsed = parseJson(body)
  if (typeof parsed !== 'object' || parsed === null || !('name' in parsed) || typeof parsed.name !== 'string') return null
  const raw = 'arguments' in parsed ? JSON.stringify(parsed.arguments) : '{}'
  // The sampled wording is kept where it already is Python's: a reparse would lose 1.0 and big whole numbers.
  const sampled = /"arguments"\s*:\s*([\s\S]*)\}\s*$/.exec(body)?.[1]?.trimEnd()
  const written = sampled === undefined ? null : pythonJson(sampled)
  const args = written ?? pythonJson(raw) ?? '{}'
  const offset = sampled === undefined || sampled !== args ? -1 : body.lastIndexOf(args)
  return {
    kind: 'tool-call',
    start,
    end,
    name: parsed.name,
    arguments: args,
    argumentsStart: offset === -1 ? null : bodyStart + offset,
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function whole(text: string): readonly AnswerPart[] {
  return text === '' ? [] : [{ kind: 'content', start: 0, end: text.length, text }]
}

function trimmed(kind: 'reasoning' | 'content', text: string, from: number, to: number): readonly AnswerPart[] {
  let start = from
  let end = to
  while (start < end && text[start] === '\n') start += 1
  while (end > start && text[end - 1] === '\n') end -= 1
  return start === end ? [] : [{ kind, start, end, text: text.slice(start, end) }]
}
