// Re-scores what a real model sampled and the node captured: `node scripts/test-tokens.ts`. Installs the agent CLIs it needs first.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { REPORT_VARIABLE, type ReportLine } from '../test/tokens/report.ts'
import { ensureAgent } from './agents.ts'
import { runSuites } from './suites.ts'

for (const agent of ['pi', 'claude-code']) await ensureAgent(agent)

/** Sources that are agent CLIs. So many of the tokens that they train must stand in rows of several turns. */
const AGENT_SOURCES = ['pi, ', 'claude --bare, ']
const ENOUGH_TOKENS = 1_000

const folder = mkdtempSync(join(tmpdir(), 'polar-tokens-'))
const file = join(folder, 'report.jsonl')
process.env[REPORT_VARIABLE] = file
const { passed, failed, skipped, isGreen } = runSuites(['test/tokens/', 'test/e2e/weight-versions'])
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
process.stdout.write(`${passed} passed, ${failed} failed, ${skipped.length} skipped\n`)
const total = lines.reduce((sum, { trainedTokens }) => sum + trainedTokens, 0)
const worst = lines.reduce((most, { worstDelta }) => Math.max(most, worstDelta), 0)
const ratios = lines.reduce((sum, { meanRatio, trainedTokens }) => sum + meanRatio * trainedTokens, 0) / total
process.stdout.write(
  `tokens: ${total} trained tokens re-scored, max |delta| ${digits(worst)}, mean importance ratio ${ratios.toFixed(6)}\n`,
)
const ofAgents = lines
  .filter(({ source }) => AGENT_SOURCES.some((agent) => source.startsWith(agent)))
  .reduce((sum, { mergedTokens }) => sum + mergedTokens, 0)
process.stdout.write(`tokens: ${ofAgents} of them in rows of several turns of agent CLIs, ${ENOUGH_TOKENS} at least\n`)
process.exitCode = isGreen && skipped.length === 0 && ofAgents >= ENOUGH_TOKENS ? 0 : 1

function readLine(line: string): ReportLine {
  return JSON.parse(line) // what the suites have just written
}
