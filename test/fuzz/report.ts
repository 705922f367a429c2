// The closing tables of a run and its problems, in plain text.
import type { Column } from './judge.ts'
import type { RunReport } from './run.ts'
import type { Result } from './session.ts'

const COLUMNS: readonly Column[] = ['answered', 'refused', 'engine fault', 'cut short', 'left', 'wrong']
/** More would hide the first. */
const MAX_PROBLEMS = 40

export function describeRun(report: RunReport, seed: number): string {
  const { results, problems, smallest, generations, memoryBytes, blockedMs, seconds } = report
  const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`
  const lines = [
    ...table('dialect, kind', results, ({ plan }) => `${plan.dialect} ${plan.kind}`),
    '',
    ...table('client', results, ({ plan }) =>
      'at' in plan.behaviour ? `${plan.behaviour.type} ${plan.behaviour.at}` : plan.behaviour.type,
    ),
    '',
    ...table('engine', results, ({ plan }) => plan.wish.fault?.name ?? 'sound'),
    '',
    `${results.length} requests, ${generations} generations, ${seconds.toFixed(1)} s (${Math.round(results.length / seconds)}/s)`,
    `gateway memory ${mib(memoryBytes.early)} after the first tenth, ${mib(memoryBytes.late)} at the end`,
    `gateway loop blocked at most ${blockedMs.longest.toFixed(0)} ms, ${blockedMs.p99.toFixed(0)} ms at the 99th percentile`,
    ...problems.slice(0, MAX_PROBLEMS).map(({ index, session, problem }) => {
      const where = index !== null ? `request ${index} (--seed ${seed} --only ${index})` : session !== null ? `session ${session}` : 'run'
      return `PROBLEM ${where}: ${problem}`
    }),
    ...[...smallest].map(([index, form]) => `SMALLEST of request ${index}: ${form.slice(0, 4_000)}`),
    problems.length === 0 ? `seed ${seed}: nothing broke` : `seed ${seed}: ${problems.length} problems`,
  ]
  return lines.join('\n')
}

export function describeResult({ plan, column, problem }: Result): string {
  const { index, dialect, kind, note, method, path, query, behaviour, wish, json } = plan
  return [
    `request ${index}: ${dialect} ${kind}${note === '' ? '' : ` (${note})`}, ${JSON.stringify(behaviour)}, engine ${wish.fault === null ? 'sound' : `${wish.fault.name} ×${wish.fault.times}`}`,
    `  ${method} ${path}${query}`,
    `  ${json ?? plan.body?.toString().slice(0, 2_000) ?? 'no body'}`,
    `  → ${column}${problem === null ? '' : `: ${problem}`}`,
  ].join('\n')
}

function table(title: string, results: readonly Result[], name: (result: Result) => string): readonly string[] {
  const rows = new Map<string, Map<Column, number>>()
  for (const result of results) {
    const row = rows.get(name(result)) ?? new Map<Column, number>()
    rows.set(name(result), row.set(result.column, (row.get(result.column) ?? 0) + 1))
  }
  const width = Math.max(title.length, ...[...rows.keys()].map((key) => key.length))
  const line = (first: string, cells: readonly string[]): string =>
    `${first.padEnd(width)}${cells.map((cell) => cell.padStart(14)).join('')}`
  const sorted = [...rows].sort(([a], [b]) => (a < b ? -1 : 1))
  return [
    line(title, COLUMNS),
    ...sorted.map(([key, row]) =>
      line(
        key,
        COLUMNS.map((column) => String(row.get(column) ?? '·')),
      ),
    ),
  ]
}
