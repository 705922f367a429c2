// Content blocks of users, systems and tool results → parts of the pivot; what a chat template cannot be given is refused by name.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ContentPart } from '../../chat.ts'
import type { JsonObject } from '../../json.ts'
import { noteDropped } from '../../notes.ts'
import { imagePart, textPart } from '../content.ts'
import { isAbsent, list, object, refuse, text } from '../reading.ts'

export type TypedBlock = JsonObject & { readonly type: string }

export function readBlock(value: unknown, place: string): TypedBlock {
  const block = object(value, place)
  return { ...block, type: text(block.type, `${place}.type`) }
}

const SERVER_BLOCK = /^(?:server_tool_use|mcp_tool_use|mcp_tool_listing|container_upload|fallback|.+_tool_result)$/

/** What the vendor's own servers did within a turn. No engine here can do it, so only foreign history holds it: it is dropped with a note. */
export function isServerBlock({ type }: TypedBlock): boolean {
  return SERVER_BLOCK.test(type)
}

/** Cache marks move from turn to turn, and citations point into what the text was made from: neither is part of it. */
const BLOCK_FIELDS: { readonly [type: string]: ReadonlySet<string> } = {
  text: new Set(['type', 'text', 'cache_control', 'citations']),
  image: new Set(['type', 'source', 'cache_control']),
  document: new Set(['type', 'source', 'title', 'context', 'cache_control', 'citations']),
  search_result: new Set(['type', 'source', 'title', 'content', 'cache_control', 'citations']),
  tool_reference: new Set(['type', 'tool_name', 'cache_control']),
}

export function readParts(block: TypedBlock, place: string, diagnostics: Diagnostic[]): readonly ContentPart[] {
  const known = Object.hasOwn(BLOCK_FIELDS, block.type) ? BLOCK_FIELDS[block.type] : undefined
  if (known !== undefined) noteDropped(block, known, place, diagnostics)
  switch (block.type) {
    case 'text':
      return [textPart(text(block.text, `${place}.text`, true))]
    case 'image':
      return [readImage(object(block.source, `${place}.source`), `${place}.source`)]
    case 'document':
      return readDocument(block, place, diagnostics)
    case 'search_result': {
      const found = readContent(block.content, `${place}.content`, diagnostics)
      return withHeading([text(block.title, `${place}.title`, true), text(block.source, `${place}.source`, true)], found)
    }
    // The tool it names stands in the list of tools, where a template can show it.
    case 'tool_reference':
      return [textPart(`[tool_reference: ${text(block.tool_name, `${place}.tool_name`)}]`)]
    default:
      return refuse(place, `a block of type ${JSON.stringify(block.type)} cannot be given to the model here`)
  }
}

/** A string stands for one text block. */
export function readContent(value: unknown, place: string, diagnostics: Diagnostic[]): readonly ContentPart[] {
  if (typeof value === 'string') return [textPart(value)]
  return list(value, place).flatMap((block, index) => readParts(readBlock(block, `${place}[${index}]`), `${place}[${index}]`, diagnostics))
}

function readImage(source: JsonObject, place: string): ContentPart {
  switch (source.type) {
    case 'base64': {
      const type = text(source.media_type, `${place}.media_type`)
      return imagePart(`data:${type};base64,${text(source.data, `${place}.data`)}`, `${place}.media_type`)
    }
    case 'url':
      return imagePart(text(source.url, `${place}.url`), `${place}.url`)
    default:
      return refuse(place, `an image can be given as base64, not as ${named(source.type)}`)
  }
}

function readDocument(block: TypedBlock, place: string, diagnostics: Diagnostic[]): readonly ContentPart[] {
  const source = object(block.source, `${place}.source`)
  const heading = ['title', 'context'].map((name) => (isAbsent(block[name]) ? '' : text(block[name], `${place}.${name}`, true)))
  switch (source.type) {
    case 'text':
      return withHeading(heading, [textPart(text(source.data, `${place}.source.data`, true))])
    case 'content':
      return withHeading(heading, readContent(source.content, `${place}.source.content`, diagnostics))
    default:
      return refuse(place, `a document can be given as text or content, not as ${named(source.type)}: no engine here reads PDF`)
  }
}

/** The vendor shows a document's title and context to the model, before its text. */
function withHeading(heading: readonly string[], parts: readonly ContentPart[]): readonly ContentPart[] {
  const lines = heading.filter((line) => line !== '')
  return lines.length === 0 ? parts : [textPart(lines.join('\n')), ...parts]
}

function named(type: unknown): string {
  return typeof type === 'string' ? JSON.stringify(type) : 'a source without a type'
}
