// The direction of imports inside src/: which part may know which.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'

/**
 * For each part of src/ the parts it may import from; every part knows itself. A part is a folder, one actor, or a file directly in src/.
 * kernel ← tokens ← proxy ← actors ← main; runtime, harness, evaluators and trajectory know no actor, http knows their protocols only,
 * and so does one actor of the others. Only those with `*` know every actor.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  kernel: [],
  'python-json': [],
  tokens: ['kernel'],
  runtime: ['contract', 'kernel'],
  harness: ['contract', 'runtime'],
  evaluators: ['contract', 'kernel', 'runtime'],
  trajectory: ['contract', 'evaluators', 'kernel', 'tokens'],
  proxy: ['contract', 'kernel', 'python-json', 'tokens'],
  tasks: ['contract', 'evaluators', 'tokens', 'trajectory'],
  engine: ['kernel', 'python-json'],
  http: ['contract', 'kernel', 'actors/*/protocol'],
  actors: [],
  'actors/*': [
    'actors',
    'actors/*/protocol',
    'contract',
    'evaluators',
    'harness',
    'kernel',
    'proxy',
    'runtime',
    'tasks',
    'tokens',
    'trajectory',
  ],
  config: ['contract'],
  'data-folder': ['runtime'],
  'node-drain': ['kernel', 'actors/*/protocol'],
  'node-setup': ['config', 'contract', 'threads', 'topology'],
  threads: ['*'],
  topology: ['*'],
  main: ['*'],
  doctor: ['config', 'contract', 'harness', 'kernel', 'main', 'trajectory'],
  eval: ['contract'],
  cli: ['config', 'contract', 'doctor', 'engine', 'eval', 'harness', 'main'],
  index: ['config', 'contract', 'evaluators', 'harness', 'kernel', 'main', 'runtime', 'trajectory'],
}

export type Violation = { readonly file: string; readonly imports: string; readonly reason: string }

/** Static, for types only, for effect only, re-exported, and called at run time. */
const IMPORT = /(?:\bfrom\s*|\bimport\s*\(\s*|\bimport\s+)['"](\.[^'"]+)['"]/g

/** Every import of src/ that points the wrong way. */
export function findViolations(sourceFolder: string): readonly Violation[] {
  return sourceFiles(sourceFolder).flatMap((path) => {
    const file = relative(sourceFolder, path)
    return [...readFileSync(path, 'utf8').matchAll(IMPORT)].flatMap((match): readonly Violation[] => {
      const imports = relative(sourceFolder, resolve(dirname(path), match[1] ?? ''))
      const reason = reasonAgainst(file, imports)
      return reason === null ? [] : [{ file, imports, reason }]
    })
  })
}

function reasonAgainst(file: string, imports: string): string | null {
  if (imports.startsWith('..')) return 'src/ imports nothing outside itself'
  const [from, to] = [partOf(file), partOf(imports)]
  if (from === to) return null
  const allowed = MAY_IMPORT[from.startsWith('actors/') ? 'actors/*' : from]
  if (allowed === undefined) return `nothing is said of what ${from} may know`
  const isProtocol = to.startsWith('actors/') && imports.endsWith(`${sep}protocol.ts`)
  const isAllowed = allowed.includes('*') || allowed.includes(to) || (isProtocol && allowed.includes('actors/*/protocol'))
  return isAllowed ? null : `${from} may not know ${to}`
}

/** `actors/<name>` for one actor; the first folder otherwise; for a file directly in src/ its name, so that config.ts is part of config/. */
function partOf(path: string): string {
  const [first = '', second = '', ...deeper] = path.split(sep)
  if (second === '') return first.replace(/\.ts$/, '')
  return first === 'actors' && deeper.length > 0 ? `actors/${second}` : first
}

function sourceFiles(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted()
}
