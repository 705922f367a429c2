// Carries an agent's work from its sandbox to a fresh one as a patch. The agent's repository is read as files only: its git folder,
// with whatever configuration, hooks and objects the agent left there, is never opened.
import type { ExecResult, Fallible } from '../runtime/runtime.ts'
import type { EvaluatorSandbox } from './evaluator.ts'
import { APPLY, GIT_ENVIRONMENT, LIST_AGENT, LIST_FRESH, MAKE_FOLDER, MAKE_PATCH, PACK_BASE } from './patch-scripts.ts'
import { parseListing, type Selection, selectChanges } from './work-tree.ts'

export type PatchOptions = {
  readonly agent: EvaluatorSandbox
  readonly fresh: EvaluatorSandbox
  readonly repoDir: string
  /** Null: the commit that is checked out in the fresh sandbox. */
  readonly baseCommit: string | null
  readonly excludePatterns: readonly string[]
  /** For each step. */
  readonly timeoutMs: number
}

export type Carried = {
  readonly type: 'empty' | 'too-large' | 'refused' | 'applied'
  readonly selection: Selection
  readonly patchBytes: number
  /** The grader's own folder in the fresh sandbox, outside the repository. */
  readonly freshFolder: string
}
/** `failed` is the evaluator's or the runtime's fault, never the agent's. */
export type CarryResult = Carried | { readonly type: 'failed'; readonly step: string; readonly log: string }

const MAX_LISTING_BYTES = 64 * 1024 * 1024
const MAX_PACK_BYTES = 256 * 1024 * 1024
const MAX_PATCH_BYTES = 16 * 1024 * 1024

/** A step of the flow that did not work; caught in `carryPatch` only. */
class StepFailure extends Error {
  readonly step: string
  constructor(step: string, log: string) {
    super(log)
    this.step = step
  }
}

export async function carryPatch(options: PatchOptions): Promise<CarryResult> {
  try {
    return await carry(options)
  } catch (error) {
    if (error instanceof StepFailure) return { type: 'failed', step: error.step, log: error.message }
    throw error
  }
}

async function carry(options: PatchOptions): Promise<Carried> {
  const { agent, fresh } = options

  const opened = await run(fresh, 'read the fresh repository', LIST_FRESH, options, { POLAR_BASE: options.baseCommit ?? 'HEAD' })
  const [freshFolder = '', format = ''] = opened.split('\n')
  const baseListing = need('read the base listing', await fresh.readFile(`${freshFolder}/base`, MAX_LISTING_BYTES))
  const freshListing = need('read the fresh listing', await fresh.readFile(`${freshFolder}/now`, MAX_LISTING_BYTES))

  const agentFolder = (await run(agent, 'open the agent’s work tree', MAKE_FOLDER, options, {})).trim()
  need('send the base listing', await agent.writeFile(`${agentFolder}/base`, baseListing))
  const inAgent = { POLAR_FOLDER: agentFolder, POLAR_FORMAT: format }
  await run(agent, 'read the agent’s work tree', LIST_AGENT, options, inAgent)
  const agentListing = need('read the agent’s listing', await agent.readFile(`${agentFolder}/now`, MAX_LISTING_BYTES))

  const selection = selectChanges(
    parseListing(baseListing),
    parseListing(agentListing),
    parseListing(freshListing),
    options.excludePatterns,
  )
  if (selection.kept.length === 0) return { type: 'empty', selection, patchBytes: 0, freshFolder }

  // The base of each changed file comes from the fresh sandbox: the agent could have forged or destroyed its own.
  const oids = selection.kept.flatMap((change) => (change.before === null ? [] : [`${change.before.oid}\n`]))
  const inFresh = { POLAR_FOLDER: freshFolder, POLAR_FORMAT: format }
  need('send the base objects’ names', await fresh.writeFile(`${freshFolder}/oids`, oids.join('')))
  await run(fresh, 'pack the base files', PACK_BASE, options, inFresh)
  const pack = need('read the base files', await fresh.readFile(`${freshFolder}/pack`, MAX_PACK_BYTES))
  need('send the base files', await agent.writeFile(`${agentFolder}/pack`, pack))
  const paths = selection.kept.map((change) => `${change.path}\0`).join('')
  need('send the changed names', await agent.writeFile(`${agentFolder}/paths`, Buffer.from(paths, 'latin1')))
  const patchBytes = Number(await run(agent, 'make the patch', MAKE_PATCH, options, inAgent))
  if (!(patchBytes <= MAX_PATCH_BYTES)) return { type: 'too-large', selection, patchBytes, freshFolder }

  const patch = need('read the patch', await agent.readFile(`${agentFolder}/patch`, MAX_PATCH_BYTES))
  need('send the patch', await fresh.writeFile(`${freshFolder}/patch`, patch))
  need('send the allowed names', await fresh.writeFile(`${freshFolder}/allowed`, Buffer.from(paths, 'latin1')))
  const outcome = (await run(fresh, 'apply the patch', APPLY, options, inFresh)).trim()
  return { type: outcome === 'applied' ? 'applied' : 'refused', selection, patchBytes, freshFolder }
}

async function run(
  sandbox: EvaluatorSandbox,
  step: string,
  command: string,
  options: PatchOptions,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const result: Fallible<ExecResult> = await sandbox.exec(
    { command, cwd: options.repoDir, env: { ...GIT_ENVIRONMENT, ...env }, label: 'grade' },
    options.timeoutMs,
  )
  const { exit, stdout, stderr } = need(step, result)
  if (exit.type === 'exited' && exit.code === 0) return stdout
  const how = exit.type === 'exited' ? `exit code ${exit.code}` : exit.type === 'signalled' ? exit.signal : exit.type
  throw new StepFailure(step, `${how}\n${stderr.slice(-4000)}`)
}

function need<T>(step: string, result: Fallible<T>): T {
  if (result.ok) return result.value
  throw new StepFailure(step, `${result.error.code}: ${result.error.detail}`)
}
