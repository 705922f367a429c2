// How a session's result is told: inside of a task's or by reference to itself, and there in which form.
import type { SessionId } from './ids.ts'

/** `reference`: everything but the traces, and where those are. */
export const RESULTS_TOLD = ['inline', 'reference'] as const
export type ResultsTold = (typeof RESULTS_TOLD)[number]

export const RESULT_FORMS = ['json', 'msgpack'] as const
export type ResultForm = (typeof RESULT_FORMS)[number]

/** Of the forms; raised when the same result is written with other bytes. */
const FORM_VERSION = 1

/** Of the node's own address. */
export function resultPath(session: SessionId): string {
  return `/sessions/${session}/result`
}

/** Strong: an attempt has one result, and each form of it one sequence of bytes. */
export function resultTag(session: SessionId, attempt: number, form: ResultForm): string {
  return `"${session}.${attempt}.${form}${FORM_VERSION}"`
}

/** What a valid task's metadata asks for; null: nothing. */
export function resultsAskedFor(metadata: Readonly<Record<string, unknown>>): ResultsTold | null {
  const written = writtenResults(metadata)
  return isResultsTold(written) ? written : null
}

export function isResultsTold(value: unknown): value is ResultsTold {
  return RESULTS_TOLD.some((told) => told === value)
}

/** As it stands in `polar_node.results`, whatever it is. */
export function writtenResults({ polar_node: own }: Readonly<Record<string, unknown>>): unknown {
  return typeof own === 'object' && own !== null ? Reflect.get(own, 'results') : undefined
}
