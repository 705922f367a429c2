// Images of Google's parts → the pivot's `image_url`; any other medium is refused by its place, for it would be missing from the prompt.
import type { ContentPart } from '../../chat.ts'
import { imagePart } from '../content.ts'
import { refuse, text } from '../reading.ts'
import { type Fields, objectAt, placeOf, textAt, valueAt } from './fields.ts'

/** The image that `inlineData` or `fileData` of a part holds; null when the part has neither. */
export function readMedia(part: Fields): ContentPart | null {
  const inline = objectAt(part, 'inlineData')
  if (inline !== null) {
    const mimeType = imageType(inline)
    return imagePart(`data:${mimeType};base64,${text(valueAt(inline, 'data'), placeOf(inline, 'data'))}`, placeOf(inline, 'mimeType'))
  }
  const file = objectAt(part, 'fileData')
  if (file === null) return null
  const uri = text(valueAt(file, 'fileUri'), placeOf(file, 'fileUri'))
  if (valueAt(file, 'mimeType') !== undefined || !IMAGE_NAME.test(uri)) imageType(file)
  return imagePart(uri, placeOf(file, 'fileUri'))
}

/** A file may come without its type; then its name has to say it. */
const IMAGE_NAME = /\.(?:png|jpe?g|webp|gif|bmp|heic|heif)(?:[?#]|$)/i

function imageType(data: Fields): string {
  const type = textAt(data, 'mimeType')
  if (type?.startsWith('image/') === true) return type
  return refuse(placeOf(data, 'mimeType'), `only images can be served, got ${type === null ? 'nothing' : JSON.stringify(type)}`)
}
