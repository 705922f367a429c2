// Content of the pivot's messages: its parts, and when texts alone become one text.
import type { ContentPart } from '../chat.ts'
import { refuse } from './reading.ts'

export function textPart(text: string): ContentPart {
  return { type: 'text', text }
}

const DATA_URL = /^data:image\/[\w.+-]+;base64,/i

/**
 * An image at `place`, which must bring its own bytes: an address would be fetched by the inference server, which stands in the operator's
 * network and not in the sandbox's (vLLM and SGLang fetch any http address, SGLang opens files as well). `detail` is one that engines know.
 */
export function imagePart(url: string, place: string, detail?: 'auto' | 'low' | 'high'): ContentPart {
  if (!DATA_URL.test(url))
    refuse(place, 'expected the image itself, in base64 (data:image/png;base64,…): nothing is fetched from an address here')
  return { type: 'image_url', image_url: { url, ...(detail === undefined ? {} : { detail }) } }
}

/** The `detail` of an image as engines take it; OpenAI's `original` is none. */
export function knownDetail(detail: unknown): 'auto' | 'low' | 'high' | undefined {
  return detail === 'auto' || detail === 'low' || detail === 'high' ? detail : undefined
}

/** One text where there is nothing but text, joined the same way in every turn. */
export function contentOf(parts: readonly ContentPart[]): string | readonly ContentPart[] {
  return parts.every((part) => part.type === 'text') ? textOf(parts) : parts
}

/** The texts alone: a tool message holds nothing else. */
export function textOf(parts: readonly ContentPart[]): string {
  return parts.flatMap((part) => (typeof part.text === 'string' ? [part.text] : [])).join('\n')
}
