// Runs real SDKs and real agent CLIs over connections and engines that fail: `node scripts/test-retries.ts`. Installs the agents first.
import { ensureAgent, knownAgents } from './agents.ts'
import { runSuites } from './suites.ts'

for (const agent of knownAgents()) await ensureAgent(agent)

const { passed, failed, skipped, isGreen } = runSuites(['test/retries/'])
process.stdout.write(`${passed} passed, ${failed} failed, ${skipped.length} skipped\n`)
process.exitCode = isGreen && skipped.length === 0 ? 0 : 1
