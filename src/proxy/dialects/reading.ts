// Reading a client's JSON field by field: the first fault leaves with a failure in the caller's terms.
import { type Failure, failure } from '../failure.ts'
import { describe, isObject, type JsonObject } from '../json.ts'
import { constrained } from '../parameters.ts'

/** What a reader found, or the failure with which it left. */
export type Reading<T> = ({ readonly ok: true } & T) | { readonly ok: false; readonly failure: Failure }

/** Leaves a reader at the first fault; caught in `reading` alone. */
class Refusal extends Error {
  readonly failure: Failure
  constructor(reason: Failure) {
    super(reason.message)
    this.failure = reason
  }
}

export function reading<T extends object>(read: () => T): Reading<T> {
  try {
    return { ok: true, ...read() }
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, failure: error.failure }
    throw error
  }
}

/** A refusal may quote what stands there, or the name of a field, and either may be all of a long body. */
const MAX_CHARS = 400

/** Leaves with a failure that says more than that a field is wrong. */
export function refuseWith({ message, param, ...rest }: Failure): never {
  throw new Refusal({ ...rest, message: bounded(message), param: param === null ? null : bounded(param) })
}

function bounded(text: string): string {
  return text.length > MAX_CHARS ? `${text.slice(0, MAX_CHARS)}…` : text
}

/** What was read, or the refusal goes on from here. */
export function orRefuse<T>(read: Reading<T>): T {
  return read.ok ? read : refuseWith(read.failure)
}

/** Refuses what constrains decoding, in a training session. */
export function refuseInTraining(place: string, tier: 'train' | 'eval'): void {
  if (tier === 'train') refuseWith(constrained(place))
}

export function refuse(param: string, problem: string): never {
  return refuseWith(failure('invalid-request', `${param}: ${problem}`, { param }))
}

/** The value, or a refusal that names the place and what stands there. */
export function text(value: unknown, place: string, mayBeEmpty = false): string {
  if (typeof value !== 'string') return refuse(place, `expected a string, got ${describe(value)}`)
  return value === '' && !mayBeEmpty ? refuse(place, 'must not be empty') : value
}

export function object(value: unknown, place: string): JsonObject {
  return isObject(value) ? value : refuse(place, `expected an object, got ${describe(value)}`)
}

export function list(value: unknown, place: string): readonly unknown[] {
  return Array.isArray(value) ? value : refuse(place, `expected an array, got ${describe(value)}`)
}

/** Null stands for absent, as every SDK has it. */
export function isAbsent(value: unknown): value is null | undefined {
  return value === undefined || value === null
}

export function optionalBoolean(body: JsonObject, name: string): boolean | null {
  const value = body[name]
  if (isAbsent(value)) return null
  return typeof value === 'boolean' ? value : refuse(name, `expected a boolean, got ${describe(value)}`)
}

/** How many tokens an answer may have; null when absent. */
export function optionalBudget(value: unknown, place: string): number | null {
  if (isAbsent(value)) return null
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) return refuse(place, `expected an integer, got ${describe(value)}`)
  return value < 1 ? refuse(place, 'must be at least 1') : value
}

export function modelName(value: unknown): string {
  if (typeof value === 'string' && value !== '' && value.length <= 256) return value
  return refuse('model', `expected a name of 1 to 256 characters, got ${describe(value)}`)
}
