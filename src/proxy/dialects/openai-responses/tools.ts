// The tools a request brings → the pivot's functions, and what the client calls each of them.
import { isDeepStrictEqual } from 'node:util'
import type { Diagnostic } from '../../../contract/call.ts'
import type { Tool } from '../../chat.ts'
import { describe, isObject, type JsonObject } from '../../json.ts'
import { note, noteDropped } from '../../notes.ts'
import { functionTool, readDescription, readStrict } from '../function-tool.ts'
import { isAbsent, list, object, refuse, text } from '../reading.ts'
import { LOCAL_SHELL, SHELL } from './shell.ts'
import { engineName } from './tool-names.ts'

/** A tool as the client declared it: the form in which a call of it must be answered. */
export type Face =
  | { readonly kind: 'function' | 'custom'; readonly name: string; readonly namespace: string | null }
  | { readonly kind: 'shell' | 'local-shell' | 'tool-search' }

export type Toolbox = {
  readonly tools: readonly Tool[]
  /** By the engine's names. */
  readonly faces: ReadonlyMap<string, Face>
}

/** The request's own list, or one that came with an item of its input. */
export type ToolSource = { readonly value: unknown; readonly place: string }

export type ToolContext = { readonly tier: 'train' | 'eval'; readonly diagnostics: Diagnostic[] }

type Declaration = { readonly tool: Tool; readonly face: Face; readonly place: string }

/** A tool whose loading a search could put off is shown at once. */
const FUNCTION_FIELDS = new Set(['type', 'name', 'description', 'parameters', 'strict', 'defer_loading'])
const CUSTOM_FIELDS = new Set(['type', 'name', 'description', 'format', 'defer_loading'])

/** Tools that nobody here can run are dropped with a note; two that an engine would know by one name are refused. */
export function readTools(sources: readonly ToolSource[], context: ToolContext): Toolbox {
  const declared = new Map<string, Declaration>()
  for (const { value, place } of sources) {
    for (const [index, tool] of list(value, place).entries()) {
      const here = `${place}[${index}]`
      for (const declaration of readTool(object(tool, here), here, context)) {
        const { name } = declaration.tool.function
        const other = declared.get(name)
        if (other === undefined) declared.set(name, declaration)
        else repeat(declaration, other, name, context)
      }
    }
  }
  const all = [...declared.values()]
  return { tools: all.map(({ tool }) => tool), faces: new Map(all.map(({ tool, face }) => [tool.function.name, face])) }
}

/** The first declaration of a tool stands: history may bring it again. */
function repeat(again: Declaration, first: Declaration, name: string, { diagnostics }: ToolContext): void {
  if (JSON.stringify(again.face) !== JSON.stringify(first.face)) {
    refuse(again.place, `${titleOf(again.face)} and ${titleOf(first.face)} (${first.place}) are both called ${JSON.stringify(name)} here`)
  }
  if (isDeepStrictEqual(again.tool, first.tool)) return
  note('tool-dropped', `${again.place}: ${first.place} has declared it otherwise`, diagnostics)
}

function titleOf(face: Face): string {
  if (face.kind !== 'function' && face.kind !== 'custom') return `the ${face.kind} tool`
  const title = `the ${face.kind} tool ${JSON.stringify(face.name)}`
  return face.namespace === null ? title : `${title} of namespace ${JSON.stringify(face.namespace)}`
}

function readTool(tool: JsonObject, place: string, context: ToolContext): readonly Declaration[] {
  const { type } = tool
  if (typeof type !== 'string') return refuse(`${place}.type`, `expected a string, got ${describe(type)}`)
  switch (type) {
    case 'function':
      return [readFunction(tool, null, place, context)]
    case 'custom':
      return [readCustom(tool, null, place, context)]
    case 'namespace':
      return readNamespace(tool, place, context)
    case 'shell':
      return [{ tool: SHELL, face: { kind: 'shell' }, place }]
    case 'local_shell':
      return [{ tool: LOCAL_SHELL, face: { kind: 'local-shell' }, place }]
    case 'tool_search': {
      const { execution, description, parameters } = tool
      if (execution === 'client' && isObject(parameters)) {
        return [
          {
            tool: functionTool('tool_search', readDescription(description, `${place}.description`), parameters),
            face: { kind: 'tool-search' },
            place,
          },
        ]
      }
      break
    }
    default:
  }
  note('tool-dropped', `${place}: nothing here runs tools of type ${type}`, context.diagnostics)
  return []
}

function readNamespace(tool: JsonObject, place: string, context: ToolContext): readonly Declaration[] {
  const namespace = text(tool.name, `${place}.name`)
  // The members say what they are; what is said of all of them has no place in a chat engine's list.
  if (!isAbsent(tool.description) && tool.description !== '') note('field-dropped', `${place}.description`, context.diagnostics)
  return list(tool.tools, `${place}.tools`).flatMap((value, index) => {
    const here = `${place}.tools[${index}]`
    const member = object(value, here)
    if (member.type === 'function') return [readFunction(member, namespace, here, context)]
    if (member.type === 'custom') return [readCustom(member, namespace, here, context)]
    note('tool-dropped', `${here}: a namespace holds functions and custom tools`, context.diagnostics)
    return []
  })
}

function readFunction(tool: JsonObject, namespace: string | null, place: string, { tier, diagnostics }: ToolContext): Declaration {
  noteDropped(tool, FUNCTION_FIELDS, place, diagnostics)
  const name = text(tool.name, `${place}.name`)
  const description = readDescription(tool.description, `${place}.description`)
  const parameters = isAbsent(tool.parameters) ? null : object(tool.parameters, `${place}.parameters`)
  const strict = readStrict(tool.strict, `${place}.strict`, tier, diagnostics)
  return {
    tool: functionTool(engineName(namespace, name), description, parameters, strict),
    face: { kind: 'function', name, namespace },
    place,
  }
}

/** A freeform tool: a function of one text, with the grammar told to the model that nobody enforces. */
function readCustom(tool: JsonObject, namespace: string | null, place: string, { diagnostics }: ToolContext): Declaration {
  noteDropped(tool, CUSTOM_FIELDS, place, diagnostics)
  const name = text(tool.name, `${place}.name`)
  const grammar = grammarOf(tool.format, `${place}.format`, diagnostics)
  const description = [readDescription(tool.description, `${place}.description`), grammar].filter((part) => part !== null).join('\n\n')
  const input = { type: 'string', description: 'The whole input of the tool, as plain text.' }
  const parameters = { type: 'object', properties: { input }, required: ['input'], additionalProperties: false }
  return {
    tool: functionTool(engineName(namespace, name), description === '' ? null : description, parameters),
    face: { kind: 'custom', name, namespace },
    place,
  }
}

function grammarOf(format: unknown, place: string, diagnostics: Diagnostic[]): string | null {
  if (isAbsent(format)) return null
  const { type, syntax, definition } = object(format, place)
  if (type === 'text') return null
  if (type !== 'grammar') {
    note('field-dropped', place, diagnostics)
    return null
  }
  note('grammar-not-enforced', place, diagnostics)
  return `The input must match this ${text(syntax, `${place}.syntax`)} grammar:\n${text(definition, `${place}.definition`, true)}`
}
