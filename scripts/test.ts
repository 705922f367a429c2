// Runs every suite, installs what the suites need first, and prints one closing line. A skip that is not listed here fails.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { ensureAgent, knownAgents } from './agents.ts'

/** Full names of tests that may be skipped, each with the reason why a machine may lack what it needs. */
const LISTED_SKIPS: ReadonlyMap<string, string> = new Map()

type Report = {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numFailedTestSuites: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message?: string
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[]
  }[]
}

const root = resolve(import.meta.dirname, '..')
for (const agent of knownAgents()) await ensureAgent(agent)

const folder = mkdtempSync(join(tmpdir(), 'polar-test-'))
const reportFile = join(folder, 'report.json')
const { status } = spawnSync(
  resolve(root, 'node_modules/.bin/vitest'),
  ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${reportFile}`, ...process.argv.slice(2)],
  { cwd: root, stdio: 'inherit' },
)

let report: Report | null = null
try {
  report = JSON.parse(readFileSync(reportFile, 'utf8')) as Report // vitest's own report, read right after it wrote it
} catch {
  process.stdout.write('the test runner left no report\n')
}
rmSync(folder, { recursive: true, force: true })

const tests = report?.testResults.flatMap((file) => file.assertionResults) ?? []
const skipped = tests.filter((test) => test.status !== 'passed' && test.status !== 'failed')
const unlisted = skipped.filter((test) => !LISTED_SKIPS.has(test.fullName))
for (const test of unlisted) process.stdout.write(`skipped without a listed reason: ${test.fullName}\n`)
// A file that fails to load holds no test that could fail; it counts as one failure.
const broken =
  report?.testResults.filter((file) => file.status === 'failed' && file.assertionResults.every((test) => test.status !== 'failed')) ?? []
for (const file of broken) process.stdout.write(`did not load: ${file.name}: ${file.message ?? ''}\n`)

const passed = report?.numPassedTests ?? 0
const failed = (report?.numFailedTests ?? 0) + broken.length + unlisted.length
process.stdout.write(`${passed} passed, ${failed} failed, ${skipped.length} skipped\n`)
process.exitCode = status === 0 && failed === 0 && passed > 0 ? 0 : 1
