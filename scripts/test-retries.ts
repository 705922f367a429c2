// Runs real SDKs and real agent CLIs over connections and engines that fail: `node scripts/test-retries.ts`. Installs the agents first.
import { ensureAgent, knownAgents } from './agents.ts'
import { runSuites } from './suites.ts'

for (const agent of knownAgents()) await ensureAgent(agent)

const { passed, failed, isGreen } = runSuites(['test/retries/'])
process.stdout.write(`${passed} passed, ${failed} failed\n`)
process.exitCode = isGreen ? 0 : 1
