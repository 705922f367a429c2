// Breaks one rule of the code at a time, in a copy, and demands that a suite goes red: proof that the suites can fail.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { PlantedFault } from './fault.ts'
import { FAULTS } from './faults.ts'

const root = resolve(import.meta.dirname, '../..')
const COPIED = [
  'src',
  'test',
  'schemas',
  'scripts',
  'examples',
  'assets',
  'agents',
  'bin',
  'package.json',
  'tsconfig.json',
  'vitest.config.ts',
]
/** Copies worked on at once: the suites are single processes, and two of them fill the reference machine. */
const WORKERS = 2
/** For the run that is to see a fault; a single test that hangs fails by its own, shorter limit. */
const RUN_MS = 180_000
/** For all suites in one run. */
const BASELINE_MS = 1_200_000
const TEST_MS = 45_000
const HOOK_MS = 60_000

type Verdict =
  /** `first`: the name of a test that failed, so that a reader can see whether it is the right one. */
  | { readonly type: 'red'; readonly failed: number; readonly first: string; readonly why: string }
  | { readonly type: 'green'; readonly passed: number }
  /** It did not load, did not end, or broke outside of its tests: that is no proof that a test would have seen the fault. */
  | { readonly type: 'broken'; readonly detail: string }

const only = process.argv.slice(2)
const faults = only.length === 0 ? FAULTS : FAULTS.filter((fault) => only.some((name) => fault.name.includes(name)))
const problems: string[] = []
const copies: string[] = []
let seen = 0
const queue: (PlantedFault | 'baseline')[] = ['baseline', ...faults]

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
process.on('exit', () => copies.forEach(discard))

if (faults.length === 0) problems.push(`no fault is named like ${only.join(', ')}`)
problems.push(...tableProblems())
// A table that does not fit the code is told at once, not after minutes.
if (problems.length === 0) await Promise.all(Array.from({ length: Math.min(WORKERS, queue.length) }, work))
for (const problem of problems) process.stdout.write(`planted: ${problem}\n`)
process.stdout.write(`planted: ${seen} of ${faults.length} faults were seen\n`)
process.exitCode = problems.length === 0 ? 0 : 1

function tableProblems(): readonly string[] {
  return faults.flatMap(({ name, file, find, replace, suites: files }) => {
    const found: string[] = []
    if (FAULTS.filter((fault) => fault.name === name).length > 1) found.push('another fault has its name')
    const places = existsSync(join(root, file)) ? readFileSync(join(root, file), 'utf8').split(find).length - 1 : 0
    if (places !== 1) found.push(`its place occurs ${places} times in ${file}`)
    if (find === replace) found.push('it changes nothing')
    for (const suite of files) if (!existsSync(join(root, suite))) found.push(`there is no ${suite}`)
    return found.map((problem) => `${name}: ${problem}`)
  })
}

async function work(): Promise<void> {
  const copy = mkdtempSync(join(tmpdir(), 'polar-planted-'))
  copies.push(copy)
  mkdirSync(join(copy, 'tmp'))
  for (const name of COPIED) cpSync(join(root, name), join(copy, name), { recursive: true })
  for (const linked of ['node_modules', '.cache']) symlinkSync(join(root, linked), join(copy, linked))
  for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
    if (job === 'baseline') await checkBaseline(copy)
    else await checkFault(copy, job)
  }
  discard(copy)
}

/** Without a fault every suite used below must be green; otherwise red would prove nothing. */
async function checkBaseline(copy: string): Promise<void> {
  const whole = new Set(faults.flatMap(({ suites, tests }) => (tests === undefined ? suites : [])))
  const partly = new Set(faults.flatMap(({ suites }) => suites.filter((suite) => !whole.has(suite))))
  const pattern = faults.flatMap(({ tests }) => tests ?? []).join('|')
  for (const [suites, options] of [[whole, []] as const, [partly, [`--testNamePattern=${pattern}`]] as const]) {
    if (suites.size === 0) continue
    const verdict = await runSuites(copy, [...suites], options, BASELINE_MS)
    process.stdout.write(`planted: baseline: ${describe(verdict)}\n`)
    if (verdict.type !== 'green') problems.push(`baseline: ${describe(verdict)}${verdict.type === 'red' ? `\n${verdict.why}` : ''}`)
  }
}

async function checkFault(copy: string, fault: PlantedFault): Promise<void> {
  const file = join(copy, fault.file)
  const original = readFileSync(file, 'utf8')
  writeFileSync(
    file,
    original.replace(fault.find, () => fault.replace),
  )
  try {
    // The first failure is proof enough.
    const options = ['--bail=1', ...(fault.tests === undefined ? [] : [`--testNamePattern=${fault.tests}`])]
    const verdict = await runSuites(copy, fault.suites, options, RUN_MS)
    process.stdout.write(`planted: ${fault.name}: ${describe(verdict)}\n`)
    if (verdict.type === 'red') seen += 1
    else problems.push(`${fault.name}: ${describe(verdict)} (${fault.suites.join(', ')})`)
  } finally {
    writeFileSync(file, original)
  }
}

async function runSuites(copy: string, files: readonly string[], options: readonly string[], limitMs: number): Promise<Verdict> {
  const report = join(copy, 'report.json')
  rmSync(report, { force: true })
  const child = spawn(
    process.execPath,
    [
      join(root, 'node_modules/vitest/vitest.mjs'),
      'run',
      '--maxWorkers=1',
      '--cache=false',
      // A fault that makes a test hang is seen at its limit: a hook that hangs as well must still end within the run's own.
      `--testTimeout=${TEST_MS}`,
      `--hookTimeout=${HOOK_MS}`,
      '--reporter=json',
      `--outputFile=${report}`,
      ...options,
      ...files,
    ],
    // What broken code leaves in the temporary folder goes with the copy.
    { cwd: copy, env: { ...process.env, TMPDIR: join(copy, 'tmp'), NO_COLOR: '1' }, stdio: ['ignore', 'ignore', 'pipe'] },
  )
  let isOverdue = false
  const overdue = setTimeout(() => {
    isOverdue = true
    endProcesses(copy)
  }, limitMs)
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints = (complaints + text).slice(-1_000)
  })
  await once(child, 'exit')
  clearTimeout(overdue)
  endProcesses(copy)
  // A slow machine looks the same, so it proves nothing.
  if (isOverdue) return { type: 'broken', detail: `not done after ${limitMs / 1_000} s` }
  return readVerdict(report, child.exitCode, complaints)
}

function readVerdict(report: string, exitCode: number | null, complaints: string): Verdict {
  let parsed: {
    readonly numPassedTests: number
    readonly testResults: readonly {
      readonly name: string
      readonly status: string
      readonly message?: string
      readonly assertionResults: readonly {
        readonly status: string
        readonly fullName: string
        readonly failureMessages?: readonly string[]
      }[]
    }[]
  }
  try {
    parsed = JSON.parse(readFileSync(report, 'utf8'))
  } catch {
    return { type: 'broken', detail: complaints || 'no report was written' }
  }
  const hasRedTest = parsed.testResults.some(({ assertionResults }) => assertionResults.some((test) => test.status === 'failed'))
  for (const { name, status, message, assertionResults } of parsed.testResults) {
    // A file fails without a failed test when it cannot be loaded, or in a hook; without a word when a red test elsewhere ended the run.
    const isUnloaded = status === 'failed' && assertionResults.every((test) => test.status !== 'failed')
    const isCutShort = hasRedTest && (message ?? '') === ''
    if (isUnloaded && !isCutShort)
      return { type: 'broken', detail: `${name} failed outside of its tests: ${message ?? ''}`.slice(0, 1_000) }
  }
  const failed = parsed.testResults.flatMap((file) => file.assertionResults.filter((test) => test.status === 'failed'))
  const [first] = failed
  if (first !== undefined) {
    const why = (first.failureMessages ?? []).join('\n').slice(0, 1_000)
    return { type: 'red', failed: failed.length, first: first.fullName, why }
  }
  if (exitCode !== 0) return { type: 'broken', detail: `vitest ended with ${exitCode} although no test failed: ${complaints}` }
  return parsed.numPassedTests === 0 ? { type: 'broken', detail: 'no test ran' } : { type: 'green', passed: parsed.numPassedTests }
}

function describe(verdict: Verdict): string {
  switch (verdict.type) {
    case 'red':
      return `red by '${verdict.first}'`
    case 'green':
      return `GREEN, all ${verdict.passed} tests passed`
    case 'broken':
      return `did not run: ${verdict.detail}`
  }
}

function discard(copy: string): void {
  endProcesses(copy)
  rmSync(copy, { recursive: true, force: true, maxRetries: 3 })
}

/** Ends what runs in a copy: suites that do not end, and what broken code failed to end itself. */
function endProcesses(copy: string): void {
  for (const pid of readdirSync('/proc').map(Number)) {
    if (!Number.isInteger(pid) || pid === process.pid) continue
    try {
      if (`${readlinkSync(`/proc/${pid}/cwd`)}/`.startsWith(`${copy}/`)) process.kill(pid, 'SIGKILL')
    } catch {
      // Gone since it was listed, or not ours.
    }
  }
}
