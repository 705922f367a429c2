// What one part of a content holds, in the pivot's terms; what can neither be carried over nor left out is refused by its place.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ContentPart } from '../../chat.ts'
import { isObject } from '../../json.ts'
import { note } from '../../notes.ts'
import { isAbsent, refuse, text } from '../reading.ts'
import { booleanAt, type Fields, fieldsOf, listAt, noteOthers, objectAt, placeOf, textAt, valueAt } from './fields.ts'
import { readMedia } from './media.ts'

export type Part = {
  readonly place: string
  readonly text: string | null
  readonly isThought: boolean
  readonly signature: string | null
  readonly image: ContentPart | null
  readonly call: Call | null
  readonly result: Result | null
}

/** A call as the client returns it; null where it lost the id. */
type Call = { readonly id: string | null; readonly name: string; readonly arguments: string }

export type Result = {
  readonly place: string
  readonly id: string | null
  /** Null for a client that names the call by its id alone. */
  readonly name: string | null
  /** The JSON text of `response`, whatever its keys: one rule, so that a result reads the same in every later turn. */
  readonly text: string
  readonly images: readonly ContentPart[]
}

const KNOWN = new Set(['text', 'thought', 'thoughtSignature', 'inlineData', 'fileData', 'functionCall', 'functionResponse'])
/** Notes of the client to itself. */
const SILENT = new Set([...KNOWN, 'partMetadata'])
/** What Google's own servers did between two parts: nothing of it happens here. */
const HOSTED = ['executableCode', 'codeExecutionResult', 'toolCall', 'toolResponse']

export function readPart(value: unknown, place: string, diagnostics: Diagnostic[]): Part {
  if (typeof value === 'string') return { ...NOTHING, place, text: value }
  const fields = fieldsOf(value, place)
  for (const name of HOSTED) if (fields.members.has(name)) note('block-dropped', placeOf(fields, name), diagnostics)
  noteOthers(fields, new Set([...SILENT, ...HOSTED]), diagnostics)
  const call = objectAt(fields, 'functionCall')
  const result = objectAt(fields, 'functionResponse')
  return {
    place,
    text: textAt(fields, 'text'),
    isThought: booleanAt(fields, 'thought') ?? false,
    signature: textAt(fields, 'thoughtSignature'),
    image: readMedia(fields),
    call: call === null ? null : readCall(call, diagnostics),
    result: result === null ? null : readResult(result, diagnostics),
  }
}

const NOTHING: Omit<Part, 'place'> = { text: null, isThought: false, signature: null, image: null, call: null, result: null }

const CALL_FIELDS = new Set(['id', 'name', 'args'])

function readCall(call: Fields, diagnostics: Diagnostic[]): Call {
  noteOthers(call, CALL_FIELDS, diagnostics)
  const args = valueAt(call, 'args')
  if (!isAbsent(args) && !isObject(args)) refuse(placeOf(call, 'args'), 'expected an object')
  return {
    id: idOf(call),
    name: text(valueAt(call, 'name'), placeOf(call, 'name')),
    arguments: JSON.stringify(args ?? {}),
  }
}

/** When and how a result is given to a model that goes on meanwhile, which none here does. */
const RESULT_FIELDS = new Set(['id', 'name', 'response', 'parts', 'scheduling', 'willContinue'])

function readResult(result: Fields, diagnostics: Diagnostic[]): Result {
  noteOthers(result, RESULT_FIELDS, diagnostics)
  const id = idOf(result)
  const name = textAt(result, 'name') || null
  if (id === null && name === null) refuse(placeOf(result, 'name'), 'expected a string, got nothing')
  const images = listAt(result, 'parts').map((part, index) => {
    const fields = fieldsOf(part, `${placeOf(result, 'parts')}[${index}]`)
    return readMedia(fields) ?? refuse(fields.place, 'expected inlineData or fileData')
  })
  return { place: result.place, id, name, text: JSON.stringify(valueAt(result, 'response') ?? {}), images }
}

function idOf(fields: Fields): string | null {
  return textAt(fields, 'id') || null
}
