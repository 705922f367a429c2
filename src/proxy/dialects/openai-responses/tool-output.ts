// What a tool gave back, in the forms that clients have for it → the text of a tool message, and what it shows.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ContentPart } from '../../chat.ts'
import { describe, isObject, type JsonObject } from '../../json.ts'
import { textOf } from '../content.ts'
import { isAbsent, list, object, refuse, text } from '../reading.ts'
import { readParts } from './parts.ts'

/** A text, and the images that a tool message cannot hold. */
export type ToolOutput = { readonly text: string; readonly images: readonly ContentPart[] }

/** A string, parts, or either of them wrapped in an object; any other value stands as its JSON. */
export function readToolOutput(value: unknown, place: string, diagnostics: Diagnostic[]): ToolOutput {
  let inner = value
  while (isObject(inner)) {
    const wrapped: unknown = wrappedIn(inner)
    if (isAbsent(wrapped)) break
    inner = wrapped
  }
  if (isAbsent(inner)) return refuse(place, `expected a string or an array of parts, got ${describe(inner)}`)
  if (typeof inner === 'string') return { text: inner, images: [] }
  if (!Array.isArray(inner)) return { text: JSON.stringify(inner), images: [] }
  const parts = readParts(inner, place, diagnostics)
  return { text: textOf(parts), images: parts.filter((part) => part.type === 'image_url') }
}

function wrappedIn({ output, body, content }: JsonObject): unknown {
  return output ?? body ?? content
}

/** The output of a shell call as a terminal would show it, with how each command ended. */
export function readShellOutput(value: unknown, place: string): ToolOutput {
  if (typeof value === 'string') return { text: value, images: [] }
  const runs = list(value, place).map((run, index) => shownRun(object(run, `${place}[${index}]`), `${place}[${index}]`))
  return { text: runs.join('\n'), images: [] }
}

const STREAMS = ['stdout', 'stderr'] as const

function shownRun(run: JsonObject, place: string): string {
  const printed = STREAMS.map((name) => (isAbsent(run[name]) ? '' : text(run[name], `${place}.${name}`, true)))
  const lines = printed.filter((stream) => stream !== '').map((stream) => stream.replace(/\n$/, ''))
  return [...lines, ...ending(run.outcome)].join('\n')
}

function ending(outcome: unknown): readonly string[] {
  if (!isObject(outcome)) return []
  if (outcome.type === 'timeout') return ['timed out']
  return typeof outcome.exit_code === 'number' ? [`exit code: ${outcome.exit_code}`] : []
}
