// Google's function declarations and tool config → the pivot's tools and tool choice; hosted tools are dropped with a note.
import type { Diagnostic } from '../../../contract/call.ts'
import type { Tool } from '../../chat.ts'
import type { JsonObject } from '../../json.ts'
import { note } from '../../notes.ts'
import { functionTool } from '../function-tool.ts'
import { isAbsent, object, refuse, refuseInTraining, text } from '../reading.ts'
import { type Fields, fieldsOf, listAt, NO_FIELDS, noteOthers, objectAt, placeOf, textAt, valueAt } from './fields.ts'
import { jsonSchema } from './schema.ts'

const DECLARATION_FIELDS = new Set(['name', 'description', 'parameters', 'parametersJsonSchema'])

/** Null when nothing is left that an engine can be offered. */
export function readTools(request: Fields, diagnostics: Diagnostic[]): readonly Tool[] | null {
  const tools: Tool[] = []
  for (const [index, entry] of listAt(request, 'tools').entries()) {
    const fields = fieldsOf(entry, `${placeOf(request, 'tools')}[${index}]`)
    for (const [name, { place }] of fields.members) {
      if (name !== 'functionDeclarations') note('tool-dropped', `${place}: no engine here runs it`, diagnostics)
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

const CONFIG_FIELDS = new Set(['functionCallingConfig'])
const CALLING_FIELDS = new Set(['mode', 'allowedFunctionNames'])

export type Choice = {
  /** Those the model may call; null rather than empty. */
  readonly tools: readonly Tool[] | null
  /** The engine's `tool_choice`; nothing when the model may choose freely or has no tools. */
  readonly parameters: JsonObject
}

export function readToolChoice(request: Fields, tools: readonly Tool[] | null, tier: 'train' | 'eval', diagnostics: Diagnostic[]): Choice {
  const config = objectAt(request, 'toolConfig') ?? NO_FIELDS
  noteOthers(config, CONFIG_FIELDS, diagnostics)
  const calling = objectAt(config, 'functionCallingConfig') ?? NO_FIELDS
  noteOthers(calling, CALLING_FIELDS, diagnostics)
  const mode = (textAt(calling, 'mode') ?? 'MODE_UNSPECIFIED').toUpperCase()
  const allowed = readAllowed(calling, tools)
  // An engine cannot be told to leave a tool alone, so it is shown the allowed ones only.
  const shown = tools === null || allowed.size === 0 ? tools : tools.filter((tool) => allowed.has(tool.function.name))
  switch (mode) {
    case 'AUTO':
    case 'MODE_UNSPECIFIED':
      if (allowed.size > 0) note('field-dropped', placeOf(calling, 'allowedFunctionNames'), diagnostics)
      return { tools, parameters: {} }
    // Arguments that fit their schema, when there is a call at all: what a grammar would force, a model is asked for.
    case 'VALIDATED':
      return { tools: shown, parameters: {} }
    case 'NONE':
      return { tools, parameters: tools === null ? {} : { tool_choice: 'none' } }
    case 'ANY': {
      if (tools === null) return { tools, parameters: {} }
      refuseInTraining(placeOf(calling, 'mode'), tier)
      const [only, ...others] = allowed
      const isNamed = only !== undefined && others.length === 0
      return isNamed
        ? { tools, parameters: { tool_choice: { type: 'function', function: { name: only } } } }
        : { tools: shown, parameters: { tool_choice: 'required' } }
    }
    default:
      return refuse(placeOf(calling, 'mode'), `expected AUTO, ANY, VALIDATED or NONE, got ${JSON.stringify(mode)}`)
  }
}

function readAllowed(calling: Fields, tools: readonly Tool[] | null): ReadonlySet<string> {
  const place = placeOf(calling, 'allowedFunctionNames')
  const allowed = listAt(calling, 'allowedFunctionNames').map((name, index) => text(name, `${place}[${index}]`))
  const served = new Set(tools?.map((tool) => tool.function.name))
  const missing = allowed.find((name) => !served.has(name))
  if (missing !== undefined) refuse(place, `names ${JSON.stringify(missing)}, which is not among the functions that can be served`)
  return new Set(allowed)
}
