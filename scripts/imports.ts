// The direction of imports inside src/: which folder may know which.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'

/**
 * For each folder of src/ the folders it may import from, itself included by default.
 * kernel ← tokens ← proxy ← actors ← main; runtime, harness, evaluators and trajectory know no actor.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  kernel: [],
  tokens: ['kernel'],
  trajectory: ['contract', 'tokens'],
  runtime: ['contract', 'kernel'],
  harness: ['contract', 'runtime'],
  evaluators: ['contract', 'runtime', 'kernel'],
  proxy: ['contract', 'kernel', 'tokens'],
  tasks: ['contract', 'kernel', 'tokens', 'trajectory', 'evaluators'],
  engine: ['contract', 'kernel'],
  http: ['contract', 'kernel', 'actors/*/protocol'],
  'actors/*': [
    'contract',
    'kernel',
    'tokens',
    'proxy',
    'trajectory',
    'runtime',
    'harness',
    'evaluators',
    'tasks',
    'actors',
    'actors/*/protocol',
  ],
  actors: ['contract', 'kernel'],
  cli: ['contract', 'kernel', 'engine', 'http', 'config', 'root'],
  config: ['contract'],
  threads: ['*'],
  root: ['*'],
}

export type Violation = { readonly file: string; readonly imports: string; readonly reason: string }

const IMPORT = /(?:import|export)\s+(?:type\s+)?(?:[^'"]*?\sfrom\s+)?['"](\.[^'"]+)['"]/g

/** Every import of src/ that points the wrong way. */
export function findViolations(sourceFolder: string): readonly Violation[] {
  const violations: Violation[] = []
  for (const file of sourceFiles(sourceFolder)) {
    const from = folderOf(relative(sourceFolder, file))
    for (const match of readFileSync(file, 'utf8').matchAll(IMPORT)) {
      const target = relative(sourceFolder, resolve(dirname(file), match[1] ?? ''))
      if (target.startsWith('..')) {
        violations.push({ file: relative(sourceFolder, file), imports: target, reason: 'src/ imports nothing outside itself' })
        continue
      }
      const to = folderOf(target)
      if (!isAllowed(from, to, target))
        violations.push({ file: relative(sourceFolder, file), imports: target, reason: `${from} may not know ${to}` })
    }
  }
  return violations
}

function isAllowed(from: string, to: string, target: string): boolean {
  if (from === to) return true
  const rules = MAY_IMPORT[from.startsWith('actors/') ? 'actors/*' : from]
  if (rules === undefined) return false
  if (rules.includes('*') || rules.includes(to)) return true
  const isProtocol = to.startsWith('actors/') && target.endsWith(`${sep}protocol.ts`)
  return isProtocol && rules.includes('actors/*/protocol')
}

/** `actors/<name>` for actors, the first folder otherwise, `root` for files directly in src/ (config.ts has its own name). */
function folderOf(path: string): string {
  const parts = path.split(sep)
  if (parts.length === 1) return parts[0] === 'config.ts' ? 'config' : 'root'
  if (parts[0] === 'actors') return parts.length === 2 ? 'actors' : `actors/${parts[1]}`
  return parts[0] ?? 'root'
}

function sourceFiles(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
}
