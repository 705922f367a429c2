// zod's issues as Pydantic's: the shape that Polar's clients read on a 422.
import type { z } from 'zod'
import type { FieldProblem } from './errors.ts'

export function fieldProblems(place: 'body' | 'query', issues: readonly z.core.$ZodIssue[], input: unknown): readonly FieldProblem[] {
  return issues.map((issue) => {
    const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part))
    return { loc: [place, ...path], ...describe(issue, valueAt(input, path)) }
  })
}

/** Deeper bodies are refused at the edge: what digests, clones and writes a request inside recurses over it. */
const MAX_DEPTH = 64

export function depthProblems(body: unknown): readonly FieldProblem[] {
  let level: readonly unknown[] = [body]
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MAX_DEPTH) return [{ loc: ['body'], msg: `must not be nested more than ${MAX_DEPTH} levels deep`, type: 'value_error' }]
    level = level.flatMap((value) => (value !== null && typeof value === 'object' ? Object.values(value) : []))
  }
  return []
}

function describe(issue: z.core.$ZodIssue, value: unknown): { readonly msg: string; readonly type: string } {
  switch (issue.code) {
    case 'invalid_type':
      if (value === undefined) return { msg: 'Field required', type: 'missing' }
      return { msg: issue.message, type: `${TYPE_NAMES[issue.expected] ?? issue.expected}_type` }
    case 'too_small':
      if (issue.origin === 'string') return { msg: issue.message, type: 'string_too_short' }
      if (issue.origin === 'array') return { msg: issue.message, type: 'too_short' }
      return { msg: issue.message, type: issue.inclusive === true ? 'greater_than_equal' : 'greater_than' }
    case 'too_big':
      if (issue.origin === 'string') return { msg: issue.message, type: 'string_too_long' }
      if (issue.origin === 'array') return { msg: issue.message, type: 'too_long' }
      return { msg: issue.message, type: issue.inclusive === true ? 'less_than_equal' : 'less_than' }
    case 'invalid_value':
      return { msg: issue.message, type: 'literal_error' }
    case 'invalid_union':
      return { msg: issue.message, type: 'union_tag_invalid' }
    case 'unrecognized_keys':
      return { msg: issue.message, type: 'extra_forbidden' }
    default:
      return { msg: issue.message, type: 'value_error' }
  }
}

const TYPE_NAMES: Readonly<Record<string, string>> = { number: 'float', boolean: 'bool', object: 'dict', record: 'dict', array: 'list' }

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input
  for (const part of path) {
    if (value === null || typeof value !== 'object') return undefined
    value = Object.hasOwn(value, part) ? Reflect.get(value, part) : undefined
  }
  return value
}
