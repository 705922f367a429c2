// What an operator says of streams, retries, budgets and weight updates reaches the boundary of every gateway.
import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { nodeSetup } from '../../src/node-setup.ts'

const TEXT = `
gateway: { nodes: [{ id: one, inference: { base_url: 'http://e:1' } }, { id: two, port: 8082, inference: { base_url: 'http://e:1' } }] }
polar_node:
  stream: { mode: live, commit_after_seconds: 2, beat_seconds: 3, linger_seconds: 7 }
  weight_updates: { aborted: restart }
  budgets: { outage_seconds: 11, no_model_call_seconds: 13, session: { calls: 17, sampled_tokens: 19, context_tokens: 23, seconds: 29 } }
`

it('a setting of the configuration is one of every gateway', () => {
  const parsed = parseConfig(TEXT, '/etc/polar/polar.yaml', '/etc/polar')
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const { gateways } = nodeSetup(parsed.config, { packages: '/p', cache: '/c' }, null)
  expect(gateways).toHaveLength(2)
  for (const { boundary, policy } of gateways) {
    expect(boundary).toEqual({
      streamMode: 'live',
      commitAfterMs: 2_000,
      beatEveryMs: 3_000,
      lingerMs: 7_000,
      outageMs: 11_000,
      aborted: 'restart',
    })
    expect(policy.budgets.firstCallMs).toBe(13_000)
    expect(policy.modelBudget).toEqual({ calls: 17, sampled_tokens: 19, context_tokens: 23, seconds: 29 })
  }
})
