// A run: sessions in a few lanes against one node, a look at the node's memory between, and everything at rest at the end.
import type { GatewayFacts } from './node/gateway.ts'
import { type FuzzNode, openNode } from './node/node.ts'
import type { FuzzedEngine } from './node/settings.ts'
import { type PlayedSession, playSession, REQUESTS_PER_SESSION, type Result, type SessionOrder } from './session.ts'
import { shrink } from './shrink.ts'

export type RunOptions = {
  readonly requests: number
  readonly seed: number
  readonly engine?: FuzzedEngine
  /** Plays only the session of this request, up to it. */
  readonly only?: number
  readonly onResult?: (result: Result) => void
}

type Problem = {
  /** Of the request; null for what concerns a session or the run. */
  readonly index: number | null
  readonly session: number | null
  readonly problem: string
}

export type RunReport = {
  readonly results: readonly Result[]
  readonly generations: number
  readonly problems: readonly Problem[]
  /** Of the first problems that a request alone can show, by its index. */
  readonly smallest: ReadonlyMap<number, string>
  /** After the first tenth of the sessions, and after the last. */
  readonly memoryBytes: { readonly early: number; readonly late: number }
  readonly blockedMs: GatewayFacts['blockedMs']
  readonly seconds: number
}

const LANES = 6
/** A leak of a few kilobytes a request shows over thousands; what caches hold at their fullest does not count. */
const MEMORY_MULTIPLE = 1.5
const MEMORY_SLACK_BYTES = 8 * 2 ** 20
/** Shrinking costs hundreds of requests, and most problems of a run are one. */
const MAX_SHRUNK = 3
const OTHER_SESSION = 'fuzz-other'
const OTHER_SEED = 999_999_937

export async function run(options: RunOptions): Promise<RunReport> {
  const startedMs = performance.now()
  const { seed } = options
  const node = await openNode(seed, options.engine ?? 'vllm')
  try {
    const opened = await node.gateway.openDoor({ session: OTHER_SESSION, tier: 'eval', pins: { seed: OTHER_SEED }, ledger: 'sound' })
    const other = { session: opened.basePath.replace('/s/', ''), key: opened.key }
    const order = { node, seed, other, ...(options.onResult === undefined ? {} : { onResult: options.onResult }) }
    const orders =
      options.only === undefined
        ? Array.from({ length: Math.ceil(options.requests / REQUESTS_PER_SESSION) }, (_, session) => ({
            ...order,
            session,
            requests: Math.min(REQUESTS_PER_SESSION, options.requests - session * REQUESTS_PER_SESSION),
          }))
        : [{ ...order, session: Math.floor(options.only / REQUESTS_PER_SESSION), requests: (options.only % REQUESTS_PER_SESSION) + 1 }]
    const tenth = Math.max(1, Math.ceil(orders.length / 10))
    const first = await playAll(node, orders.slice(0, tenth))
    const early = await Promise.race([node.gateway.facts(), node.died])
    const rest = await playAll(node, orders.slice(tenth))
    const played = [...first, ...rest]
    const problems = [...played.flatMap(problemsOf), ...(await strayCalls(node))]
    const smallest = await shrinkFirst(node, other, problems, played)
    await node.gateway.close(OTHER_SESSION)
    const late = await Promise.race([node.gateway.facts(), node.died])
    problems.push(...atRest(late), ...grown(early, late, rest.length > 0))
    problems.push(...(await node.end()).map(ofTheRun))
    return {
      results: played.flatMap(({ results }) => results),
      generations: played.reduce((sum, { generations }) => sum + generations, 0),
      problems,
      smallest,
      memoryBytes: { early: early.memoryBytes, late: late.memoryBytes },
      blockedMs: {
        longest: Math.max(early.blockedMs.longest, late.blockedMs.longest),
        p99: Math.max(early.blockedMs.p99, late.blockedMs.p99),
      },
      seconds: (performance.now() - startedMs) / 1000,
    }
  } catch (error) {
    await node.end().catch(() => {})
    throw error
  }
}

async function playAll(node: FuzzNode, orders: readonly SessionOrder[]): Promise<readonly PlayedSession[]> {
  const queue = [...orders]
  const played: PlayedSession[] = []
  const lane = async (): Promise<void> => {
    for (let order = queue.shift(); order !== undefined; order = queue.shift())
      played.push(await Promise.race([playSession(order), node.died]))
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  return played.sort((a, b) => a.session - b.session)
}

async function shrinkFirst(
  node: FuzzNode,
  other: SessionOrder['other'],
  problems: readonly Problem[],
  played: readonly PlayedSession[],
): Promise<ReadonlyMap<number, string>> {
  const smallest = new Map<number, string>()
  for (const { index, problem } of problems) {
    const plan = played.flatMap(({ results }) => results).find((result) => result.plan.index === index)?.plan
    if (plan === undefined || smallest.size >= MAX_SHRUNK) continue
    const json = await shrink(node, other, plan, problem)
    if (json !== null) smallest.set(plan.index, `${plan.method} ${plan.path}${plan.query} (${plan.tier}) ${json}`)
  }
  return smallest
}

function problemsOf({ session, results, problems }: PlayedSession): readonly Problem[] {
  const ofRequests = results.flatMap(({ plan, problem }) => (problem === null ? [] : [{ index: plan.index, session, problem }]))
  const ofBooks = problems.map((problem) => {
    const index = /^request (\d+): /.exec(problem)?.[1]
    return { index: index === undefined ? null : Number(index), session, problem }
  })
  return [...ofRequests, ...ofBooks]
}

const ofTheRun = (problem: string): Problem => ({ index: null, session: null, problem })

/** Nothing of the other sessions may have reached the one that stood open beside them. */
async function strayCalls(node: FuzzNode): Promise<readonly Problem[]> {
  const { sealed } = await node.gateway.seal(OTHER_SESSION)
  const requests = await node.engines.requestsOf(OTHER_SEED)
  if (sealed.calls.length === 0 && requests.length === 0) return []
  return [ofTheRun(`${sealed.calls.length} calls and ${requests.length} generations in a session that nobody spoke for`)]
}

function atRest({ arena, replicas, kernel, faults }: GatewayFacts): readonly Problem[] {
  const problems = [...new Set(faults)].map((fault) => `fault of the boundary: ${fault}`)
  if (arena.leasedBlocks !== 0) problems.push(`${arena.leasedBlocks} blocks are leased at rest`)
  if (arena.allocatedBlocks !== arena.freeBlocks + arena.leasedBlocks) problems.push(`the arena does not add up: ${JSON.stringify(arena)}`)
  for (const { id, inFlight, waiting } of replicas) {
    if (inFlight !== 0 || waiting !== 0) problems.push(`replica ${id} has ${inFlight} in flight and ${waiting} waiting at rest`)
  }
  if (kernel.pendingAsks !== 0 || kernel.pendingTimers !== 0) problems.push(`the kernel is not at rest: ${JSON.stringify(kernel)}`)
  return problems.map(ofTheRun)
}

function grown(early: GatewayFacts, late: GatewayFacts, isLater: boolean): readonly Problem[] {
  const limit = early.memoryBytes * MEMORY_MULTIPLE + MEMORY_SLACK_BYTES
  if (!isLater || late.memoryBytes <= limit) return []
  const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`
  return [
    ofTheRun(
      `memory grew from ${mib(early.memoryBytes)} to ${mib(late.memoryBytes)}, more than ${MEMORY_MULTIPLE} times and ${mib(MEMORY_SLACK_BYTES)}`,
    ),
  ]
}
