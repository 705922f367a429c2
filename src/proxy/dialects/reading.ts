// Reading a client's JSON field by field: the first fault leaves with a failure in the caller's terms.
import type { Diagnostic } from '../../contract/call.ts'
import { type Failure, failure } from '../failure.ts'
import { describe, isObject, type JsonObject } from '../json.ts'

/** Leaves a reader at the first fault; caught in `reading` alone. */
export class Refusal extends Error {
  readonly failure: Failure
  constructor(reason: Failure) {
    super(reason.message)
    this.failure = reason
  }
}

/** What `read` gives, or the failure with which it left. */
export function reading<T extends object>(read: () => T): ({ readonly ok: true } & T) | { readonly ok: false; readonly failure: Failure } {
  try {
    return { ok: true, ...read() }
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, failure: error.failure }
    throw error
  }
}

/** A refusal may quote what stands there, and that may be all of a long body. */
const MAX_PROBLEM_CHARS = 400

export function refuse(param: string, problem: string): never {
  const told = problem.length > MAX_PROBLEM_CHARS ? `${problem.slice(0, MAX_PROBLEM_CHARS)}…` : problem
  throw new Refusal(failure('invalid-request', `${param}: ${told}`, { param }))
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

export function modelName(value: unknown): string {
  if (typeof value === 'string' && value !== '' && value.length <= 256) return value
  return refuse('model', `expected a name of 1 to 256 characters, got ${describe(value)}`)
}

/** One call notes at most this many fields: what is said of the first ones holds for the rest. */
const MAX_NOTES = 64
const MAX_NOTE_CHARS = 200

export function note(code: string, detail: string, diagnostics: Diagnostic[]): void {
  if (diagnostics.length < MAX_NOTES) diagnostics.push({ code, detail: detail.slice(0, MAX_NOTE_CHARS) })
}

/** Notes fields that are not carried over. */
export function noteDropped(value: JsonObject, known: ReadonlySet<string>, place: string, diagnostics: Diagnostic[]): void {
  for (const [name, field] of Object.entries(value)) {
    if (field === null || known.has(name)) continue
    note('field-dropped', `${place === '' ? '' : `${place}.`}${name.slice(0, 64)}`, diagnostics)
  }
}
