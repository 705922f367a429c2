// Runs the vendors' own SDKs against the gateway: `node scripts/test-sdk.ts [filter…]`; a filter is a part of a test's name.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

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
const filters = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'polar-test-sdk-'))
const reportFile = join(folder, 'report.json')
// A test's full name holds every filter, in any order.
const pattern = filters.map((filter) => `(?=.*${filter.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')})`).join('')
const { status } = spawnSync(
  resolve(root, 'node_modules/.bin/vitest'),
  [
    'run',
    'test/sdk/',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${reportFile}`,
    ...(pattern === '' ? [] : [`--testNamePattern=^${pattern}`]),
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

// A file that fails to load holds no test that could fail; it counts as one failure.
const broken =
  report?.testResults.filter((file) => file.status === 'failed' && file.assertionResults.every((test) => test.status !== 'failed')) ?? []
for (const file of broken) process.stdout.write(`did not load: ${file.name}: ${file.message ?? ''}\n`)

const passed = report?.numPassedTests ?? 0
const failed = (report?.numFailedTests ?? 0) + broken.length
process.stdout.write(`${passed} passed, ${failed} failed\n`)
process.exitCode = status === 0 && failed === 0 && passed > 0 ? 0 : 1
