// Any model's chat template, rendered by JavaScript's Jinja with Python's JSON and Python's strip.
import { Template } from '@huggingface/jinja'
import { pythonJsonOf } from '../../python-json.ts'
import type { ChatPrompt, Rendered } from '../serve/language.ts'
import { contentText, toolObjects } from '../serve/template-input.ts'
import type { ChatMessage } from '../wire/chat-request.ts'

export type JinjaTemplate =
  | { readonly ok: true; render(prompt: ChatPrompt, tokens: Readonly<Record<string, string>>): Rendered }
  | { readonly ok: false; readonly message: string }

export function compileJinja(source: string): JinjaTemplate {
  let template: Template
  try {
    template = new Template(source)
    rewrite(template.parsed)
  } catch (error) {
    return { ok: false, message: messageOf(error) }
  }
  return {
    ok: true,
    render(prompt, tokens) {
      const values = {
        ...tokens,
        ...prompt.templateArguments,
        ...FUNCTIONS,
        messages: prompt.messages.map(templateMessage),
        // Python passes None, which templates tell from a name that is not defined.
        tools: prompt.tools.length === 0 ? null : toolObjects(prompt.tools),
        add_generation_prompt: prompt.addsGenerationPrompt,
      }
      try {
        return { ok: true, text: template.render(values) }
      } catch (error) {
        return { ok: false, message: `The chat template refuses the conversation: ${messageOf(error)}` }
      }
    },
  }
}

/** Templates look at calls as Python objects: arguments are parsed where they are JSON. */
function templateMessage(message: ChatMessage): object {
  const { reasoning, reasoning_content: thought, tool_calls: calls, content: _, ...rest } = message
  const reason = thought ?? reasoning
  return {
    ...rest,
    content: contentText(message),
    ...(reason === null || reason === undefined ? {} : { reasoning_content: reason }),
    ...(calls === null || calls === undefined || calls.length === 0
      ? {}
      : {
          tool_calls: calls.map((call) => ({
            type: 'function',
            ...call,
            function: { ...call.function, arguments: parsed(call.function.arguments) },
          })),
        }),
  }
}

function parsed(value: unknown): unknown {
  if (value === undefined || value === null || value === '') return {}
  if (typeof value !== 'string') return value
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

/**
 * The library writes JSON with other numbers, and its `strip('\n')` strips every kind of whitespace. Both are taken out of
 * the tree and become calls of functions of ours.
 */
const FUNCTIONS = {
  python_json: (value: unknown, options: unknown) => {
    const plain = plainOf(value)
    const indent = options instanceof Map ? plainOf(options.get('indent')) : null
    return typeof indent === 'number' ? JSON.stringify(plain, null, indent) : pythonJsonOf(plain)
  },
  python_strip: (text: unknown, characters: unknown) => stripStart(stripEnd(String(text), String(characters)), String(characters)),
  python_lstrip: (text: unknown, characters: unknown) => stripStart(String(text), String(characters)),
  python_rstrip: (text: unknown, characters: unknown) => stripEnd(String(text), String(characters)),
}

function stripStart(text: string, characters: string): string {
  let start = 0
  while (start < text.length && characters.includes(text.charAt(start))) start += 1
  return text.slice(start)
}

function stripEnd(text: string, characters: string): string {
  let end = text.length
  while (end > 0 && characters.includes(text.charAt(end - 1))) end -= 1
  return text.slice(0, end)
}

/** A value of the library's interpreter, or what one holds, as JSON has it. */
function plainOf(value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, each]) => [String(key), plainOf(each)]))
  if (Array.isArray(value)) return value.map(plainOf)
  if (typeof value === 'object' && value !== null && 'type' in value && 'value' in value) return plainOf(value.value)
  return value ?? null
}

type Node = Record<string, unknown>

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && !(value instanceof Map)

/** Rewrites a syntax tree in place, leaves first. */
function rewrite(value: unknown): void {
  if (value instanceof Map) {
    for (const [key, each] of value) for (const side of [key, each]) rewrite(side)
    return
  }
  if (!isNode(value)) return
  for (const child of Object.values(value)) rewrite(child)
  const call = jsonFilter(value) ?? stripCall(value)
  if (call !== null) Object.assign(value, { type: 'CallExpression', callee: { type: 'Identifier', value: call.name }, args: call.args })
}

type FunctionCall = { readonly name: keyof typeof FUNCTIONS; readonly args: readonly unknown[] }

/** `operand | tojson` and `operand | tojson(indent=4)`. */
function jsonFilter({ type, operand, filter }: Node): FunctionCall | null {
  if (type !== 'FilterExpression' || !isNode(filter)) return null
  const { callee, args } = filter
  const name = isNode(callee) ? callee.value : filter.value
  return name === 'tojson' ? { name: 'python_json', args: [operand, ...(Array.isArray(args) ? args : [])] } : null
}

/** `object.strip(characters)`; without characters both languages strip alike. */
function stripCall({ type, callee, args }: Node): FunctionCall | null {
  if (type !== 'CallExpression' || !isNode(callee) || callee.type !== 'MemberExpression' || callee.computed === true) return null
  const name = isNode(callee.property) ? callee.property.value : null
  if (!Array.isArray(args) || args.length !== 1) return null
  const all = [callee.object, ...args]
  switch (name) {
    case 'strip':
      return { name: 'python_strip', args: all }
    case 'lstrip':
      return { name: 'python_lstrip', args: all }
    case 'rstrip':
      return { name: 'python_rstrip', args: all }
    default:
      return null
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
