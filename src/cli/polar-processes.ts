// The processes that Polar starts one by one, as commands of a node that is all of them: a script written for Polar ends in one working node.
import { setTimeout as delay } from 'node:timers/promises'
import { loadConfig } from '../config.ts'
import { configFile } from './config-file.ts'
import type { Reply } from './control-client.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { hearInterrupts } from './interrupts.ts'
import { describeProblems } from './problems.ts'
import { runServe, type ServeOptions } from './serve.ts'
import { openTarget, type TargetOptions } from './target.ts'

export type GatewayOptions = TargetOptions & {
  readonly nodeId?: string
  /** Seconds. */
  readonly wait: number
}

const LOOK_EVERY_MS = 1_000
/** Looks without an answer after which the node is taken for gone. */
const MAX_SILENCES = 3

export function serveRollout(options: ServeOptions): Promise<ExitCode> {
  tell('serve_rollout starts the whole node, every gateway of the topology included; serve_gateway has nothing left to start')
  return runServe(options)
}

/**
 * Waits for the node that serves this gateway, and stays until that has ended. Ok when it has, or when a signal ends the wait for that;
 * usage: the topology or the node has no such gateway; unreachable: no node came up in time.
 */
export async function serveGateway(options: GatewayOptions): Promise<ExitCode> {
  const loaded = await loadConfig(configFile(options), { isClient: true })
  if (!loaded.ok) return endWith(EXIT.usage, describeProblems(loaded.problems))
  const ids: readonly string[] = loaded.config.nodes.map(({ id }) => id)
  const fromEnvironment = process.env.POLAR_GATEWAY_NODE_ID ?? ''
  const id = options.nodeId ?? (fromEnvironment === '' ? (ids.length === 1 ? ids[0] : undefined) : fromEnvironment)
  if (id === undefined) return endWith(EXIT.usage, `--node-id is needed: the topology has ${ids.join(', ')}`)
  if (!ids.includes(id))
    return endWith(EXIT.usage, `the topology has no gateway ${id}; there ${ids.length === 1 ? 'is' : 'are'} ${ids.join(', ')}`)
  const interrupts = hearInterrupts()
  try {
    return await standBy(id, options, interrupts.signal)
  } catch (error) {
    if (interrupts.signal.aborted) return EXIT.ok
    throw error
  } finally {
    interrupts.ignore()
  }
}

export function explainDashboard(): ExitCode {
  return endWith(
    EXIT.usage,
    [
      'there is no dashboard here. What shows the same of a running node:',
      'polar status -c FILE             gateways, inference servers and the latest tasks',
      'polar tasks -c FILE              tasks, by status and harness',
      'polar sessions TASK -c FILE      the sessions of one',
      'GET /events                      what happens, as it happens (server-sent events)',
      'DELETE /sessions/<id>            ends a session',
    ].join('\n       '),
  )
}

async function standBy(id: string, options: GatewayOptions, signal: AbortSignal): Promise<ExitCode> {
  const look = async (): Promise<Reply | string> => {
    // Anew each time: the node may write its token only now.
    const target = await openTarget(options)
    return target.ok ? target.client.get(`/nodes/${encodeURIComponent(id)}`) : target.problem
  }
  tell(`serve_gateway starts nothing: the node that serve_rollout or serve starts serves gateway ${id}; waiting for it`)
  const untilMs = performance.now() + options.wait * 1_000
  for (;;) {
    const reply = await look()
    if (typeof reply === 'string') return endWith(EXIT.usage, reply)
    if (reply.status === 200) break
    if (reply.status === 404) return endWith(EXIT.usage, `the node that runs does not have gateway ${id}: ${reply.detail}`)
    if (performance.now() > untilMs) return endWith(EXIT.unreachable, `no node serves gateway ${id}: ${reply.detail}`)
    await delay(LOOK_EVERY_MS, undefined, { signal })
  }
  process.stdout.write(`gateway ${id} is served by the node; this command ends when the node does\n`)
  for (let silences = 0; silences < MAX_SILENCES; ) {
    await delay(LOOK_EVERY_MS, undefined, { signal })
    const reply = await look()
    silences = typeof reply === 'string' || reply.status === 0 ? silences + 1 : 0
  }
  process.stdout.write(`the node that served gateway ${id} has ended\n`)
  return EXIT.ok
}

function tell(line: string): void {
  process.stderr.write(`polar: ${line}\n`)
}
