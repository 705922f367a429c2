// Runs real agent CLIs through a real node: `node scripts/test-harness.ts [harness…]`, all of them when none is named. Installs them first.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { agentOfHarness, ensureAgent } from './agents.ts'

type Report = {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message?: string
    readonly assertionResults: readonly { readonly status: string }[]
  }[]
}

const root = resolve(import.meta.dirname, '..')
const SUITES = join(root, 'test/harness')
const SUFFIX = '.test.ts'

const known = readdirSync(SUITES).flatMap((name) => (name.endsWith(SUFFIX) ? [name.slice(0, -SUFFIX.length)] : []))
const asked = [...new Set(process.argv.slice(2).map(agentOfHarness))]
const unknown = asked.filter((name) => !known.includes(name))
if (unknown.length > 0) {
  const names = known.map((name) => name.replaceAll('-', '_'))
  process.stderr.write(`unknown: ${unknown.join(', ')}\nusage: node scripts/test-harness.ts [harness...]; known: ${names.join(', ')}\n`)
  process.exit(2)
}
const names = asked.length === 0 ? known : asked
for (const name of names) await ensureAgent(name)

const folder = mkdtempSync(join(tmpdir(), 'polar-test-harness-'))
const reportFile = join(folder, 'report.json')
const { status } = spawnSync(
  resolve(root, 'node_modules/.bin/vitest'),
  [
    'run',
    ...names.map((name) => `test/harness/${name}${SUFFIX}`),
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${reportFile}`,
  ],
  { cwd: root, stdio: 'inherit' },
)

let report: Report | null = null
try {
  report = JSON.parse(readFileSync(reportFile, 'utf8')) as Report // vitest's own report, read right after it wrote it
} catch {
  process.stdout.write('the test runner left no report\n')
}
rmSync(folder, { recursive: true, force: true })

// A file that fails to load, or whose node does not start, holds no test that failed; it counts as one failure.
const broken =
  report?.testResults.filter((file) => file.status === 'failed' && file.assertionResults.every((test) => test.status !== 'failed')) ?? []
for (const file of broken) process.stdout.write(`did not run: ${file.name}: ${file.message ?? ''}\n`)

const passed = report?.numPassedTests ?? 0
const failed = (report?.numFailedTests ?? 0) + broken.length
process.stdout.write(`${passed} passed, ${failed} failed\n`)
process.exitCode = status === 0 && failed === 0 && passed > 0 ? 0 : 1
