// Re-scores what a real model sampled and the node captured: `node scripts/test-tokens.ts`. Installs the agent CLIs it needs first.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { REPORT_VARIABLE, type ReportLine } from '../test/tokens/report.ts'
import { ensureAgent } from './agents.ts'
import { runSuites } from './suites.ts'

for (const agent of ['pi', 'claude-code']) await ensureAgent(agent)

const folder = mkdtempSync(join(tmpdir(), 'polar-tokens-'))
const file = join(folder, 'report.jsonl')
process.env[REPORT_VARIABLE] = file
const { passed, failed, isGreen } = runSuites(['test/tokens/', 'test/e2e/weight-versions'])
const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(readLine) : []
rmSync(folder, { recursive: true, force: true })

const digits = (value: number): string => value.toExponential(1)
for (const { source, note, sessions, calls, traces, trainedTurns, trainedTokens, worstDelta, meanRatio } of lines) {
  const merged = traces === 0 ? 0 : trainedTurns / traces
  const counted = `${sessions} sessions, ${calls} calls, ${traces} traces, merge ratio ${merged.toFixed(2)}, ${trainedTokens} trained tokens`
  process.stdout.write(
    `${source.padEnd(30)} ${counted}, max |delta| ${digits(worstDelta)}, mean ratio ${meanRatio.toFixed(6)}${note === '' ? '' : `; ${note}`}\n`,
  )
}
process.stdout.write(`${passed} passed, ${failed} failed\n`)
const total = lines.reduce((sum, { trainedTokens }) => sum + trainedTokens, 0)
const worst = lines.reduce((most, { worstDelta }) => Math.max(most, worstDelta), 0)
const ratios = lines.reduce((sum, { meanRatio, trainedTokens }) => sum + meanRatio * trainedTokens, 0) / total
process.stdout.write(
  `tokens: ${total} trained tokens re-scored, max |delta| ${digits(worst)}, mean importance ratio ${ratios.toFixed(6)}\n`,
)
process.exitCode = isGreen ? 0 : 1

function readLine(line: string): ReportLine {
  return JSON.parse(line) // what the suites have just written
}
