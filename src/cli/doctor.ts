// `polar doctor drift`: a few tasks on a node of its own, and what they tell of a harness and a model before GPU hours are spent on them.
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { parse as parseYaml } from 'yaml'
import { type Config, loadConfig } from '../config.ts'
import type { EngineKind } from '../contract/call.ts'
import { engineUrlSchema } from '../contract/replica.ts'
import { openDetokenizer } from '../doctor/detokenizer.ts'
import { type DriftReport, exampleWindows, type HarnessRun, reportDrift } from '../doctor/drift-report.ts'
import type { DriftWindow } from '../doctor/drift-results.ts'
import { runTasks } from '../doctor/drift-run.ts'
import { OWN_TASKS, readTasks } from '../doctor/drift-tasks.ts'
import { describeDrift, plain } from '../doctor/drift-text.ts'
import { readEngine } from '../doctor/engine-facts.ts'
import { awaitEngines } from '../doctor/engine-readiness.ts'
import { chooseHarnesses, type Look } from '../doctor/harness-choice.ts'
import { openTemporaryNode } from '../doctor/temporary-node.ts'
import { type Decode, readWindow, type WindowText } from '../doctor/window-text.ts'
import { installedAgent } from '../harness/agent-folder.ts'
import { loadHarnesses } from '../harness/registry.ts'
import { AGENT_FOLDERS } from '../main.ts'
import { configFile } from './config-file.ts'
import { openControlClient } from './control-client.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { ignoredKeys } from './ignored-keys.ts'
import { hearInterrupts } from './interrupts.ts'
import { describeProblems, engineFlagProblem } from './problems.ts'

export type DriftOptions = {
  readonly config?: string
  readonly engineUrl?: string
  readonly engine?: EngineKind
  /** Comma-separated. */
  readonly harness?: string
  readonly model?: string
  readonly tasks?: string
  readonly samples: number
  readonly json?: boolean
}

type Step<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly code: ExitCode; readonly problem: string }
type Plan = { readonly config: Config; readonly looks: readonly Look[] }

const TINY_POLICY_HINT = 'the policy that comes with polar-node was trained for the demo’s task alone: --tasks examples/demo/task.json'

/** Progress goes to stderr, so that stdout is the report alone. */
export async function runDrift(options: DriftOptions): Promise<number> {
  const plan = await readPlan(options)
  if (!plan.ok) return endWith(plan.code, plan.problem)
  const interrupted = hearInterrupts()
  try {
    const report = await examine(plan.value, options, interrupted.signal)
    if (!report.ok) return endWith(report.code, report.problem)
    process.stdout.write(options.json === true ? `${JSON.stringify(report.value)}\n` : describeDrift(report.value))
    return report.value.whole ? EXIT.ok : EXIT.failed
  } catch (error) {
    const code = interrupted.code()
    if (code === null) throw error
    process.stderr.write('polar: interrupted; everything that was started is stopped\n')
    return code
  } finally {
    interrupted.ignore()
  }
}

async function readPlan(options: DriftOptions): Promise<Step<Plan>> {
  const usage = (problem: string) => ({ ok: false, code: EXIT.usage, problem }) as const
  const url = engineUrlSchema.optional().safeParse(options.engineUrl)
  if (!url.success) return usage(`--engine-url: ${url.error.issues.map(({ message }) => message).join('; ')}`)
  const loaded = await loadConfig(configFile(options), {
    ...(options.engineUrl === undefined ? {} : { engineUrl: options.engineUrl }),
    ...(options.engine === undefined ? {} : { engine: options.engine }),
  })
  if (!loaded.ok) return usage(describeProblems(loaded.problems))
  const flagProblem = engineFlagProblem(options.engine, loaded.config)
  if (flagProblem !== null) return usage(flagProblem)
  const tasks = await loadTasks(options.tasks)
  if (!tasks.ok) return usage(tasks.problem)
  const { config } = loaded
  const asked =
    options.harness
      ?.split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '') ?? null
  const known = await loadHarnesses(config.modules.harnesses).catch((error: unknown) => String(error))
  if (typeof known === 'string') return usage(known)
  const ownCopy = (name: string) => installedAgent(AGENT_FOLDERS.packages, AGENT_FOLDERS.cache, name)
  const chosen = chooseHarnesses(asked, tasks.tasks, known, ownCopy)
  if (!chosen.ok) return usage(chosen.problem)
  return { ok: true, value: { config, looks: chosen.looks } }
}

async function loadTasks(file: string | undefined): Promise<ReturnType<typeof readTasks>> {
  if (file === undefined) return { ok: true, tasks: OWN_TASKS }
  let value: unknown
  try {
    // JSON is a part of YAML.
    value = parseYaml(await readFile(file, 'utf8'))
  } catch (error) {
    return { ok: false, problem: `cannot read the tasks ${file}: ${error instanceof Error ? error.message : String(error)}` }
  }
  const read = readTasks(file, value)
  if (!read.ok) return read
  const ignored = read.tasks.flatMap(({ name, request }) =>
    ignoredKeys({ agent: { harness: 'any' }, ...request }).map((key) => `${name}: ${key}`),
  )
  if (ignored.length > 0) say(`note: the tasks have keys that mean nothing here: ${ignored.join(', ')}`)
  return read
}

async function examine({ config, looks }: Plan, options: DriftOptions, interrupted: AbortSignal): Promise<Step<DriftReport>> {
  const model = options.model ?? null
  // Whoever runs the doctor may read the files that lie beside the tasks.
  const uploadRoots = options.tasks === undefined ? [] : [dirname(resolve(options.tasks))]
  say('starting a node of its own')
  const opened = await openTemporaryNode(config, { model, uploadRoots })
  if (!opened.ok) return { ok: false, code: EXIT.unreachable, problem: opened.problem }
  const { node } = opened
  const over = new AbortController()
  const signal = AbortSignal.any([interrupted, over.signal])
  try {
    const broken = node.failed.then((problem) => ({ ok: false, isRefusal: false, problem }) as const)
    const control = openControlClient(node.controlUrl, node.token)
    const ready = await Promise.race([awaitEngines(control, say, signal), broken])
    if (!ready.ok) return { ok: false, code: EXIT.unreachable, problem: plain(ready.problem) }
    const engine = await readEngine(ready.replica, config, model, node.embeddedUrl)
    const plan = { looks, model, samples: options.samples }
    const ran = await Promise.race([runTasks(control, plan, say, signal), broken])
    if (!ran.ok) return { ok: false, code: ran.isRefusal ? EXIT.usage : EXIT.unreachable, problem: plain(ran.problem) }
    const { texts, notes } = await readTexts(ran.runs, openDetokenizer(engine.kind, engine.url, engine.model))
    const isTiny = engine.kind === 'embedded' && config.embedded?.modelPath === null
    const hints = isTiny && options.tasks === undefined ? [TINY_POLICY_HINT] : []
    return { ok: true, value: reportDrift(engine, ran.runs, texts, [...hints, ...notes]) }
  } finally {
    // Nobody goes on asking a node that is gone.
    over.abort()
    await node.close()
  }
}

/** Without text the ids must do, and the report says why. */
async function readTexts(runs: readonly HarnessRun[], decode: Decode) {
  const texts = new Map<DriftWindow, WindowText>()
  const notes = new Set<string>()
  for (const window of exampleWindows(runs)) {
    const read = await readWindow(window, decode)
    if (read.ok) texts.set(window, read.text)
    else notes.add(`windows show ids only: ${read.problem}`)
  }
  return { texts, notes: [...notes] }
}

function say(line: string): void {
  process.stderr.write(`polar: ${line}\n`)
}
