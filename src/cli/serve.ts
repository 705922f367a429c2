// `polar serve`: runs the node until it is told to stop, then drains it.
import { WAYS_TO_NAME_SERVERS } from '../config/inference.ts'
import { type Config, loadConfig } from '../config.ts'
import type { EngineKind } from '../contract/call.ts'
import { engineUrlSchema } from '../contract/replica.ts'
import { type RunningNode, startNode } from '../main.ts'
import { configFile, ignoredVariables } from './config-file.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { describeProblems, engineFlagProblem } from './problems.ts'

export type ServeOptions = { readonly config?: string; readonly engineUrl?: string; readonly engine?: EngineKind; readonly json?: boolean }

/** A second signal while draining stops at once. */
export async function runServe(options: ServeOptions): Promise<ExitCode> {
  const given = engineUrlSchema.optional().safeParse(options.engineUrl)
  if (!given.success) return endWith(EXIT.usage, `--engine-url: ${given.error.issues.map(({ message }) => message).join('; ')}`)
  const loaded = await loadConfig(configFile(options), {
    ...(options.engineUrl === undefined ? {} : { engineUrl: options.engineUrl }),
    ...(options.engine === undefined ? {} : { engine: options.engine }),
  })
  if (!loaded.ok) return endWith(EXIT.usage, describeProblems(loaded.problems))
  const { config } = loaded
  const flagProblem = engineFlagProblem(options.engine, config)
  if (flagProblem !== null) return endWith(EXIT.usage, flagProblem)
  // Before anything is started: a signal that comes while the node starts stops it in order, as soon as it can be stopped.
  const nextSignal = hearSignals()
  const started = await startNode(config)
  if (!started.ok) return endWith(EXIT.failed, started.problem)
  const { running } = started

  const say = (record: Readonly<Record<string, unknown>>, line: string): void =>
    void process.stdout.write(`${options.json === true ? JSON.stringify(record) : line}\n`)
  const { embedded } = running
  if (embedded !== null) {
    const { model, parameters, url } = embedded
    say({ event: 'embedded-engine', model, parameters, url, asked_for: config.embedded?.isAskedFor }, describeEmbedded(config, embedded))
  }
  for (const note of [...config.notes, ...ignoredVariables(process.env), ...running.notes]) say({ event: 'note', note }, `note: ${note}`)
  say({ event: 'control', url: running.controlUrl }, `control API   ${running.controlUrl}`)
  for (const node of config.nodes) {
    const port = running.node.modelPorts.get(node.id)
    say({ event: 'gateway', id: node.id, port }, `gateway       ${node.id}: model port http://${node.host}:${port}`)
    if (node.replicas.length === 0 && embedded !== null)
      say(
        { event: 'replica', id: 'embedded', url: embedded.url, engine: 'sglang' },
        `  replica     embedded: the embedded engine at ${embedded.url}`,
      )
    for (const replica of node.replicas) {
      say(
        { event: 'replica', id: replica.id, url: replica.url, engine: replica.engine },
        `  replica     ${replica.id}: ${describeEngine(replica)}`,
      )
    }
  }
  if (running.isTokenNew) {
    // Printed this once; later starts read it from the file, which only its owner can.
    say(
      { event: 'token', token: running.token, file: config.control.tokenFile },
      `control token ${running.token}\n              (kept in ${config.control.tokenFile})`,
    )
  } else {
    say({ event: 'token', file: config.control.tokenFile }, `control token in ${config.control.tokenFile}`)
  }
  say({ event: 'ready' }, 'ready')

  const failure = running.failed.then((reason) => ({ reason }))
  const signal = await Promise.race([nextSignal(), failure])
  if (typeof signal === 'object') {
    await running.close()
    return endWith(EXIT.failed, signal.reason)
  }
  say({ event: 'draining', signal }, `${signal}: no new tasks; waiting for running sessions (again to stop at once)`)
  const drained = running.drain((step, name, waitsFor) =>
    waitsFor === null
      ? say({ event: 'drain-begun', step, name }, `  drain ${step}. ${name} …`)
      : say({ event: 'drain-waiting', step, name, waits_for: waitsFor }, `  drain ${step}. ${name} waits: ${waitsFor}`),
  )
  const report = await Promise.race([drained, nextSignal().then(() => null), failure.then(() => null)])
  for (const step of report?.steps ?? []) {
    say({ event: 'drain', ...step }, `  drain ${step.step}. ${step.name}: ${step.ok ? `done in ${Math.round(step.ms)} ms` : step.error}`)
  }
  await running.close()
  say({ event: 'stopped' }, 'stopped')
  return report === null || report.isDrained ? EXIT.ok : EXIT.failed
}

function describeEmbedded({ embedded }: Config, { model, parameters }: NonNullable<RunningNode['embedded']>): string {
  const size = `${(parameters / 1e6).toPrecision(2)} M parameters`
  if (embedded?.isAskedFor === true) return `embedded engine serves ${model} (${size})`
  return `no inference server is configured: the embedded engine serves ${model} (${size}, for trying things out). Name yours with ${WAYS_TO_NAME_SERVERS}`
}

function describeEngine({ engine, url, dataParallelRanks, isRouter }: Config['nodes'][number]['replicas'][number]): string {
  if (isRouter) return `the ${engine} workers of the router at ${url}`
  return `${engine} at ${url}${dataParallelRanks === null ? '' : `, ${dataParallelRanks} data-parallel ranks`}`
}

/**
 * From now on no signal ends this process by itself, not even a third one: what is being stopped is stopped in order. Each call takes the
 * next signal, also one that came before the call.
 */
function hearSignals(): () => Promise<NodeJS.Signals> {
  const heard: NodeJS.Signals[] = []
  let take: ((signal: NodeJS.Signals) => void) | null = null
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, (signal) => {
      if (take !== null) take(signal)
      else if (heard.length < 2) heard.push(signal)
      take = null
    })
  }
  return () =>
    new Promise((resolve) => {
      const early = heard.shift()
      if (early === undefined) take = resolve
      else resolve(early)
    })
}
