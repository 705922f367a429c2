// What agent CLIs do to a call before they send it back: clean-ups of the client's, not words of somebody else.
import type { Tool, ToolCall } from './chat.ts'
import { canonicalText, isObject, type JsonObject, parseJsonText } from './json.ts'
import { argumentsValue } from './spelling.ts'

export type ToolsByName = ReadonlyMap<string, Tool>

/** The first of a name holds. */
export function toolsByName(tools: readonly Tool[]): ToolsByName {
  return new Map(tools.map((tool) => [tool.function.name, tool] as const).reverse())
}

/**
 * True when `returned` is what a CLI makes of `given` on its own: defaults of the tool's schema filled in, values coerced to the schema's
 * types, JSON told as text parsed, white space at line ends and a leading `cd` of a command cut, the name in lower case, or another call
 * that says what was wrong with it. Ask only for calls that are known to be the same one. Measured on Claude Code 2.1.332 (arguments, but
 * for the parsed text), pi 0.73.1 (the parsed text) and OpenCode 1.18.33 (names).
 */
export function isRewordedCall(given: ToolCall, returned: ToolCall, tools: ToolsByName): boolean {
  const [was, is] = [argumentsValue(given), argumentsValue(returned)]
  if (isComplaintOf(given, returned, is)) return true
  if (given.function.name !== returned.function.name && given.function.name.toLowerCase() !== returned.function.name) return false
  if (!isObject(was) || !isObject(is)) return false
  const properties = propertiesOf(tools.get(given.function.name))
  const isKept = Object.entries(was).every(([name, value]) => Object.hasOwn(is, name) && isRewordedValue(value, is[name]))
  return isKept && Object.entries(is).every(([name, value]) => Object.hasOwn(was, name) || isDefault(value, properties[name]))
}

/** OpenCode puts a call of its tool `invalid` in the place of one that it cannot read, or of a tool it does not have. */
function isComplaintOf(given: ToolCall, returned: ToolCall, is: unknown): boolean {
  if (returned.function.name !== 'invalid' || !isObject(is)) return false
  return is.tool === given.function.name && typeof is.error === 'string' && Object.keys(is).length === 2
}

function isRewordedValue(was: unknown, is: unknown): boolean {
  if (canonicalText(was) === canonicalText(is)) return true
  if (typeof was !== 'string') return false
  if (typeof is === 'string') return withoutLineEnds(was) === withoutLineEnds(is) || isWithoutChangeOfFolder(was, is)
  const parsed = parseJsonText(was)
  return parsed.ok && canonicalText(parsed.value) === canonicalText(is)
}

function withoutLineEnds(text: string): string {
  // From the start of a run only: a long one inside a line would else be tried from each of its blanks.
  return text.replaceAll(/(?<![ \t])[ \t]+$/gm, '')
}

/** Models begin nearly every command with a change to the folder they are in. */
function isWithoutChangeOfFolder(was: string, is: string): boolean {
  return is !== '' && was.endsWith(is) && /^cd \S+ && $/.test(was.slice(0, was.length - is.length))
}

function isDefault(value: unknown, property: unknown): boolean {
  return isObject(property) && Object.hasOwn(property, 'default') && canonicalText(property.default) === canonicalText(value)
}

function propertiesOf(tool: Tool | undefined): JsonObject {
  const parameters = tool?.function.parameters
  return isObject(parameters) && isObject(parameters.properties) ? parameters.properties : {}
}
