// Results of benches as one table for people: one line per bench, under its group.

export type BenchRow = {
  readonly group: string
  readonly bench: string
  /** Nanoseconds per iteration. */
  readonly avgNs: number
  readonly p50Ns: number
  readonly p99Ns: number
  /** Bytes allocated on the heap per iteration; null when it was not measured. */
  readonly heapBytes: number | null
}

const UNITS = [
  ['s', 1e9],
  ['ms', 1e6],
  ['µs', 1e3],
] as const

export function renderTable(rows: readonly BenchRow[]): string {
  const width = Math.max(0, ...rows.map((row) => row.bench.length)) + 2
  const cells = (texts: readonly string[]): string => texts.map((text) => text.padStart(11)).join('')
  const lines = [`${' '.repeat(width)}${cells(['average', 'p50', 'p99', 'heap'])}`]
  let group: string | null = null
  for (const row of rows) {
    if (row.group !== group) lines.push(row.group)
    group = row.group
    const heap = row.heapBytes === null ? '–' : bytesText(row.heapBytes)
    lines.push(`  ${row.bench.padEnd(width - 2)}${cells([timeText(row.avgNs), timeText(row.p50Ns), timeText(row.p99Ns), heap])}`)
  }
  return `${lines.join('\n')}\n`
}

function timeText(ns: number): string {
  for (const [unit, size] of UNITS) if (ns >= size) return `${(ns / size).toFixed(2)} ${unit}`
  return `${ns.toFixed(2)} ns`
}

function bytesText(bytes: number): string {
  if (bytes >= 2 ** 20) return `${(bytes / 2 ** 20).toFixed(2)} MiB`
  return bytes >= 2 ** 10 ? `${(bytes / 2 ** 10).toFixed(2)} KiB` : `${Math.round(bytes)} B`
}
