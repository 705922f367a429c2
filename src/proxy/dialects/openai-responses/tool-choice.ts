// Which tools a request lets the model call, or makes it call.
import type { Diagnostic } from '../../../contract/call.ts'
import type { Tool } from '../../chat.ts'
import { isObject, type JsonObject } from '../../json.ts'
import { note } from '../../notes.ts'
import { isAbsent, list, object, optionalBoolean, refuse, refuseInTraining, text } from '../reading.ts'
import { engineName } from './tool-names.ts'
import type { Toolbox } from './tools.ts'

export type Choice = {
  /** Those the model may call; null rather than empty. */
  readonly tools: readonly Tool[] | null
  readonly parameters: JsonObject
}

/** Without tools nothing is left to choose, except that a tool that was named must be there. */
export function readToolChoice(body: JsonObject, { tools }: Toolbox, tier: 'train' | 'eval', diagnostics: Diagnostic[]): Choice {
  const parallel = optionalBoolean(body, 'parallel_tool_calls')
  const chosen = choose(body.tool_choice, tools, diagnostics)
  if (chosen.tools.length === 0) return { tools: null, parameters: {} }
  const isForced = chosen.choice !== null && chosen.choice !== 'auto' && chosen.choice !== 'none'
  if (isForced) refuseInTraining('tool_choice', tier)
  return {
    tools: chosen.tools,
    parameters: {
      ...(chosen.choice === null ? {} : { tool_choice: chosen.choice }),
      ...(parallel === null ? {} : { parallel_tool_calls: parallel }),
    },
  }
}

type Chosen = { readonly tools: readonly Tool[]; readonly choice: string | JsonObject | null }

function choose(choice: unknown, tools: readonly Tool[], diagnostics: Diagnostic[]): Chosen {
  if (isAbsent(choice)) return { tools, choice: null }
  if (choice === 'auto' || choice === 'none' || choice === 'required') return { tools, choice }
  if (!isObject(choice) || typeof choice.type !== 'string') {
    return refuse('tool_choice', 'expected "auto", "none", "required" or an object that names a tool')
  }
  if (choice.type === 'allowed_tools') return chooseAmong(choice, tools, diagnostics)
  const name = namedTool(choice, 'tool_choice')
  if (!tools.some((tool) => tool.function.name === name)) {
    refuse('tool_choice', `names the tool ${JSON.stringify(name)}, which is not among the tools that can be served`)
  }
  return { tools, choice: { type: 'function', function: { name } } }
}

/** An engine cannot be told to leave a tool alone, so it is shown the allowed ones only. */
function chooseAmong(choice: JsonObject, tools: readonly Tool[], diagnostics: Diagnostic[]): Chosen {
  const { mode } = choice
  if (mode !== 'auto' && mode !== 'required') refuse('tool_choice.mode', 'expected "auto" or "required"')
  const served = new Set(tools.map((tool) => tool.function.name))
  const allowed = new Set<string>()
  for (const [index, value] of list(choice.tools, 'tool_choice.tools').entries()) {
    const place = `tool_choice.tools[${index}]`
    const name = namedTool(object(value, place), place)
    if (served.has(name)) allowed.add(name)
    else note('tool-dropped', `${place}: ${name}`, diagnostics)
  }
  if (allowed.size === 0) refuse('tool_choice.tools', 'none of them is among the tools that can be served')
  return { tools: tools.filter((tool) => allowed.has(tool.function.name)), choice: mode }
}

/** The engine's name for the tool of a choice; tools without a name of their own go by their type. */
function namedTool(choice: JsonObject, place: string): string {
  if (choice.type !== 'function' && choice.type !== 'custom') return text(choice.type, `${place}.type`)
  const namespace = isAbsent(choice.namespace) ? null : text(choice.namespace, `${place}.namespace`)
  return engineName(namespace, text(choice.name, `${place}.name`))
}
