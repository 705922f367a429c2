// Runs suites with vitest and reads what became of each test: the same counting for every command that runs tests.
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
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[]
  }[]
}

export type Suites = {
  readonly passed: number
  /** Failed tests, and files that did not load: such a file holds no test that could fail. */
  readonly failed: number
  /** Full names. */
  readonly skipped: readonly string[]
  /** False also when nothing ran, or when the runner itself was not content. */
  readonly isGreen: boolean
}

export const root = resolve(import.meta.dirname, '..')

/** `options` are vitest's own: files and filters. */
export function runSuites(options: readonly string[]): Suites {
  const folder = mkdtempSync(join(tmpdir(), 'polar-test-'))
  const reportFile = join(folder, 'report.json')
  const { status } = spawnSync(
    resolve(root, 'node_modules/.bin/vitest'),
    ['run', ...options, '--reporter=default', '--reporter=json', `--outputFile.json=${reportFile}`],
    { cwd: root, stdio: 'inherit' },
  )
  const report = readReport(reportFile)
  rmSync(folder, { recursive: true, force: true })
  if (report === null) return { passed: 0, failed: 0, skipped: [], isGreen: false }

  const broken = report.testResults.filter(
    (file) => file.status === 'failed' && file.assertionResults.every((test) => test.status !== 'failed'),
  )
  for (const file of broken) process.stdout.write(`did not load: ${file.name}: ${file.message ?? ''}\n`)
  const tests = report.testResults.flatMap((file) => file.assertionResults)
  const passed = report.numPassedTests
  const failed = report.numFailedTests + broken.length
  return {
    passed,
    failed,
    skipped: tests.filter((test) => test.status !== 'passed' && test.status !== 'failed').map((test) => test.fullName),
    isGreen: status === 0 && failed === 0 && passed > 0,
  }
}

function readReport(file: string): Report | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Report // vitest's own report, read right after it wrote it
  } catch {
    process.stdout.write('the test runner left no report\n')
    return null
  }
}
