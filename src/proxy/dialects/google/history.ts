// Google's contents → the pivot's messages: one message per model turn, results directly after their calls, the rest in place.
import type { Diagnostic } from '../../../contract/call.ts'
import type { AssistantMessage, ChatMessage, ContentPart, ToolCall } from '../../chat.ts'
import { isObject } from '../../json.ts'
import { note } from '../../notes.ts'
import { assistantMessage } from '../assistant-message.ts'
import { contentOf, textPart } from '../content.ts'
import { refuse } from '../reading.ts'
import { signedCall } from '../signature.ts'
import { type Fields, fieldsOf, listAt, noteOthers, placeOf, textAt, valueAt } from './fields.ts'
import { openPairing, resultMessage } from './pairing.ts'
import { type Part, readPart } from './parts.ts'

type Content = { readonly place: string; readonly role: 'user' | 'model' | 'system'; readonly parts: readonly Part[] }

/** `unpaired`: where a result stands that answers no call. */
type Contents = { readonly messages: readonly ChatMessage[]; readonly unpaired: string | null }

export function readContents(request: Fields, diagnostics: Diagnostic[]): Contents {
  const place = placeOf(request, 'contents')
  const value = valueAt(request, 'contents')
  const given = typeof value === 'string' ? [value] : listAt(request, 'contents')
  if (given.length === 0) refuse(place, 'must hold at least one content')
  const contents = given.map((content, index) => readContent(content, `${place}[${index}]`, diagnostics))
  const pairing = openPairing(diagnostics)
  let calls = 0
  const messages: ChatMessage[] = []
  for (const turn of turnsOf(contents)) {
    if (turn[0]?.role !== 'model') {
      for (const message of readReply(turn, pairing, diagnostics)) messages.push(message)
      continue
    }
    const message = readTurn(turn, calls, diagnostics)
    const asked = message.tool_calls ?? []
    calls += asked.length
    pairing.ask(asked)
    messages.push(message)
  }
  return { messages, unpaired: pairing.unpaired() }
}

/** A system instruction, which may be a text, a content, a part or a list of parts; null when there is none. */
export function readSystemInstruction(request: Fields, diagnostics: Diagnostic[]): ChatMessage | null {
  const instruction = request.members.get('systemInstruction')
  if (instruction === undefined) return null
  const { value, place } = instruction
  const isContent = isObject(value) && (value.parts !== undefined || value.role !== undefined)
  const parts = isContent ? readContent(value, place, diagnostics).parts : partsOf(value, place, diagnostics)
  const content = contentOf(saidIn(parts))
  return content.length === 0 ? null : { role: 'system', content }
}

function partsOf(value: unknown, place: string, diagnostics: Diagnostic[]): readonly Part[] {
  if (Array.isArray(value)) return value.map((part, index) => readPart(part, `${place}[${index}]`, diagnostics))
  return [readPart(value, place, diagnostics)]
}

const CONTENT_FIELDS = new Set(['role', 'parts'])

function readContent(value: unknown, place: string, diagnostics: Diagnostic[]): Content {
  if (typeof value === 'string') return { place, role: 'user', parts: [readPart(value, place, diagnostics)] }
  const fields = fieldsOf(value, place)
  noteOthers(fields, CONTENT_FIELDS, diagnostics)
  const role = readRole(fields)
  const partsPlace = placeOf(fields, 'parts')
  if (role !== 'model' && !fields.members.has('parts')) refuse(partsPlace, 'expected an array, got nothing')
  return { place, role, parts: listAt(fields, 'parts').map((part, index) => readPart(part, `${partsPlace}[${index}]`, diagnostics)) }
}

function readRole(content: Fields): Content['role'] {
  const role = textAt(content, 'role')
  switch (role) {
    case 'model':
    case 'system':
      return role
    // No role is the user's, and results came under roles of their own once.
    case null:
    case '':
    case 'user':
    case 'function':
    case 'tool':
      return 'user'
    default:
      return refuse(placeOf(content, 'role'), `expected user, model or system, got ${JSON.stringify(role)}`)
  }
}

/** Neighbouring model contents are one turn, unless they are known to be answers to two calls; what stands between two turns is one reply. */
function turnsOf(contents: readonly Content[]): readonly (readonly Content[])[] {
  const turns: Content[][] = []
  let origin: string | null = null
  for (const content of contents) {
    const last = turns.at(-1)
    const isModel = content.role === 'model'
    const own = isModel ? originOf(content.parts) : null
    const isSameSide = last !== undefined && (last[0]?.role === 'model') === isModel
    if (isSameSide && (own === null || origin === null || own === origin)) last.push(content)
    else turns.push([content])
    origin = isModel ? (own ?? (isSameSide ? origin : null)) : null
  }
  return turns
}

function originOf(parts: readonly Part[]): string | null {
  return parts.map(({ signature }) => signedCall(signature)).find((call) => call !== null) ?? null
}

/** `before`: how many calls the conversation had, for a call that came back without its id is named by its position. */
function readTurn(turn: readonly Content[], before: number, diagnostics: Diagnostic[]): AssistantMessage {
  const parts = turn.flatMap((content) => content.parts)
  let reasoning = ''
  let content = ''
  const calls: ToolCall[] = []
  for (const part of parts) {
    if (part.result !== null) refuse(part.result.place, 'a functionResponse cannot stand in a model turn')
    if (part.image !== null) refuse(part.place, 'only text, thoughts and function calls can be served in a model turn')
    if (part.signature !== null && signedCall(part.signature) === null) note('signature-unknown', part.place, diagnostics)
    if (part.text !== null && part.text !== '') {
      if (calls.length > 0 || (part.isThought && content !== '')) note('order-approximated', part.place, diagnostics)
      // The pieces of a stream are joined as they were cut: without anything between them.
      if (part.isThought) reasoning += part.text
      else content += part.text
    }
    if (part.call === null) continue
    const { id, name, arguments: args } = part.call
    calls.push({ id: id ?? `call_${before + calls.length}`, type: 'function', function: { name, arguments: args } })
  }
  return assistantMessage({ reasoning, content, calls, origin: originOf(parts) })
}

/** Results first, for templates want them directly after their calls; then what they show and what else was said, in its order. */
function readReply(reply: readonly Content[], pairing: ReturnType<typeof openPairing>, diagnostics: Diagnostic[]): readonly ChatMessage[] {
  let isSaid = false
  for (const part of reply.flatMap((content) => content.parts)) {
    if (part.call !== null) refuse(part.place, 'a functionCall belongs into a model turn')
    if (part.result !== null && isSaid)
      note('order-approximated', `${part.result.place}: moved before what stood in front of it`, diagnostics)
    isSaid ||= part.result === null
  }
  const answered = pairing.answer(reply.flatMap(({ parts }) => parts.flatMap(({ result }) => result ?? [])))
  const images = answered.flatMap((result) => result.images)
  const showing = reply.find(({ parts }) => parts.some(({ result }) => result !== null))
  const said = reply.flatMap((content): readonly ChatMessage[] => {
    if (content.parts.length === 0) note('block-dropped', content.place, diagnostics)
    const own = [...(content === showing ? images : []), ...saidIn(content.parts)]
    return own.length === 0 ? [] : [{ role: content.role === 'system' ? 'system' : 'user', content: contentOf(own) }]
  })
  return [...answered.map(resultMessage), ...said]
}

function saidIn(parts: readonly Part[]): readonly ContentPart[] {
  return parts.flatMap(({ text, image }) => [...(text === null ? [] : [textPart(text)]), ...(image === null ? [] : [image])])
}
