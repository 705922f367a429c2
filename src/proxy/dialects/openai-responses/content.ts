// Content parts of messages and tool outputs → the pivot's parts.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ContentPart } from '../../chat.ts'
import { describe, isObject, type JsonObject } from '../../json.ts'
import { isAbsent, list, note, object, refuse, text } from '../reading.ts'

/** The field that holds the text of a part. */
const TEXTS: { readonly [type: string]: string } = {
  input_text: 'text',
  output_text: 'text',
  text: 'text',
  summary_text: 'text',
  reasoning_text: 'text',
  refusal: 'refusal',
}
const IMAGES: ReadonlySet<unknown> = new Set(['input_image', 'image_url'])
/** What a chat engine takes; OpenAI's `original` has no counterpart. */
const DETAILS: ReadonlySet<unknown> = new Set(['auto', 'low', 'high'])

export function isContentType(type: unknown): boolean {
  return typeof type === 'string' && (Object.hasOwn(TEXTS, type) || IMAGES.has(type))
}

/** A string counts as one text; a part that cannot be shown to a model is refused, one of an unknown kind is noted. */
export function readParts(content: unknown, place: string, diagnostics: Diagnostic[]): readonly ContentPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  if (!Array.isArray(content)) return refuse(place, `expected a string or an array of parts, got ${describe(content)}`)
  return content.flatMap((part: unknown, index) => readPart(object(part, `${place}[${index}]`), `${place}[${index}]`, diagnostics))
}

/** One part, or none. */
export function readPart(part: JsonObject, place: string, diagnostics: Diagnostic[]): readonly ContentPart[] {
  const { type } = part
  if (typeof type !== 'string') return refuse(`${place}.type`, `expected a string, got ${describe(type)}`)
  const field = Object.hasOwn(TEXTS, type) ? TEXTS[type] : undefined
  if (field !== undefined) return [{ type: 'text', text: text(part[field], `${place}.${field}`, true) }]
  if (IMAGES.has(type)) return [readImage(part, place, diagnostics)]
  if (type === 'input_file') return refuse(place, 'files cannot be shown to this model; send their text, or images of their pages')
  if (type === 'input_audio') return refuse(place, 'audio cannot be played to this model')
  note('block-dropped', `${place}: ${type}`, diagnostics)
  return []
}

function readImage(part: JsonObject, place: string, diagnostics: Diagnostic[]): ContentPart {
  const { image_url: image, detail } = part
  if (isAbsent(image)) return refuse(`${place}.image_url`, 'expected a URL or a data URL: no files are stored here')
  const url = isObject(image) ? text(image.url, `${place}.image_url.url`) : text(image, `${place}.image_url`)
  const wished = isAbsent(detail) && isObject(image) ? image.detail : detail
  if (DETAILS.has(wished)) return { type: 'image_url', image_url: { url, detail: wished } }
  if (!isAbsent(wished)) note('field-dropped', `${place}.detail`, diagnostics)
  return { type: 'image_url', image_url: { url } }
}

/** Texts alone become one string, the same on every turn. */
export function contentOf(parts: readonly ContentPart[]): string | readonly ContentPart[] {
  return parts.every((part) => part.type === 'text') ? textOf(parts) : parts
}

export function textOf(parts: readonly ContentPart[]): string {
  return parts.flatMap((part) => (typeof part.text === 'string' ? [part.text] : [])).join('\n')
}

/** What a tool gave back: a text, and the images that a tool message cannot hold. */
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
