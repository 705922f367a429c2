// Polar's default builder: one row per call, nothing merged.
import { analyse } from './analysis.ts'
import type { Builder } from './builder.ts'
import { parsePerRequest } from './config.ts'
import { isEmitted, layOutRow, rowId } from './rows.ts'
import { summarise } from './summary.ts'

export const buildPerRequest: Builder = (input, config) => {
  const parsed = parsePerRequest(config)
  if (!parsed.ok) throw new Error(parsed.error)
  const analysis = analyse(input, parsed.config.aux, null)
  const emitted = [...analysis.calls.entries()].filter(([, call]) => isEmitted(call))
  const rowOf = new Map(emitted.map(([index, call]) => [index, rowId(call)]))
  const traces = emitted.map(([index]) => layOutRow(analysis, { path: [index], ownFrom: 0 }, rowOf))
  const summary = summarise(analysis, traces, 0)
  const findings = [...summary.findings]
  if (parsed.config.reward_policy === 'broadcast' && traces.length > 1) {
    const detail =
      'every call gets the whole outcome as its reward, which has led to reward hacking; prefer prefix_merging, or another reward_policy'
    findings.push({ code: 'per_request_broadcast', detail })
  }
  return { traces, metadata: { builder: 'per_request', ...summary, findings } }
}
