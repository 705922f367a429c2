// One tool call as JSON, whose arguments keep the text in which they were sampled.
import { isObject } from '../json.ts'
import type { ReadBlock } from './answer-text.ts'

/**
 * `{"name": …, "arguments": …}`; SGLang also takes `parameters`, and a call without either. Printing the arguments again,
 * as the engines' plain parsers do, would change nothing but their spacing.
 */
export function readJsonCall(body: string): ReadBlock {
  const members = membersOf(body)
  if (members === null) return { ok: false, detail: 'not a JSON object' }
  const name = members.get('name')
  const parsed: unknown = name === undefined ? undefined : JSON.parse(name)
  if (typeof parsed !== 'string' || parsed === '') return { ok: false, detail: 'has no name' }
  return { ok: true, calls: [{ name: parsed, arguments: members.get('arguments') ?? members.get('parameters') ?? '{}' }] }
}

/** The text of each member's value; null when the text is no JSON object. A name given twice has its last value, as in Python. */
function membersOf(text: string): ReadonlyMap<string, string> | null {
  try {
    if (!isObject(JSON.parse(text))) return null
  } catch {
    return null
  }
  const members = new Map<string, string>()
  let at = text.indexOf('{') + 1
  for (;;) {
    const key = /\s*("(?:[^"\\]|\\.)*")\s*:\s*/y
    key.lastIndex = at
    const found = key.exec(text)
    if (found === null) return members
    const start = key.lastIndex
    const end = valueEnd(text, start)
    const name: unknown = JSON.parse(found[1] ?? '""')
    members.set(String(name), text.slice(start, end))
    at = end + (/^\s*,?/.exec(text.slice(end))?.[0].length ?? 0)
  }
}

/** Where a value ends, in text that is known to be JSON: at the first comma or bracket that is not inside it. */
function valueEnd(text: string, start: number): number {
  let depth = 0
  let at = start
  for (const token = /"(?:[^"\\]|\\.)*"|[{}[\],]|[^"{}[\],]+/y; ; ) {
    token.lastIndex = at
    const [found = ''] = token.exec(text) ?? []
    if (found === '{' || found === '[') depth += 1
    else if (found === '}' || found === ']') depth -= 1
    if (found === '' || depth < 0 || (depth === 0 && found === ',')) break
    at += found.length
    if (depth === 0 && (found === '}' || found === ']' || found.startsWith('"'))) return at
  }
  return start + text.slice(start, at).trimEnd().length
}
