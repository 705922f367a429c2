// What runs of the real agent CLIs have shown, as JSON lines: a file for each suite, written by the suites, read for the table of the docs.
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { z } from 'zod'

/** The variable that names the folder; a run without it writes nothing. */
export const FACTS_VARIABLE = 'POLAR_HARNESS_FACTS'
export const FACTS_FOLDER = resolve(import.meta.dirname, '../.cache/harness-facts')

const factSchema = z.discriminatedUnion('type', [
  /** One way to run a CLI. */
  z.object({
    type: z.literal('way'),
    harness: z.string(),
    dialect: z.string(),
    /** Of the model API, as they stand behind the base URL. */
    routes: z.array(z.string()),
    /** The model calls of one session that does the task of two turns. */
    calls: z.array(z.int()),
  }),
  /** What the records say of its calls. */
  z.object({ type: z.literal('told'), harness: z.string(), diagnostics: z.array(z.string()) }),
  /** It did the short task without its preset: with the base URL and the key of its environment, and whatever its suite says. */
  z.object({ type: z.literal('bare'), harness: z.string(), dialect: z.string() }),
  /** Chains of a session that do not only extend each other, by what joins them. */
  z.object({ type: z.literal('edges'), harness: z.string(), kinds: z.array(z.string()) }),
])

export type Fact = z.infer<typeof factSchema>

export function writeFact(folder: string, suite: string, fact: Fact): void {
  mkdirSync(folder, { recursive: true })
  appendFileSync(join(folder, `${suite}.jsonl`), `${JSON.stringify(fact)}\n`)
}

/** Their names in the folder, sorted. */
export function factFiles(folder: string): readonly string[] {
  const names = existsSync(folder) ? readdirSync(folder) : []
  return names.filter((name) => name.endsWith('.jsonl')).toSorted()
}

export function readFacts(folder: string): readonly Fact[] {
  const lines = factFiles(folder).flatMap((name) => readFileSync(join(folder, name), 'utf8').trim().split('\n'))
  return lines.filter((line) => line !== '').map((line) => factSchema.parse(JSON.parse(line)))
}
