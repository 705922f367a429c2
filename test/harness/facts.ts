// What a run has shown of a CLI, noted when somebody gathers it.
import { basename } from 'node:path'
import { expect } from 'vitest'
import { FACTS_VARIABLE, type Fact, writeFact } from '../../scripts/harness-facts.ts'
import type { Rollout } from './rollout.ts'

function note(fact: Fact): void {
  const folder = process.env[FACTS_VARIABLE]
  if (folder !== undefined) writeFact(folder, basename(expect.getState().testPath ?? 'unknown', '.test.ts'), fact)
}

/** `routes` are those that the CLI asked for in this rollout of the short task. */
export function noteWay(harness: string, dialect: string, { sessions }: Rollout, routes: readonly string[]): void {
  note({ type: 'way', harness, dialect, routes: [...new Set(routes)], calls: sessions.map(({ records }) => records.length) })
}

export function noteDiagnostics(harness: string, { sessions }: Rollout): void {
  const codes = sessions.flatMap(({ records }) => records.flatMap(({ diagnostics }) => diagnostics.map(({ code }) => code)))
  note({ type: 'told', harness, diagnostics: [...new Set(codes)] })
}

export function noteEdges(harness: string, sessions: Rollout['sessions']): void {
  const kinds = [...new Set(sessions.flatMap(({ edges }) => edges.map(({ kind }) => kind)))].filter((kind) => kind !== 'extends')
  if (kinds.length > 0) note({ type: 'edges', harness, kinds })
}

export function noteBare(harness: string, dialect: string): void {
  note({ type: 'bare', harness, dialect })
}
