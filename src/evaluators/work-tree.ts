// The files of a repository as git lists them, and which of them the agent changed. Paths are latin1: one character per byte.
import { pathMatcher } from './path-pattern.ts'

type TreeEntry = { readonly mode: string; readonly oid: string }
export type TreeListing = ReadonlyMap<string, TreeEntry>

type Change = {
  readonly path: string
  /** Null for a new file. */
  readonly before: TreeEntry | null
  /** Null for a deleted file. */
  readonly after: TreeEntry | null
}

export type Selection = {
  readonly kept: readonly Change[]
  /** Left out by a pattern. */
  readonly excluded: readonly string[]
  /** Left out because the grader's own preparation laid a file there: its copy wins over the agent's. */
  readonly shadowed: readonly string[]
  /** Left out because a patch cannot hold them: repositories inside the repository. */
  readonly nested: readonly string[]
}

const NESTED_REPOSITORY = '160000'

/** What running tests leaves behind; never part of an agent's work. */
const ALWAYS_EXCLUDED = ['__pycache__', '*.pyc', '*.pyo', '.pytest_cache']

/** Reads `git ls-files --stage -z`. */
export function parseListing(bytes: Uint8Array): TreeListing {
  const entries = new Map<string, TreeEntry>()
  for (const record of Buffer.from(bytes).toString('latin1').split('\0')) {
    const match = /^(\d{6}) ([0-9a-f]+) \d\t(.+)$/s.exec(record)
    if (match === null) continue
    const [, mode = '', oid = '', path = ''] = match
    entries.set(path, { mode, oid })
  }
  return entries
}

/**
 * What the agent's work tree holds beyond `base`, less what a fresh sandbox holds just the same: files that preparation made, ignored
 * nowhere and committed nowhere, are nobody's change.
 */
export function selectChanges(base: TreeListing, agent: TreeListing, fresh: TreeListing, patterns: readonly string[]): Selection {
  const kept: Change[] = []
  const excluded: string[] = []
  const shadowed: string[] = []
  const nested: string[] = []
  const isExcluded = pathMatcher([...ALWAYS_EXCLUDED, ...patterns.map(latin1)])
  for (const path of [...new Set([...base.keys(), ...agent.keys()])].sort()) {
    const before = base.get(path) ?? null
    const after = agent.get(path) ?? null
    const prepared = fresh.get(path) ?? null
    if (areEqual(before, after) || areEqual(after, prepared)) continue
    if (before?.mode === NESTED_REPOSITORY || after?.mode === NESTED_REPOSITORY) nested.push(path)
    else if (isExcluded(path)) excluded.push(path)
    else if (!areEqual(before, prepared)) shadowed.push(path)
    else kept.push({ path, before, after })
  }
  return { kept, excluded, shadowed, nested }
}

const latin1 = (text: string): string => Buffer.from(text).toString('latin1')

/** For people: the bytes of a path as UTF-8. */
export function readablePath(path: string): string {
  return Buffer.from(path, 'latin1').toString('utf8')
}

function areEqual(a: TreeEntry | null, b: TreeEntry | null): boolean {
  return a === null || b === null ? a === b : a.mode === b.mode && a.oid === b.oid
}
