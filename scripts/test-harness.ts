// Runs real agent CLIs through a real node: `node scripts/test-harness.ts [harness…]`, all of them when none is named. Installs them first.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { agentOfHarness, ensureAgent, knownAgents } from './agents.ts'
import { root, runSuites } from './suites.ts'

const SUFFIX = '.test.ts'

const known = readdirSync(join(root, 'test/harness')).flatMap((name) => (name.endsWith(SUFFIX) ? [name.slice(0, -SUFFIX.length)] : []))
const asked = [...new Set(process.argv.slice(2).map(agentOfHarness))]
const unknown = asked.filter((name) => !known.includes(name))
if (unknown.length > 0) {
  const names = known.map((name) => name.replaceAll('-', '_'))
  process.stderr.write(`unknown: ${unknown.join(', ')}\nusage: node scripts/test-harness.ts [harness...]; known: ${names.join(', ')}\n`)
  process.exit(2)
}
const names = asked.length === 0 ? known : asked
const agents = knownAgents()
// A suite that is named after no agent runs them all.
for (const agent of new Set(names.flatMap((name) => (agents.includes(name) ? [name] : agents)))) await ensureAgent(agent)

const { passed, failed, isGreen } = runSuites(names.map((name) => `test/harness/${name}${SUFFIX}`))
process.stdout.write(`${passed} passed, ${failed} failed\n`)
process.exitCode = isGreen ? 0 : 1
