// Tool calls in Qwen3-Coder's tags, made into the JSON arguments that the engines' parsers make of them.
import type { Tool } from '../chat.ts'
import { isObject, type JsonObject } from '../json.ts'
import type { CallText, ReadBlock } from './answer-text.ts'
import { argumentJson } from './argument.ts'

/** Without its end it reaches to the end of the text. */
const FUNCTION = /<function=([\s\S]*?)(<\/function>|$)/g
/** A parameter that lacks its end tag ends with the next one, as both engines have it. */
const PARAMETER = /<parameter=([\s\S]*?)(?:<\/parameter>|(?=<parameter=)|$)/g

/** A function that was cut before its end is no call: its last argument could be half of what was meant. */
export function readXmlCalls(body: string, tools: readonly Tool[]): ReadBlock {
  const calls: CallText[] = []
  for (const [, inner = '', end = ''] of body.matchAll(FUNCTION)) {
    if (end === '') return NO_FUNCTION
    const head = /^([^>]*)>/.exec(inner)
    const name = head?.[1]?.trim() ?? ''
    if (head === null || name === '') return { ok: false, detail: 'a function has no name' }
    const args = readParameters(inner.slice(head[0].length), schemaOf(name, tools))
    if (args === null) return { ok: false, detail: `a parameter of ${name} has no name` }
    calls.push({ name, arguments: args })
  }
  return calls.length === 0 ? NO_FUNCTION : { ok: true, calls }
}

const NO_FUNCTION: ReadBlock = { ok: false, detail: 'no complete function' }

function readParameters(text: string, schema: JsonObject): string | null {
  // A name given twice keeps its place and takes the last value, as a Python dictionary does.
  const members = new Map<string, string>()
  for (const [, parameter = ''] of text.matchAll(PARAMETER)) {
    const head = /^([^>]*)>/.exec(parameter)
    const name = head?.[1]?.trim() ?? ''
    if (head === null || name === '') return null
    // The template writes one line break on either side of a value.
    const value = parameter.slice(head[0].length).replace(/^\n/, '').replace(/\n$/, '')
    members.set(name, argumentJson(value, schema[name]))
  }
  return `{${[...members].map(([name, json]) => `${JSON.stringify(name)}: ${json}`).join(', ')}}`
}

/** The properties of the tool's parameters; empty when the tool, or its schema, is not known. */
function schemaOf(name: string, tools: readonly Tool[]): JsonObject {
  const parameters: unknown = tools.find((tool) => tool.function.name === name)?.function.parameters
  if (!isObject(parameters)) return {}
  return isObject(parameters.properties) ? parameters.properties : {}
}
