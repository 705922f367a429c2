// Where each gateway's tokens come from: the inference servers it names, or the embedded engine for those that name none.
import { availableParallelism } from 'node:os'
import type { GatewayId } from '../contract/ids.ts'
import { type ReplicaSpec, replicaSpec } from '../contract/replica.ts'
import { type ConfigProblem, type Path, type Place, problemAt } from './problems.ts'
import type { Config, NodeConfig, Overrides } from './resolve.ts'
import { type ConfigFile, defaultReplica } from './schema.ts'

export type EmbeddedConfig = {
  /** A GGUF file; null: the policy that comes with the package. */
  readonly modelPath: string | null
  /** The name it is served under; null: the name of the file. */
  readonly servedAs: string | null
  /** Generations at once. */
  readonly sequences: number
  /** Of the processor, for each step of the transformer. */
  readonly threads: number
  /** Null: as long as the model was trained for. */
  readonly maxModelLen: number | null
  /** Those that name no inference server; at least one. */
  readonly gateways: readonly GatewayId[]
  /** The file asks for it; else it stands in for servers that nobody named. */
  readonly isAskedFor: boolean
}

type FileNode = NonNullable<ConfigFile['gateway']['nodes']>[number]

const DEFAULT_SEQUENCES = 8
const POLAR_BASE_URL = 'http://127.0.0.1:8000'
/** Where an operator says what to sample from. */
export const WAYS_TO_NAME_SERVERS = 'gateway.nodes[].inference.base_url, polar_node.replicas or --engine-url'

/** The servers that the file or the command line names for this gateway; empty when neither names any. */
export function namedReplicas(node: FileNode, id: string, own: ConfigFile['polar_node'], overrides: Overrides): readonly ReplicaSpec[] {
  const engine = node.inference.engine ?? overrides.engine ?? 'sglang'
  const url = node.inference.base_url ?? overrides.engineUrl ?? (speaksOfServer(node, own) ? POLAR_BASE_URL : undefined)
  const listed = own.replicas?.[id] ?? (url === undefined ? [] : [defaultReplica(`${id}-replica-0`, url)])
  return listed.map((replica) => replicaSpec(replica, engine))
}

/** Who says what a server is or serves, and not where, means Polar's default address; unless the embedded engine is asked for. */
function speaksOfServer({ inference, model_served: model }: FileNode, { embedded }: ConfigFile['polar_node']): boolean {
  return !isAskedFor(embedded) && (inference.engine !== undefined || model !== '')
}

function isAskedFor(embedded: ConfigFile['polar_node']['embedded']): embedded is Exclude<typeof embedded, false | null | undefined> {
  return embedded != null && embedded !== false
}

/** Null when no gateway is left to it. Where some name servers and others do not, it serves the others only if the file asks for it. */
export function embeddedConfig(
  written: ConfigFile['polar_node']['embedded'],
  nodes: readonly NodeConfig[],
  absolute: (path: string) => string,
): EmbeddedConfig | null {
  const nameless = nodes.filter(({ replicas }) => replicas.length === 0)
  const isAsked = isAskedFor(written)
  const isOffered = isAsked || (written !== false && nameless.length === nodes.length)
  if (!isOffered || nameless.length === 0) return null
  const keys = isAsked ? written : null
  return {
    modelPath: keys?.model === undefined ? null : absolute(keys.model),
    servedAs: keys?.served_as ?? null,
    sequences: keys?.sequences ?? DEFAULT_SEQUENCES,
    threads: keys?.threads ?? Math.max(1, Math.floor(availableParallelism() / 2)),
    maxModelLen: keys?.max_model_len ?? null,
    gateways: nameless.map(({ id }) => id),
    isAskedFor: isAsked,
  }
}

/** Gateways that nothing would serve, and those whose entry speaks of a server that is not named. */
export function inferenceProblems(place: Place, parsed: ConfigFile, { nodes, embedded }: Config): readonly ConfigProblem[] {
  const { embedded: written } = parsed.polar_node
  const nameless = nodes.filter(({ replicas }) => replicas.length === 0)
  if (written === false && nameless.length === nodes.length)
    return [
      problemAt(place, ['polar_node', 'embedded'], `is off, and no inference server is named; name yours with ${WAYS_TO_NAME_SERVERS}`),
    ]
  return nodes.flatMap((node, i) => {
    if (!nameless.includes(node)) return []
    const path: Path = ['gateway', 'nodes', i]
    if (embedded === null)
      return [
        problemAt(
          place,
          path,
          `names no inference server, as others do; name one with ${WAYS_TO_NAME_SERVERS}, or set polar_node.embedded`,
        ),
      ]
    const { inference, model_served: model } = parsed.gateway.nodes?.[i] ?? { inference: {}, model_served: '' }
    const problems: ConfigProblem[] = []
    if (inference.engine !== undefined)
      problems.push(problemAt(place, [...path, 'inference', 'engine'], `is said of no server; name it with ${WAYS_TO_NAME_SERVERS}`))
    if (model !== '' && model !== embedded.servedAs) {
      const how = `name the server that has it with ${WAYS_TO_NAME_SERVERS}, or set polar_node.embedded.served_as`
      problems.push(problemAt(place, [...path, 'model_served'], `is a model of no server; ${how}`))
    }
    return problems
  })
}

/** What is written and has no effect, and what is not written and has one. */
export function inferenceNotes(
  { gateway, polar_node: own }: ConfigFile,
  nodes: readonly NodeConfig[],
  embedded: EmbeddedConfig | null,
  overrides: Overrides,
): readonly string[] {
  const isIdle = isAskedFor(own.embedded) && embedded === null
  const assumed = (gateway.nodes ?? []).flatMap((node, i) => {
    const isSaid = own.replicas?.[nodes[i]?.id ?? ''] !== undefined || (node.inference.base_url ?? overrides.engineUrl) !== undefined
    return !isSaid && speaksOfServer(node, own)
      ? [`gateway.nodes[${i}].inference.base_url is not written: ${POLAR_BASE_URL}, as in Polar`]
      : []
  })
  return [...(isIdle ? ['polar_node.embedded has no effect here: every gateway has inference servers of its own'] : []), ...assumed]
}
