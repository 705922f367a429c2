// The chunks of a chat completion, put together as the plain completion would have been.
import type { Diagnostic } from '../../contract/call.ts'
import { isObject, type JsonObject } from '../json.ts'
import type { Tell } from '../live/answer-delta.ts'
import type { EngineReply } from './engine.ts'
import type { Fold } from './following.ts'

type GrowingCall = { id: string; name: string; arguments: string | undefined }

/** Only the first choice is read, as of a plain completion. `read` is the reader of those. */
export function openChatFold(tell: Tell, read: (body: JsonObject, diagnostics: readonly Diagnostic[]) => EngineReply): Fold {
  const body: Record<string, unknown> = {}
  const choice: Record<string, unknown> = { finish_reason: null }
  const calls: GrowingCall[] = []
  const positions = new Map<unknown, number>()
  let reasoning = ''
  let content = ''
  const ids: unknown[] = []
  const logprobs: unknown[] = []
  let isBegun = false
  let hasIds = false
  let hasLogprobs = false
  let begun = 0
  let lost = 0
  let chars = 0

  function takeChoice({ delta, token_ids: newIds, logprobs: newLogprobs, ...others }: JsonObject): void {
    isBegun = true
    if (isObject(delta)) takeDelta(delta)
    if (Array.isArray(newIds)) {
      hasIds = true
      ids.push(...newIds)
    }
    if (isObject(newLogprobs) && Array.isArray(newLogprobs.content)) {
      hasLogprobs = true
      logprobs.push(...newLogprobs.content)
    }
    keep(others, choice)
  }

  function takeDelta(delta: JsonObject): void {
    const thought = delta.reasoning_content ?? delta.reasoning
    if (typeof thought === 'string' && thought !== '') {
      reasoning += thought
      if (content === '' && calls.length === 0) tell({ type: 'reasoning', text: thought })
    }
    if (typeof delta.content === 'string' && delta.content !== '') {
      // What follows the last call is lost in plain answers, too; most often it is the line break before the end.
      if (calls.length > 0) lost += delta.content.trim().length
      else {
        content += delta.content
        tell({ type: 'content', text: delta.content })
      }
    }
    if (Array.isArray(delta.tool_calls)) for (const call of delta.tool_calls) if (isObject(call)) takeCall(call)
  }

  function takeCall({ index, id, function: definition }: JsonObject): void {
    const position = positions.get(index) ?? calls.length
    positions.set(index, position)
    const call = calls[position] ?? { id: '', name: '', arguments: undefined }
    calls[position] = call
    if (typeof id === 'string' && call.id === '') call.id = id
    if (!isObject(definition)) return
    if (typeof definition.name === 'string') call.name += definition.name
    const given = definition.arguments
    if (given === undefined || given === null) return
    const text = typeof given === 'string' ? given : JSON.stringify(given)
    call.arguments = (call.arguments ?? '') + text
    // A name may come in pieces, too: it is whole when the arguments begin.
    if (text !== '') tellCall(position, text)
  }

  function tellCall(position: number, text: string): void {
    if (position === begun - 1) tell({ type: 'arguments', text })
    for (const next of calls.slice(begun, position + 1)) {
      tell({ type: 'call', id: next.id, name: next.name, arguments: next.arguments ?? '{}' })
      begun += 1
    }
  }

  return {
    saysDone: true,
    take({ choices, ...fields }, size) {
      chars += size
      keep(fields, body)
      const first: unknown = Array.isArray(choices) ? choices.find((each: unknown) => isObject(each) && (each.index ?? 0) === 0) : undefined
      if (isObject(first)) takeChoice(first)
      return chars
    },
    read() {
      if (!isBegun) return null
      const message = {
        role: 'assistant',
        content: content === '' ? null : content,
        reasoning: reasoning === '' ? null : reasoning,
        tool_calls: calls.map(({ id, ...definition }) => ({ id, type: 'function', function: definition })),
      }
      const whole = { ...choice, message, token_ids: hasIds ? ids : null, logprobs: hasLogprobs ? { content: logprobs } : null }
      const diagnostics = lost === 0 ? [] : [{ code: 'text-after-calls', detail: `${lost} characters` }]
      return read({ ...body, choices: [whole] }, diagnostics)
    },
  }
}

/** Each chunk says again, or leaves out, what an earlier one has said. */
function keep(fields: JsonObject, into: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(fields)) if (value !== null && value !== undefined) into[name] = value
}
