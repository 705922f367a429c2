// The table of agent CLIs in the docs, made of what their suites have shown: `node scripts/harness-table.ts`, or `--check` to compare.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { agentOfHarness } from './agents.ts'
import { FACTS_FOLDER, FACTS_VARIABLE, type Fact, readFacts } from './harness-facts.ts'

const root = resolve(import.meta.dirname, '..')
const DOCS = join(root, 'docs/harnesses.md')
const [BEGIN, END] = ['<!-- made by scripts/harness-table.ts: begin -->', '<!-- end -->']

export type AgentFacts = {
  readonly harness: string
  readonly package: string
  readonly version: string
  /** Null where the package does not say it. */
  readonly licence: string | null
  readonly facts: readonly Fact[]
}

type Row = readonly string[]

const HEAD: Row = [
  'CLI',
  'harness',
  'version',
  'speaks',
  'asks the model API for',
  'calls for two turns',
  'told of its calls',
  'seen beside its main line',
  'without its preset',
]
const NONE = '–'

/** What an edge between two chains shows. */
const BESIDE: ReadonlyMap<string, string> = new Map([
  ['subagent_of', 'sub-agents'],
  ['compaction_of', 'compacted histories'],
  ['aux', 'side calls'],
])

/** Markdown, a row for each CLI. */
export function tableOf(agents: readonly AgentFacts[]): string {
  const rows = agents.toSorted((one, other) => one.harness.localeCompare(other.harness)).map(rowOf)
  return [HEAD, HEAD.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function rowOf({ harness, package: name, version, licence, facts }: AgentFacts): Row {
  const ways = facts.filter((fact) => fact.type === 'way')
  const kinds = facts.flatMap((fact) => (fact.type === 'edges' ? fact.kinds : []))
  const beside = [...BESIDE].flatMap(([kind, name]) => (kinds.includes(kind) ? [name] : []))
  const calls = ways.flatMap((way) => way.calls)
  const [least, most] = [Math.min(...calls), Math.max(...calls)]
  return [
    // Terms of its own, and no source: what it does is known from its calls alone.
    licence?.startsWith('SEE LICENSE') === true ? `\`${name}\`, a closed-source binary` : `\`${name}\``,
    `\`${harness}\``,
    version,
    listed(ways.map(({ dialect }) => dialect)),
    listed(ways.flatMap(({ routes }) => routes)),
    calls.length === 0 ? NONE : least === most ? String(least) : `${least} to ${most}`,
    listed(facts.flatMap((fact) => (fact.type === 'told' ? fact.diagnostics : []))),
    beside.join(', ') || NONE,
    listed(facts.flatMap((fact) => (fact.type === 'bare' ? [fact.dialect] : []))),
  ]
}

function listed(names: readonly string[]): string {
  const sorted = [...new Set(names)].toSorted()
  return sorted.map((name) => `\`${name}\``).join(', ') || NONE
}

/** The agents that there are facts of; each is pinned by a package under `agents/`. */
function knownFacts(folder: string): readonly AgentFacts[] {
  const facts = readFacts(folder)
  return [...new Set(facts.map(({ harness }) => harness))].flatMap((harness): readonly AgentFacts[] => {
    const packages = join(root, 'agents', agentOfHarness(harness))
    if (!existsSync(packages)) return []
    const manifest: Manifest = JSON.parse(readFileSync(join(packages, 'package.json'), 'utf8'))
    const lock: Lock = JSON.parse(readFileSync(join(packages, 'package-lock.json'), 'utf8'))
    const [name = ''] = Object.keys(manifest.dependencies)
    const licence = lock.packages[`node_modules/${name}`]?.license ?? null
    return [{ harness, package: name, version: manifest.version, licence, facts: facts.filter((fact) => fact.harness === harness) }]
  })
}

type Manifest = { readonly version: string; readonly dependencies: Readonly<Record<string, string>> }
type Lock = { readonly packages: Readonly<Record<string, { readonly license?: string }>> }

/** Whether the docs hold the table of the facts in `folder`; with `write` they do afterwards. What is wrong otherwise. */
export function settleTable(folder: string, write: boolean): string | null {
  const text = readFileSync(DOCS, 'utf8')
  const [before, after] = [text.indexOf(BEGIN), text.indexOf(END)]
  if (before === -1 || after < before) return `${DOCS} has no place for the table, between ${BEGIN} and ${END}`
  const agents = knownFacts(folder)
  if (agents.length === 0) return `there are no facts in ${folder}: npm run test:harness writes them`
  const table = `${text.slice(0, before)}${BEGIN}\n${tableOf(agents)}\n${text.slice(after)}`
  if (table === text) return null
  if (!write) return `${DOCS} does not say what the last run has shown: node scripts/harness-table.ts mends it`
  writeFileSync(DOCS, table)
  return null
}

if (import.meta.main) {
  const problem = settleTable(process.env[FACTS_VARIABLE] ?? FACTS_FOLDER, !process.argv.includes('--check'))
  process.stdout.write(`${problem ?? 'the table of docs/harnesses.md says what the last run has shown'}\n`)
  process.exitCode = problem === null ? 0 : 1
}
