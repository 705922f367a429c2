import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { reportDrift } from '../../src/doctor/drift-report.ts'
import type { SessionReading } from '../../src/doctor/drift-results.ts'
import { DRIFT_NAMES, remediesFor } from '../../src/doctor/remedies.ts'
import type { DriftClass } from '../../src/trajectory/drift.ts'

const documented = readFileSync(join(import.meta.dirname, '../../docs/drift.md'), 'utf8')
const TEXTS = ['<think>\n\n</think>', '<think>\nhm']

it.each(Object.keys(DRIFT_NAMES) as readonly DriftClass[])('tells what %s is, and names every setting that mends it', (driftClass) => {
  expect(documented).toContain(`| \`${driftClass}\` |`)
  for (const harness of ['pi', 'claude_code', 'codex', 'shell']) {
    for (const engine of ['vllm', 'sglang', 'sglang-native', 'llamacpp', 'embedded'] as const) {
      for (const lostText of TEXTS) {
        const reason = 'the chat template leaves out reasoning'
        for (const { key } of remediesFor({ class: driftClass, reason, harness, engine, lostText }))
          if (key !== null) expect(documented).toContain(`\`${key}\``)
      }
    }
  }
})

it('tells every field of the JSON report', () => {
  const window = { start: 4, common: [1], earlier: [2], later: [3] }
  const drift = { class: 'D2', index: 6, reason: 'the chat template leaves out reasoning', window } as const
  const session: SessionReading = {
    session: 's1',
    task: 'look',
    outcome: 'agent_error',
    error: 'it failed',
    calls: 2,
    trainedCalls: 2,
    rows: 2,
    edges: [{ kind: 'rewrites', call_id: 'msg_b', of: 'msg_a', drift }],
    findings: [{ code: 'no_turns', detail: 'none' }],
  }
  const engine = { url: 'http://gpu:8000', kind: 'vllm', model: 'm', logprob_mode: 'raw', max_model_len: 4096 } as const
  const report = reportDrift(engine, [{ harness: 'pi', sessions: [session] }], new Map(), ['a note'])
  const told = documented.slice(documented.indexOf('## The JSON report'))
  for (const field of fieldsOf(report)) expect(told).toContain(`\`${field}`)
})

/** Of objects, not of tallies, whose keys are what is counted. */
function fieldsOf(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(fieldsOf)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [key, ...(key === 'outcomes' ? [] : fieldsOf(inner))])
}
