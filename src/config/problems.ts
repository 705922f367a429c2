// What is wrong with a polar.yaml, in the operator's terms: file, line, column, key and, for a misspelt key, the one that was meant.
import { type Document, isMap, isScalar, isSeq, type LineCounter, type Node, type Pair } from 'yaml'
import { z } from 'zod'
import { fileSchema } from './schema.ts'

export type ConfigProblem = {
  readonly file: string
  /** 0, like the column, for a file that could not be read. */
  readonly line: number
  readonly column: number
  /** Dotted path of the key, as in `gateway.nodes[0].port`; empty for the file as a whole. */
  readonly key: string
  readonly message: string
}

export type Path = readonly (string | number)[]

export type Place = { readonly file: string; readonly document: Document.Parsed; readonly lines: LineCounter }

export function syntaxProblems({ file, document, lines }: Place): readonly ConfigProblem[] {
  return document.errors.map((error) => ({ file, ...positionAt(lines, error.pos[0]), key: '', message: error.message }))
}

export function schemaProblems(place: Place, issues: readonly z.core.$ZodIssue[]): readonly ConfigProblem[] {
  return issues.flatMap((issue) => {
    const path = issue.path.filter((part) => typeof part !== 'symbol')
    if (issue.code !== 'unrecognized_keys') return [problemAt(place, path, messageOf(issue, isPresent(place.document, path)))]
    const known = keysAt(path)
    return issue.keys.map((key) => {
      const meant = nearest(key, known) ?? elsewhere(key)
      return problemAt(place, [...path, key], `unknown key${meant === null ? '' : `; did you mean ${meant}?`}`)
    })
  })
}

export function problemAt(place: Place, path: Path, message: string): ConfigProblem {
  return { file: place.file, ...positionAt(place.lines, offsetOf(place.document, path)), key: keyText(path), message }
}

function keyText(path: Path): string {
  return path.reduce<string>((text, part) => (typeof part === 'number' ? `${text}[${part}]` : text === '' ? part : `${text}.${part}`), '')
}

function messageOf(issue: z.core.$ZodIssue, present: boolean): string {
  if (issue.code === 'invalid_type' && !present) return 'is required'
  if (issue.code === 'invalid_key') return `${issue.issues[0]?.message ?? 'is not a valid name'}`
  return issue.message
}

function isPresent(document: Document.Parsed, path: Path): boolean {
  return path.length === 0 || document.hasIn(path)
}

/** Where a key is written; for one that is missing, where its nearest written ancestor is. */
function offsetOf(document: Document.Parsed, path: Path): number {
  let node: unknown = document.contents
  let offset = 0
  for (const part of path) {
    const pair = isMap(node) ? node.items.find((item) => nameOf(item) === String(part)) : undefined
    if (pair !== undefined) {
      offset = startOf(pair.key) ?? offset
      node = pair.value
      continue
    }
    const item = isSeq(node) && typeof part === 'number' ? node.items[part] : undefined
    if (item === undefined) return offset
    offset = startOf(item) ?? offset
    node = item
  }
  return offset
}

function nameOf(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value) : String(pair.key)
}

function startOf(node: unknown): number | null {
  return (node as Node | null)?.range?.[0] ?? null
}

function positionAt(lines: LineCounter, offset: number): { readonly line: number; readonly column: number } {
  const { line, col } = lines.linePos(offset)
  return { line: Math.max(1, line), column: Math.max(1, col) }
}

type JsonSchema = {
  readonly type?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly items?: JsonSchema
  readonly additionalProperties?: JsonSchema | boolean
  readonly anyOf?: readonly JsonSchema[]
}

// JSON Schema is the one public form in which zod shows what a schema knows.
const SHAPE = z.toJSONSchema(fileSchema, { io: 'input', unrepresentable: 'any' }) as JsonSchema

function keysAt(path: Path): readonly string[] {
  let schema: JsonSchema | undefined = SHAPE
  for (const part of path) {
    const known: JsonSchema | undefined = objectOf(schema)
    schema = typeof part === 'number' ? known?.items : (known?.properties?.[part] ?? valuesOf(known))
  }
  return Object.keys(objectOf(schema)?.properties ?? {})
}

/** The one or two places where a key of exactly this name belongs, if it is written at the wrong level. */
function elsewhere(key: string): string | null {
  const found: string[] = []
  const visit = (schema: JsonSchema | undefined, path: string) => {
    const known = objectOf(schema)
    for (const [name, inner] of Object.entries(known?.properties ?? {})) {
      if (name === key) found.push(`${path}${name}`)
      visit(inner, `${path}${name}.`)
    }
    if (known?.items !== undefined) visit(known.items, path.replace(/\.$/, '[].'))
  }
  visit(SHAPE, '')
  return found.length === 0 || found.length > 2 ? null : found.join(' or ')
}

function objectOf(schema: JsonSchema | undefined): JsonSchema | undefined {
  const inner = schema?.anyOf?.find((option) => option.type !== 'null')
  return inner === undefined ? schema : objectOf(inner)
}

function valuesOf(schema: JsonSchema | undefined): JsonSchema | undefined {
  const values = schema?.additionalProperties
  return typeof values === 'object' ? values : undefined
}

/** The known key within two edits, or a third of the word for long ones. */
function nearest(key: string, known: readonly string[]): string | null {
  let best: string | null = null
  let bestEdits = Math.max(2, Math.floor(key.length / 3)) + 1
  for (const candidate of known) {
    const edits = editDistance(key.toLowerCase().replaceAll('-', '_'), candidate)
    if (edits < bestEdits) {
      best = candidate
      bestEdits = edits
    }
  }
  return best
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const substituted = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      row.push(Math.min(substituted, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1))
    }
    previous = row
  }
  return previous[b.length] ?? 0
}
