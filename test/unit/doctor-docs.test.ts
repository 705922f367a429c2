import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
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
