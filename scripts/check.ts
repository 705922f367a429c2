// Everything that can be said about the code without running it: types, lint and format, import direction, dead exports.
import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import { findViolations } from './imports.ts'

const root = resolve(import.meta.dirname, '..')
const failures: string[] = []

function run(name: string, command: string, args: readonly string[]): void {
  process.stdout.write(`check: ${name}\n`)
  const { status } = spawnSync(resolve(root, 'node_modules/.bin', command), args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) failures.push(name)
}

run('types', 'tsc', ['-p', '.'])
// What is published has declarations too, and those must be able to name every type.
run('build', 'tsc', ['-p', 'tsconfig.build.json', '--noEmit'])
run('lint and format', 'biome', ['ci', '--error-on-warnings', '.'])
run('dead exports and dependencies', 'knip', ['--no-progress'])

process.stdout.write('check: import direction\n')
const violations = findViolations(resolve(root, 'src'))
for (const { file, imports, reason } of violations) process.stdout.write(`  src/${file} imports src/${imports}: ${reason}\n`)
if (violations.length > 0) failures.push('import direction')

process.stdout.write(failures.length === 0 ? 'check: all good\n' : `check: failed: ${failures.join(', ')}\n`)
process.exitCode = failures.length === 0 ? 0 : 1
