// Runs every suite, installs what the suites need first, and prints one closing line. A skip that is not listed here fails.
import { ensureAgent, knownAgents } from './agents.ts'
import { runSuites } from './suites.ts'

/** Full names of tests that may be skipped, each with the reason why a machine may lack what it needs. */
const LISTED_SKIPS: ReadonlyMap<string, string> = new Map()

for (const agent of knownAgents()) await ensureAgent(agent)

const { passed, failed, skipped, isGreen } = runSuites(process.argv.slice(2))
const unlisted = skipped.filter((name) => !LISTED_SKIPS.has(name))
for (const name of unlisted) process.stdout.write(`skipped without a listed reason: ${name}\n`)
process.stdout.write(`${passed} passed, ${failed + unlisted.length} failed, ${skipped.length} skipped\n`)
process.exitCode = isGreen && unlisted.length === 0 ? 0 : 1
