// Whether the messages of one edition still mean what those of an earlier one did.
import type { Edition } from '../../src/contract/wire/edition.ts'
import { isJsonSchema, type JsonSchema } from '../../src/contract/wire/json-schema.ts'
import type { Message } from '../../src/contract/wire/messages.ts'

/**
 * One sentence for each promise that is broken; none: compatible. What is given now must be valid by the schemas of then, and what was
 * valid to send then must be taken now. No key that stood there may be gone: a reader looks for it, a writer counts on its being read.
 */
export function incompatibilities(before: Edition, now: Edition): readonly string[] {
  return Object.entries(before.messages).flatMap(([name, { direction, schema }]) => {
    const current = now.messages[name]
    if (current === undefined) return [`${name}: is gone`]
    if (current.direction !== direction) return [`${name}: was ${direction}, is ${current.direction}`]
    return differences({ before, now, direction }, schema, current.schema, name)
  })
}

type Comparison = { readonly before: Edition; readonly now: Edition; readonly direction: Message['direction'] }

function differences(comparison: Comparison, before: JsonSchema, now: JsonSchema, path: string): readonly string[] {
  const isOtherwiseRead = comparison.direction === 'taken' && before.default !== undefined && !isSame(before.default, now.default)
  return [...(isOtherwiseRead ? [`${path}: another default`] : []), ...valueDifferences(comparison, before, now, path)]
}

function valueDifferences(comparison: Comparison, before: JsonSchema, now: JsonSchema, path: string): readonly string[] {
  // Named schemas of the same name are compared by themselves.
  if (before.$ref !== undefined && before.$ref === now.$ref) return []
  const pair = { before: resolved(comparison.before, before), now: resolved(comparison.now, now) }
  const forms = { before: formsOf(pair.before, path), now: formsOf(pair.now, path) }
  const [first] = forms.before
  const [second] = forms.now
  if (first !== undefined && second !== undefined && forms.before.length === 1 && forms.now.length === 1) {
    return formDifferences(comparison, first, second, path)
  }
  if (comparison.direction === 'given') {
    const isKnown = (form: JsonSchema) => forms.before.some((old) => formDifferences(comparison, old, form, path).length === 0)
    return forms.now.every(isKnown) ? [] : [`${path}: takes a form that it never had`]
  }
  const isTaken = (form: JsonSchema) => forms.now.some((current) => formDifferences(comparison, form, current, path).length === 0)
  return forms.before.every(isTaken) ? [] : [`${path}: a form that was taken is refused`]
}

function resolved(edition: Edition, schema: JsonSchema): JsonSchema {
  const [, name] = /^#\/messages\/(.+)\/schema$/.exec(String(schema.$ref ?? '')) ?? []
  const named = name === undefined ? undefined : edition.messages[name]
  return named === undefined ? schema : resolved(edition, named.schema)
}

const COMPARED = new Set(['type', 'properties', 'required', 'additionalProperties', 'items', 'enum', 'const', 'default', '$ref'])
const LOWER = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']
const UPPER = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties']
const EQUAL = ['pattern', 'format', 'propertyNames', 'multipleOf', 'contentEncoding']
const WORDS = new Set(['description', 'title', 'deprecated', 'examples'])
const KNOWN = new Set([...COMPARED, ...LOWER, ...UPPER, ...EQUAL, ...WORDS])

/** What a union or a list of types may be, each by itself. A keyword that is not known here must not pass as if it said nothing. */
function formsOf(schema: JsonSchema, path: string): readonly JsonSchema[] {
  const { anyOf, oneOf, ...rest } = schema
  const branches = anyOf ?? oneOf
  if (Array.isArray(branches)) return branches.filter(isJsonSchema).flatMap((branch) => formsOf(branch, path))
  const unknown = Object.keys(rest).filter((keyword) => !KNOWN.has(keyword))
  if (unknown.length > 0) throw new Error(`${path}: no rule compares ${unknown.join(', ')}`)
  return Array.isArray(rest.type) ? rest.type.map((type) => ({ ...rest, type })) : [rest]
}

function formDifferences(comparison: Comparison, before: JsonSchema, now: JsonSchema, path: string): readonly string[] {
  const isGiven = comparison.direction === 'given'
  // Every value of the one must be a value of the other.
  const [narrow, wide] = isGiven ? [now, before] : [before, now]
  if (!isTypeWithin(narrow.type, wide.type)) return [`${path}: was ${before.type ?? 'anything'}, is ${now.type ?? 'anything'}`]
  const problems: string[] = []
  const words = (schema: JsonSchema) => (Array.isArray(schema.enum) ? schema.enum : schema.const === undefined ? null : [schema.const])
  const [own, allowed] = [words(narrow), words(wide)]
  if (allowed !== null && !(own?.every((word) => allowed.includes(word)) ?? false)) {
    problems.push(`${path}: ${isGiven ? 'may hold a value that it never held' : 'a value that was taken is refused'}`)
  }
  const isLooser = [
    ...LOWER.map((bound) => wide[bound] !== undefined && Number(narrow[bound] ?? -Infinity) < Number(wide[bound])),
    ...UPPER.map((bound) => wide[bound] !== undefined && Number(narrow[bound] ?? Infinity) > Number(wide[bound])),
    ...EQUAL.map((rule) => wide[rule] !== undefined && !isSame(narrow[rule], wide[rule])),
  ].includes(true)
  if (isLooser) problems.push(`${path}: ${isGiven ? 'is less narrow than it was' : 'is narrower than it was'}`)
  return [...problems, ...keyDifferences(comparison, before, now, path), ...partDifferences(comparison, before, now, path)]
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function isTypeWithin(narrow: unknown, wide: unknown): boolean {
  return wide === undefined || narrow === wide || (narrow === 'integer' && wide === 'number')
}

function keyDifferences(comparison: Comparison, before: JsonSchema, now: JsonSchema, path: string): readonly string[] {
  const [old, current] = [keysOf(before), keysOf(now)]
  const lost = Object.keys(old).filter((key) => current[key] === undefined)
  const isGiven = comparison.direction === 'given'
  const [narrow, wide] = isGiven ? [now, before] : [before, now]
  const unmet = requiredOf(wide).filter((key) => !requiredOf(narrow).includes(key) && !lost.includes(key))
  return [
    ...lost.map((key) => `${path}.${key}: is gone`),
    ...unmet.map((key) => `${path}.${key}: ${isGiven ? 'may be absent' : 'is required'} now`),
    ...Object.entries(old).flatMap(([key, schema]) => {
      const next = current[key]
      return next === undefined ? [] : differences(comparison, schema, next, `${path}.${key}`)
    }),
  ]
}

/** Items, and keys without names of their own. */
function partDifferences(comparison: Comparison, before: JsonSchema, now: JsonSchema, path: string): readonly string[] {
  const problems: string[] = []
  for (const [keyword, place] of [
    ['items', `${path}[]`],
    ['additionalProperties', `${path}.*`],
  ] as const) {
    const [old, current] = [before[keyword], now[keyword]]
    const isRefused = comparison.direction === 'taken' && current === false && old !== false
    if (isRefused) problems.push(`${place}: is refused now`)
    else if (old !== undefined || current !== undefined) problems.push(...differences(comparison, schemaOf(old), schemaOf(current), place))
  }
  return problems
}

/** Absent and `true` say the same as the empty schema. */
function schemaOf(part: unknown): JsonSchema {
  return isJsonSchema(part) ? part : {}
}

function keysOf({ properties }: JsonSchema): Readonly<Record<string, JsonSchema>> {
  return isJsonSchema(properties) ? Object.fromEntries(Object.entries(properties).map(([key, schema]) => [key, schemaOf(schema)])) : {}
}

function requiredOf({ required }: JsonSchema): readonly string[] {
  return Array.isArray(required) ? required.map(String) : []
}
