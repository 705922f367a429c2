// Runs real agent CLIs through a real node with no network but loopback: `node scripts/test-harness.ts [harness or suite…]`, all of them
// when none is named. Installs them first, and notes what they have shown.
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { agentOfHarness, ensureAgent, knownAgents } from './agents.ts'
import { FACTS_FOLDER, FACTS_VARIABLE, factFiles } from './harness-facts.ts'
import { settleTable } from './harness-table.ts'
import { outwardInterfaces, runOnLoopback } from './loopback.ts'
import { root, runSuites } from './suites.ts'

const SUFFIX = '.test.ts'
/** Said to the process that runs the suites, in the namespace. */
const INSIDE = '--inside'

const known = readdirSync(join(root, 'test/harness')).flatMap((name) => (name.endsWith(SUFFIX) ? [name.slice(0, -SUFFIX.length)] : []))
const asked = [
  ...new Set(
    process.argv
      .slice(2)
      .filter((name) => name !== INSIDE)
      .map(agentOfHarness),
  ),
]
const isSuiteOf = (suite: string, name: string): boolean => suite === name || suite.startsWith(`${name}-`)
const suites = known.filter((suite) => asked.length === 0 || asked.some((name) => isSuiteOf(suite, name)))
const facts = process.env[FACTS_VARIABLE] ?? FACTS_FOLDER

process.exitCode = process.argv.includes(INSIDE) ? runInside() : await prepare()

async function prepare(): Promise<number> {
  const unknown = asked.filter((name) => !known.some((suite) => isSuiteOf(suite, name)))
  if (unknown.length > 0) {
    const names = known.map((name) => name.replaceAll('-', '_'))
    process.stderr.write(
      `unknown: ${unknown.join(', ')}\nusage: node scripts/test-harness.ts [harness or suite...]; known: ${names.join(', ')}\n`,
    )
    return 2
  }
  // A suite that is no agent's own may run any of them.
  const agents = knownAgents()
  const needed = suites.flatMap((suite) => agents.find((agent) => isSuiteOf(suite, agent)) ?? agents)
  for (const agent of new Set(needed)) await ensureAgent(agent)
  // Of a suite that is no more, too, where all of them run.
  const noted = asked.length > 0 ? suites.map((suite) => `${suite}.jsonl`) : factFiles(facts)
  for (const file of noted) rmSync(join(facts, file), { force: true })

  const command = [process.execPath, import.meta.filename, INSIDE, ...asked]
  const alone = runOnLoopback(command, { ...process.env, [FACTS_VARIABLE]: facts })
  if (!alone.ok) process.stderr.write(`test-harness: ${alone.problem}\n`)
  if (!alone.ok || alone.code !== 0) return 1
  // The facts of some suites alone make no table.
  const problem = asked.length === 0 ? settleTable(facts, false) : null
  if (problem !== null) process.stdout.write(`${problem}\n`)
  return problem === null ? 0 : 1
}

function runInside(): number {
  const outward = outwardInterfaces()
  if (outward.length > 0) {
    process.stderr.write(`test-harness: the network can be reached by ${outward.join(', ')}\n`)
    return 1
  }
  const { passed, failed, skipped, isGreen } = runSuites(suites.map((suite) => `test/harness/${suite}${SUFFIX}`))
  process.stdout.write(`${passed} passed, ${failed} failed, ${skipped.length} skipped\n`)
  return isGreen && skipped.length === 0 ? 0 : 1
}
