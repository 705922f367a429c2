// What an evaluation knows already, beside its report: a run that was cut off goes on from here, also on a node that knows nothing of it.
import { appendFile, readFile, rm, writeFile } from 'node:fs/promises'
import { z } from 'zod'
import type { Vote } from './report.ts'

export type Journal = {
  /** By position in the dataset. */
  readonly votes: ReadonlyMap<number, readonly Vote[]>
  add(position: number, votes: readonly Vote[]): Promise<void>
  /** The report stands: nothing is left to go on from. */
  remove(): Promise<void>
}

const headSchema = z.object({ digest: z.string() })
const lineSchema = z.object({
  position: z.int().min(0),
  votes: z.array(
    z.object({
      session: z.string(),
      status: z.string(),
      outcome: z.string().nullable(),
      reward: z.number().nullable(),
      error: z.string().nullable(),
    }),
  ),
})

/** Starts anew where the file is of another run. */
export async function openJournal(file: string, digest: string): Promise<Journal> {
  const lines = await readLines(file)
  const [head, ...rest] = lines
  const isOurs = headSchema.safeParse(head).data?.digest === digest
  const votes = new Map<number, readonly Vote[]>()
  for (const line of isOurs ? rest : []) {
    const read = lineSchema.safeParse(line)
    if (read.success) votes.set(read.data.position, read.data.votes)
  }
  // Written anew in any case: a line that was cut off would swallow the next one.
  const kept = [{ digest }, ...[...votes].map(([position, cast]) => ({ position, votes: cast }))]
  await writeFile(file, kept.map((line) => `${JSON.stringify(line)}\n`).join(''))
  return {
    votes,
    add: (position, cast) => appendFile(file, `${JSON.stringify({ position, votes: cast })}\n`),
    remove: () => rm(file, { force: true }),
  }
}

/** What stands there; a line that is none is null. */
async function readLines(file: string): Promise<readonly unknown[]> {
  const text = await readFile(file, 'utf8').catch(() => '')
  return text.split('\n').map((line): unknown => {
    try {
      return JSON.parse(line)
    } catch {
      return null
    }
  })
}
