// Content parts of messages and of tool outputs → the pivot's parts.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ContentPart } from '../../chat.ts'
import { describe, isObject, type JsonObject } from '../../json.ts'
import { note } from '../../notes.ts'
import { imagePart, knownDetail, textPart } from '../content.ts'
import { isAbsent, object, refuse, text } from '../reading.ts'

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

export function isContentType(type: unknown): boolean {
  return typeof type === 'string' && (Object.hasOwn(TEXTS, type) || IMAGES.has(type))
}

/** A string counts as one text; a part that cannot be shown to a model is refused, one of an unknown kind is noted. */
export function readParts(content: unknown, place: string, diagnostics: Diagnostic[]): readonly ContentPart[] {
  if (typeof content === 'string') return [textPart(content)]
  if (!Array.isArray(content)) return refuse(place, `expected a string or an array of parts, got ${describe(content)}`)
  return content.flatMap((part: unknown, index) => readPart(object(part, `${place}[${index}]`), `${place}[${index}]`, diagnostics))
}

/** One part, or none. */
export function readPart(part: JsonObject, place: string, diagnostics: Diagnostic[]): readonly ContentPart[] {
  const { type } = part
  if (typeof type !== 'string') return refuse(`${place}.type`, `expected a string, got ${describe(type)}`)
  const field = Object.hasOwn(TEXTS, type) ? TEXTS[type] : undefined
  if (field !== undefined) return [textPart(text(part[field], `${place}.${field}`, true))]
  if (IMAGES.has(type)) return [readImage(part, place, diagnostics)]
  if (type === 'input_file') return refuse(place, 'files cannot be shown to this model; send their text, or images of their pages')
  if (type === 'input_audio') return refuse(place, 'audio cannot be played to this model')
  note('block-dropped', `${place}: ${type}`, diagnostics)
  return []
}

function readImage(part: JsonObject, place: string, diagnostics: Diagnostic[]): ContentPart {
  const { image_url: image, detail } = part
  if (isAbsent(image)) return refuse(`${place}.image_url`, 'expected a URL or a data URL: no files are stored here')
  const here = `${place}.image_url${isObject(image) ? '.url' : ''}`
  const wished = isAbsent(detail) && isObject(image) ? image.detail : detail
  const known = knownDetail(wished)
  if (known === undefined && !isAbsent(wished)) note('field-dropped', `${place}.detail`, diagnostics)
  return imagePart(text(isObject(image) ? image.url : image, here), here, known)
}
