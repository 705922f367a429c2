// polar.yaml: read, checked against Polar's topology and ours, and answered as settings or as problems with their place in the file.
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { LineCounter, parseDocument } from 'yaml'
import { inferenceProblems } from './config/inference.ts'
import { type ConfigProblem, problemAt, schemaProblems, syntaxProblems } from './config/problems.ts'
import { type Config, conflicts, type Overrides, resolveConfig } from './config/resolve.ts'
import { fileSchema } from './config/schema.ts'

export type { Config, ConfigProblem }

export type ConfigResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly problems: readonly ConfigProblem[] }

/** Null: no file, all defaults, paths relative to the working directory. */
export async function loadConfig(path: string | null, overrides: Overrides = {}): Promise<ConfigResult> {
  if (path === null) return parseConfig('', null, process.cwd(), overrides)
  const file = resolve(path)
  try {
    return parseConfig(await readFile(file, 'utf8'), file, dirname(file), overrides)
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    const message = isMissing ? 'there is no such file' : `cannot be read: ${error instanceof Error ? error.message : String(error)}`
    return { ok: false, problems: [{ file, line: 0, column: 0, key: '', message }] }
  }
}

/** `folder` is what relative paths in the text are relative to. */
export function parseConfig(text: string, file: string | null, folder: string, overrides: Overrides = {}): ConfigResult {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const place = { file: file ?? '(no file)', document, lines }
  if (document.errors.length > 0) return { ok: false, problems: syntaxProblems(place) }
  const value = toValue(document)
  if (!value.ok) return { ok: false, problems: [problemAt(place, [], value.message)] }
  const parsed = fileSchema.safeParse(value.content ?? {})
  if (!parsed.success) return { ok: false, problems: schemaProblems(place, parsed.error.issues) }
  const config = resolveConfig(file, folder, parsed.data, overrides)
  const unserved = overrides.isClient === true ? [] : inferenceProblems(place, parsed.data, config)
  const problems = [...conflicts(place, parsed.data, config), ...unserved]
  return problems.length === 0 ? { ok: true, config } : { ok: false, problems }
}

function toValue(document: ReturnType<typeof parseDocument>) {
  try {
    const content: unknown = document.toJS({ maxAliasCount: 100 })
    return { ok: true, content } as const
  } catch (error) {
    // Aliases that expand without end, or that point to nothing.
    return { ok: false, message: error instanceof Error ? error.message : String(error) } as const
  }
}
