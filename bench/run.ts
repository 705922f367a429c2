// Runs benches by suite and prints one table: npm run bench -- micro|stream [--only TEXT] [--json FILE].
import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { run } from 'mitata'
import { type BenchRow, renderTable } from './lib/table.ts'
import { registerKernelBenches } from './micro/kernel.ts'
import { registerRolloutServerBenches } from './micro/rollout-server.ts'
import { registerTokenBenches } from './micro/tokens.ts'
import { registerTrajectoryBenches } from './micro/trajectory.ts'
import { registerStreamBenches } from './stream/first-word.ts'

const SUITES: Readonly<Record<string, () => void>> = {
  micro() {
    registerKernelBenches()
    registerTokenBenches()
    registerTrajectoryBenches()
    registerRolloutServerBenches()
  },
  stream: registerStreamBenches,
}

const USAGE = `usage: npm run bench -- ${Object.keys(SUITES).join('|')} [--only TEXT] [--json FILE]`

/** What mitata prints as JSON, as far as it is used here. */
type Report = {
  readonly layout: readonly { readonly name: string | null }[]
  readonly benchmarks: readonly {
    readonly group: number
    readonly runs: readonly {
      readonly name: string
      readonly stats?: {
        readonly avg: number
        readonly p50: number
        readonly p99: number
        readonly heap?: { readonly avg: number }
      }
      readonly error?: { readonly message: string }
    }[]
  }[]
  readonly context: {
    readonly runtime: string | null
    readonly version: string | null
    readonly arch: string | null
    readonly cpu: { readonly name: string | null }
  }
}

process.exitCode = await main()

async function main(): Promise<number> {
  const parsed = parse()
  if (!parsed.ok) {
    process.stderr.write(`bench: ${parsed.problem}\n${USAGE}\n`)
    return 2
  }
  parsed.register()
  let printed = ''
  await run({
    colors: false,
    format: { json: { debug: false, samples: false } },
    ...(parsed.only === null ? {} : { filter: new RegExp(parsed.only.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')) }),
    print: (text: string) => {
      printed += text
    },
  })
  const { layout, benchmarks, context }: Report = JSON.parse(printed)
  const rows: BenchRow[] = []
  const failures: string[] = []
  for (const { group, runs } of benchmarks) {
    for (const { name, stats, error } of runs) {
      if (stats === undefined) failures.push(`${name}: ${error?.message ?? 'no measurement'}`)
      else {
        const { avg: avgNs, p50: p50Ns, p99: p99Ns, heap } = stats
        rows.push({ group: layout[group]?.name ?? '', bench: name, avgNs, p50Ns, p99Ns, heapBytes: heap?.avg ?? null })
      }
    }
  }
  const machine = `${context.runtime} ${context.version}, ${context.cpu.name ?? context.arch}`
  process.stdout.write(`${machine}\n${renderTable(rows)}`)
  if (benchmarks.length === 0) failures.push(`no bench's name contains '${parsed.only}'`)
  if (parsed.json !== null) failures.push(...(await save(parsed.json, { machine, rows })))
  for (const failure of failures) process.stderr.write(`bench: ${failure}\n`)
  return failures.length === 0 ? 0 : 1
}

async function save(file: string, results: object): Promise<readonly string[]> {
  try {
    await writeFile(file, `${JSON.stringify(results, null, 2)}\n`)
    return []
  } catch (error) {
    return [`cannot write ${file}: ${error instanceof Error ? error.message : String(error)}`]
  }
}

type Parsed =
  | { readonly ok: true; readonly register: () => void; readonly only: string | null; readonly json: string | null }
  | { readonly ok: false; readonly problem: string }

function parse(): Parsed {
  try {
    const options = { only: { type: 'string' }, json: { type: 'string' } } as const
    const { values, positionals } = parseArgs({ options, allowPositionals: true })
    const [suite, extra] = positionals
    if (suite === undefined) return { ok: false, problem: 'name a suite' }
    const register = Object.hasOwn(SUITES, suite) ? SUITES[suite] : undefined
    if (register === undefined) return { ok: false, problem: `there is no suite '${suite}'` }
    if (extra !== undefined) return { ok: false, problem: `unknown argument '${extra}'` }
    return { ok: true, register, only: values.only ?? null, json: values.json ?? null }
  } catch (error) {
    return { ok: false, problem: error instanceof Error ? error.message : String(error) }
  }
}
