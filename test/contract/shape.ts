// Exact JSON shapes: what a strict reader of Polar's models accepts, and every place where a value is something else.

/** Adds what is wrong to `problems`, each with the path that leads there. */
export type Shape<T> = (value: unknown, at: string, problems: string[]) => value is T

export type Of<S> = S extends Shape<infer T> ? T : never

type Shapes = Readonly<Record<string, Shape<unknown>>>
type Required<R extends Shapes> = { readonly [K in keyof R]: Of<R[K]> }
type Optional<O extends Shapes> = { readonly [K in keyof O]?: Of<O[K]> }

export const text = primitive('a string', (value): value is string => typeof value === 'string')
/** JSON has one kind of number; Python tells a bool from it, and so does this. */
export const number = primitive('a finite number', (value): value is number => typeof value === 'number' && Number.isFinite(value))
export const integer = primitive('an integer', (value): value is number => Number.isInteger(value))
export const count = primitive('an integer of 0 or more', (value): value is number => Number.isInteger(value) && Number(value) >= 0)
export const flag = primitive('a boolean', (value): value is boolean => typeof value === 'boolean')
export const anything = primitive('anything', (_value): _value is unknown => true)
export const object = primitive('an object', isObject)

export function matching(pattern: RegExp): Shape<string> {
  return primitive(`a string like ${pattern}`, (value): value is string => typeof value === 'string' && pattern.test(value))
}

export function oneOf<const T extends string | number>(...values: readonly T[]): Shape<T> {
  return primitive(`one of ${values.join(', ')}`, (value): value is T => values.some((known) => known === value))
}

export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  return (value, at, problems): value is T | null => value === null || shape(value, at, problems)
}

export function either<A, B>(one: Shape<A>, other: Shape<B>): Shape<A | B> {
  return (value, at, problems): value is A | B => {
    const found: string[] = []
    if (one(value, at, found) || other(value, at, found)) return true
    problems.push(...found)
    return false
  }
}

export function listOf<T>(shape: Shape<T>): Shape<readonly T[]> {
  return (value, at, problems): value is readonly T[] => {
    if (!Array.isArray(value)) return complain(problems, at, 'a list', value)
    const before = problems.length
    value.forEach((item, index) => void shape(item, `${at}[${index}]`, problems))
    return problems.length === before
  }
}

export function mapOf<T>(shape: Shape<T>): Shape<Readonly<Record<string, T>>> {
  return (value, at, problems): value is Readonly<Record<string, T>> => {
    if (!isObject(value)) return complain(problems, at, 'an object', value)
    const before = problems.length
    for (const [key, item] of Object.entries(value)) shape(item, `${at}.${key}`, problems)
    return problems.length === before
  }
}

/** A model of Polar's. Keys beside those named are an error unless the model allows extras. */
export function model<R extends Shapes, O extends Shapes>(
  required: R,
  optional: O,
  extras: 'forbidden' | 'allowed' = 'forbidden',
): Shape<Required<R> & Optional<O>> {
  return (value, at, problems): value is Required<R> & Optional<O> => {
    if (!isObject(value)) return complain(problems, at, 'an object', value)
    const before = problems.length
    for (const key of Object.keys(required)) if (!(key in value)) problems.push(`${at}.${key} is missing`)
    for (const [key, item] of Object.entries(value)) {
      const shape = required[key] ?? optional[key]
      if (shape !== undefined) shape(item, `${at}.${key}`, problems)
      else if (extras === 'forbidden') problems.push(`${at}.${key} is no key of this model`)
    }
    return problems.length === before
  }
}

/** A shape and a rule over the whole value; the rule tells what is wrong with it, or null. */
export function holding<T>(shape: Shape<T>, rule: (value: T) => string | null): Shape<T> {
  return (value, at, problems): value is T => {
    if (!shape(value, at, problems)) return false
    const broken = rule(value)
    if (broken !== null) problems.push(`${at}: ${broken}`)
    return broken === null
  }
}

/** Throws with every problem when the value does not have the shape. */
export function parse<T>(shape: Shape<T>, value: unknown, name: string): T {
  const problems: string[] = []
  if (shape(value, name, problems)) return value
  throw new Error(`not as Polar has it:\n  ${problems.slice(0, 20).join('\n  ')}`)
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function primitive<T>(name: string, holds: (value: unknown) => value is T): Shape<T> {
  return (value, at, problems): value is T => holds(value) || complain(problems, at, name, value)
}

function complain(problems: string[], at: string, expected: string, value: unknown): false {
  problems.push(`${at} should be ${expected}, and is ${JSON.stringify(value)?.slice(0, 80)}`)
  return false
}
