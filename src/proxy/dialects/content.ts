// Content of the pivot's messages: its parts, and when texts alone become one text.
import type { ContentPart } from '../chat.ts'

export function textPart(text: string): ContentPart {
  return { type: 'text', text }
}

/** `url` may be a data URL; `detail` is one that engines know. */
export function imagePart(url: string, detail?: 'auto' | 'low' | 'high'): ContentPart {
  return { type: 'image_url', image_url: { url, ...(detail === undefined ? {} : { detail }) } }
}

/** One text where there is nothing but text, joined the same way in every turn. */
export function contentOf(parts: readonly ContentPart[]): string | readonly ContentPart[] {
  return parts.every((part) => part.type === 'text') ? textOf(parts) : parts
}

/** The texts alone: a tool message holds nothing else. */
export function textOf(parts: readonly ContentPart[]): string {
  return parts.flatMap((part) => (typeof part.text === 'string' ? [part.text] : [])).join('\n')
}
