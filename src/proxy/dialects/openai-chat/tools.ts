// The tools of chat completions and the choice among them: functions as they came, tools of other kinds dropped with a note.
import type { Diagnostic } from '../../../contract/call.ts'
import type { Tool } from '../../chat.ts'
import { isObject, type JsonObject } from '../../json.ts'
import { note } from '../../notes.ts'
import { readStrict } from '../function-tool.ts'
import { isAbsent, list, object, optionalBoolean, refuse, refuseInTraining, text } from '../reading.ts'

export function readTools(value: unknown, tier: 'train' | 'eval', diagnostics: Diagnostic[]): readonly Tool[] | null {
  if (isAbsent(value)) return null
  const tools: Tool[] = []
  for (const [index, given] of list(value, 'tools').entries()) {
    const place = `tools[${index}]`
    const tool = object(given, place)
    const type = text(tool.type, `${place}.type`)
    if (type !== 'function') {
      note('tool-dropped', `${place}: no engine here runs tools of type ${type}`, diagnostics)
      continue
    }
    const { strict, ...definition } = object(tool.function, `${place}.function`)
    const name = text(definition.name, `${place}.function.name`)
    // Templates and parsers of calls walk through it as an object.
    if (!isAbsent(definition.parameters)) object(definition.parameters, `${place}.function.parameters`)
    tools.push({ type, function: { ...definition, name, ...readStrict(strict, `${place}.function.strict`, tier, diagnostics) } })
  }
  return tools.length === 0 ? null : tools
}

/** The engine's `tool_choice` and `parallel_tool_calls`; neither goes without tools. */
export function readToolChoice(body: JsonObject, tools: readonly Tool[] | null, tier: 'train' | 'eval'): JsonObject {
  const { tool_choice: choice } = body
  const parallel = optionalBoolean(body, 'parallel_tool_calls')
  const named = namedTool(choice)
  if (named !== null && tools?.some((tool) => tool.function.name === named) !== true) {
    refuse('tool_choice', `names the tool ${JSON.stringify(named)}, which is not among the tools that can be served`)
  }
  if (tools === null) return {}
  if (named !== null || choice === 'required') refuseInTraining('tool_choice', tier)
  return {
    ...(isAbsent(choice) ? {} : { tool_choice: choice }),
    ...(parallel === null ? {} : { parallel_tool_calls: parallel }),
  }
}

function namedTool(choice: unknown): string | null {
  if (isAbsent(choice) || choice === 'auto' || choice === 'none' || choice === 'required') return null
  if (isObject(choice) && choice.type === 'function' && isObject(choice.function)) {
    return text(choice.function.name, 'tool_choice.function.name')
  }
  return refuse('tool_choice', 'expected "auto", "none", "required" or {"type":"function","function":{"name":…}}')
}
