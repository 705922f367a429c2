// Breaks one rule of the code at a time, in a copy, and demands that a suite goes red: proof that the suites can fail.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { FAULTS, type PlantedFault } from './faults.ts'

const root = resolve(import.meta.dirname, '../..')
const COPIED = ['src', 'test', 'scripts', 'examples', 'agents', 'bin', 'package.json', 'tsconfig.json', 'vitest.config.ts']
/** Copies worked on at once: the suites are single processes, and two of them fill the reference machine. */
const WORKERS = 2
const SUITE_MS = 180_000

type Verdict =
  | { readonly type: 'red'; readonly failed: number }
  | { readonly type: 'green'; readonly passed: number }
  /** The suite did not even load: that is no proof that a test would have seen the fault. */
  | { readonly type: 'broken'; readonly detail: string }

const only = process.argv.slice(2)
const faults = only.length === 0 ? FAULTS : FAULTS.filter((fault) => only.some((name) => fault.name.includes(name)))
const problems: string[] = []
const queue: (PlantedFault | 'baseline')[] = ['baseline', ...faults]
const suites = [...new Set(faults.flatMap((fault) => fault.suites))]

await Promise.all(Array.from({ length: WORKERS }, work))
for (const problem of problems) process.stdout.write(`planted: ${problem}\n`)
process.stdout.write(
  `planted: ${faults.length - problems.filter((problem) => !problem.startsWith('baseline')).length} of ${faults.length} faults were seen\n`,
)
process.exitCode = problems.length === 0 && faults.length > 0 ? 0 : 1

async function work(): Promise<void> {
  const copy = mkdtempSync(join(tmpdir(), 'polar-planted-'))
  try {
    for (const name of COPIED) cpSync(join(root, name), join(copy, name), { recursive: true })
    for (const linked of ['node_modules', '.cache']) symlinkSync(join(root, linked), join(copy, linked))
    for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
      if (job === 'baseline') await checkBaseline(copy)
      else await checkFault(copy, job)
    }
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** Without a fault every suite used below must be green; otherwise red would prove nothing. */
async function checkBaseline(copy: string): Promise<void> {
  const verdict = await runSuites(copy, suites)
  process.stdout.write(`planted: baseline: ${describe(verdict)}\n`)
  if (verdict.type !== 'green') problems.push(`baseline: ${describe(verdict)}`)
}

async function checkFault(copy: string, fault: PlantedFault): Promise<void> {
  const file = join(copy, fault.file)
  const original = readFileSync(file, 'utf8')
  const places = original.split(fault.find).length - 1
  if (places !== 1) {
    problems.push(`${fault.name}: its place occurs ${places} times in ${fault.file}`)
    return
  }
  writeFileSync(
    file,
    original.replace(fault.find, () => fault.replace),
  )
  try {
    const verdict = await runSuites(copy, fault.suites)
    process.stdout.write(`planted: ${fault.name}: ${describe(verdict)}\n`)
    if (verdict.type !== 'red') problems.push(`${fault.name}: ${describe(verdict)} (${fault.suites.join(', ')})`)
  } finally {
    writeFileSync(file, original)
  }
}

async function runSuites(copy: string, files: readonly string[]): Promise<Verdict> {
  const report = join(copy, 'report.json')
  rmSync(report, { force: true })
  const child = spawn(
    process.execPath,
    [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--maxWorkers=1', '--reporter=json', `--outputFile=${report}`, ...files],
    { cwd: copy, stdio: ['ignore', 'ignore', 'pipe'], timeout: SUITE_MS, killSignal: 'SIGKILL' },
  )
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints = (complaints + text).slice(-1_000)
  })
  const [, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  // A suite that never ends has seen the fault as surely as one that fails: the rule it breaks is "this settles".
  if (signal !== null) return { type: 'red', failed: 1 }
  return readVerdict(report, complaints)
}

function readVerdict(report: string, complaints: string): Verdict {
  let parsed: {
    readonly numPassedTests: number
    readonly numFailedTests: number
    readonly testResults: readonly {
      readonly status: string
      readonly message?: string
      readonly assertionResults: readonly { readonly status: string }[]
    }[]
  }
  try {
    parsed = JSON.parse(readFileSync(report, 'utf8'))
  } catch {
    return { type: 'broken', detail: complaints }
  }
  if (parsed.numFailedTests > 0) return { type: 'red', failed: parsed.numFailedTests }
  const unloaded = parsed.testResults.find((file) => file.status === 'failed')
  if (unloaded !== undefined) return { type: 'broken', detail: unloaded.message ?? 'a suite did not load' }
  return parsed.numPassedTests === 0 ? { type: 'broken', detail: 'no test ran' } : { type: 'green', passed: parsed.numPassedTests }
}

function describe(verdict: Verdict): string {
  switch (verdict.type) {
    case 'red':
      return `red, ${verdict.failed} tests failed`
    case 'green':
      return `GREEN, all ${verdict.passed} tests passed`
    case 'broken':
      return `did not run: ${verdict.detail}`
  }
}
