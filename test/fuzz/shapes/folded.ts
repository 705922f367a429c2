// What a reply says, whatever its dialect and form; and the fault of a reply that is not what its dialect promises.
import { z } from 'zod'
import { isObject } from '../../../src/proxy/json.ts'
import type { Kept } from '../grammar/grammar.ts'

export type Folded = {
  /** The reply's own name, in which the call's is contained. */
  readonly id: string
  readonly model: string
  readonly text: string
  /** Null where the client did not want to see it. */
  readonly reasoning: string | null
  readonly calls: readonly FoldedCall[]
  readonly kept: Kept
}

export type FoldedCall = {
  readonly id: string
  /** Null where the dialect tells the call by another name than the engine does. */
  readonly name: string | null
  /** `text` where the dialect hands the argument text through, `value` where it parses it, null where it puts it into a form of its own. */
  readonly given: { readonly text: string } | { readonly value: unknown } | null
}

/** What the request asked to see beyond the answer; null where nobody but the server could tell. */
export type Wishes = { readonly logprobs: boolean | null; readonly usageChunk: boolean | null }

export class ShapeFault extends Error {}

/** The value as the schema has it; a fault that names the first place where it is not. */
export function shaped<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const place = issue === undefined ? '' : placeOf(issue)
  throw new ShapeFault(`${what}${place}: ${JSON.stringify(value)?.slice(0, 400)}`)
}

function placeOf(issue: z.core.$ZodIssue): string {
  // A union names no place of its own: the branch that came furthest does.
  if (issue.code === 'invalid_union') {
    const furthest = issue.errors.map((branch) => branch[0]).filter((each) => each !== undefined)
    const [deepest] = furthest.sort((a, b) => b.path.length - a.path.length)
    if (deepest !== undefined) return ` at ${issue.path.join('.')} (${placeOf(deepest)})`
  }
  return ` at ${issue.path.join('.') || '(top)'}: ${issue.message}`
}

export function demand(isSo: boolean, otherwise: string): asserts isSo {
  if (!isSo) throw new ShapeFault(otherwise)
}

export function json(text: string, what: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ShapeFault(`${what} is not JSON: ${text.slice(0, 300)}`)
  }
}

export type SseEvent = { readonly event: string | null; readonly data: string }

/** Strict framing: an optional `event:` line, one `data:` line with its space, an empty line; nothing left over. */
export function eventsOf(body: string): readonly SseEvent[] {
  if (body === '') return []
  demand(body.endsWith('\n\n'), `the stream ends inside a frame: ${JSON.stringify(body.slice(-120))}`)
  return body
    .slice(0, -2)
    .split('\n\n')
    .map((frame) => {
      const found = /^(?:event: ([a-z_.]+)\n)?data: ([^\r\n]*)$/.exec(frame)
      demand(found !== null, `no frame of an event stream: ${JSON.stringify(frame.slice(0, 200))}`)
      return { event: found[1] ?? null, data: found[2] ?? '' }
    })
}

/** Handed on as it is: zod's own records lose a field named `__proto__`. */
export const anyObject = z.custom<Readonly<Record<string, unknown>>>(isObject, 'expected an object')

export const count = z.int().min(0)
export const nonEmpty = z.string().min(1)
