// Google's function declarations and tool config → the pivot's tools and tool choice; hosted tools are dropped with a note.
import type { Diagnostic } from '../../../contract/call.ts'
import type { Tool } from '../../chat.ts'
import type { JsonObject } from '../../json.ts'
import { note } from '../../notes.ts'
import { functionTool } from '../function-tool.ts'
import { isAbsent, object, refuse, refuseInTraining, text } from '../reading.ts'
import { type Fields, fieldsOf, listAt, noteOthers, objectAt, placeOf, textAt, valueAt } from './fields.ts'
import { jsonSchema } from './schema.ts'

const DECLARATION_FIELDS = new Set(['name', 'description', 'parameters', 'parametersJsonSchema'])

/** Null when nothing is left that an engine can be offered. */
export function readTools(request: Fields, diagnostics: Diagnostic[]): readonly Tool[] | null {
  const tools: Tool[] = []
  for (const [index, entry] of listAt(request, 'tools').entries()) {
    const fields = fieldsOf(entry, `${placeOf(request, 'tools')}[${index}]`)
    for (const [name, { place }] of fields.members) {
      if (name !== 'functionDeclarations') note('tool-dropped', `${place.slice(0, 128)}: no engine here runs it`, diagnostics)
    }
    for (const [position, declaration] of listAt(fields, 'functionDeclarations').entries()) {
      const declared = fieldsOf(declaration, `${placeOf(fields, 'functionDeclarations')}[${position}]`)
      noteOthers(declared, DECLARATION_FIELDS, diagnostics)
      tools.push(readDeclaration(declared))
    }
  }
  return tools.length === 0 ? null : tools
}

function readDeclaration(declared: Fields): Tool {
  const field = declared.members.has('parametersJsonSchema') ? 'parametersJsonSchema' : 'parameters'
  const given = valueAt(declared, field)
  const schema = isAbsent(given) ? {} : jsonSchema(object(given, placeOf(declared, field)))
  const isEmpty = Object.keys(schema).length === 0
  const name = text(valueAt(declared, 'name'), placeOf(declared, 'name'))
  return functionTool(name, textAt(declared, 'description'), isEmpty ? { type: 'object', properties: {} } : schema)
}

/** The engine's `tool_choice`; nothing when the model may choose freely or has no tools. */
export function readToolChoice(
  request: Fields,
  tools: readonly Tool[] | null,
  tier: 'train' | 'eval',
  diagnostics: Diagnostic[],
): JsonObject {
  const toolConfig = objectAt(request, 'toolConfig')
  const calling = toolConfig === null ? null : objectAt(toolConfig, 'functionCallingConfig')
  if (calling === null) return {}
  const mode = (textAt(calling, 'mode') ?? 'MODE_UNSPECIFIED').toUpperCase()
  const place = placeOf(calling, 'allowedFunctionNames')
  const allowed = listAt(calling, 'allowedFunctionNames').map((name, index) => text(name, `${place}[${index}]`))
  const served = new Set(tools?.map((tool) => tool.function.name))
  const missing = allowed.find((name) => !served.has(name))
  if (missing !== undefined)
    refuse(place, `names ${JSON.stringify(missing.slice(0, 128))}, which is not among the functions that can be served`)
  switch (mode) {
    case 'AUTO':
    case 'MODE_UNSPECIFIED':
    // Arguments that fit their schema, when there is a call at all: what a grammar would force, a model is asked for.
    case 'VALIDATED':
      if (allowed.length > 0) note('field-dropped', place, diagnostics)
      return {}
    case 'NONE':
      return tools === null ? {} : { tool_choice: 'none' }
    case 'ANY': {
      if (tools === null) return {}
      refuseInTraining(placeOf(calling, 'mode'), tier)
      const [only] = allowed
      if (only !== undefined && allowed.length === 1) return { tool_choice: { type: 'function', function: { name: only } } }
      if (allowed.length > 0 && allowed.length < tools.length) note('field-dropped', place, diagnostics)
      return { tool_choice: 'required' }
    }
    default:
      return refuse(placeOf(calling, 'mode'), `expected AUTO, ANY, VALIDATED or NONE, got ${JSON.stringify(mode.slice(0, 64))}`)
  }
}
