// Anthropic's tools and tool_choice → the pivot: client tools become functions, the vendor's own are dropped with a note.
import type { Diagnostic } from '../../../contract/call.ts'
import type { Tool } from '../../chat.ts'
import type { JsonObject } from '../../json.ts'
import { note, noteDropped } from '../../notes.ts'
import { functionTool, readDescription, readStrict } from '../function-tool.ts'
import { isAbsent, list, object, refuse, refuseInTraining, text } from '../reading.ts'

/** Fields without meaning for a template: a tool that is loaded late is known from the start. */
const TOOL_FIELDS = new Set(
  'type name description input_schema strict cache_control defer_loading eager_input_streaming allowed_callers'.split(' '),
)

export function readTools(value: unknown, tier: 'train' | 'eval', diagnostics: Diagnostic[]): readonly Tool[] | null {
  if (isAbsent(value)) return null
  const tools: Tool[] = []
  for (const [index, given] of list(value, 'tools').entries()) {
    const place = `tools[${index}]`
    const tool = object(given, place)
    const type = isAbsent(tool.type) ? 'custom' : text(tool.type, `${place}.type`)
    if (type !== 'custom' && isAbsent(tool.input_schema)) {
      note('tool-dropped', `${place}: no engine here knows tools of type ${type}`, diagnostics)
      continue
    }
    noteDropped(tool, TOOL_FIELDS, place, diagnostics)
    const name = text(tool.name, `${place}.name`)
    const description = readDescription(tool.description, `${place}.description`)
    const parameters = object(tool.input_schema, `${place}.input_schema`)
    tools.push(functionTool(name, description, parameters, readStrict(tool.strict, `${place}.strict`, tier, diagnostics)))
  }
  return tools.length === 0 ? null : tools
}

/** The engine's `tool_choice` and `parallel_tool_calls`; neither goes without tools. */
export function readToolChoice(value: unknown, tools: readonly Tool[] | null, tier: 'train' | 'eval'): JsonObject {
  if (isAbsent(value)) return {}
  const choice = object(value, 'tool_choice')
  const wanted = readChoice(choice, tools)
  if (tools === null) return {}
  if (wanted !== 'auto' && wanted !== 'none') refuseInTraining('tool_choice', tier)
  return { tool_choice: wanted, ...(choice.disable_parallel_tool_use === true ? { parallel_tool_calls: false } : {}) }
}

function readChoice(choice: JsonObject, tools: readonly Tool[] | null) {
  switch (choice.type) {
    case 'auto':
    case 'none':
      return choice.type
    case 'any':
      return 'required'
    case 'tool': {
      const name = text(choice.name, 'tool_choice.name')
      if (tools?.some((tool) => tool.function.name === name) !== true) {
        refuse('tool_choice.name', `${JSON.stringify(name)} is not among the tools that can be served`)
      }
      return { type: 'function', function: { name } }
    }
    default:
      return refuse('tool_choice.type', 'expected "auto", "any", "tool" or "none"')
  }
}
