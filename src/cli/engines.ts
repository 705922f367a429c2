// `polar engines`: the inference servers of a node's gateways, listed, added and removed while it runs.
import { type AskOptions, askNode } from './asking.ts'
import type { ExitCode } from './exit.ts'
import { describeReplica } from './replica-line.ts'

export type EnginesOptions = AskOptions & {
  /** One gateway; all of them without it. */
  readonly gateway?: string
}

export type AddOptions = EnginesOptions & {
  readonly engine: string
  readonly id?: string
  readonly maxInFlight?: number
  readonly maxWaiting?: number
  readonly dataParallelRanks?: number
  readonly router?: boolean
}

type Listed = { readonly gateway_id: string; readonly healthy: boolean; readonly replicas: readonly Readonly<Record<string, unknown>>[] }
type Changed = { readonly id: string; readonly gateways: readonly string[] }

export function listEngines(options: EnginesOptions): Promise<ExitCode> {
  return askNode(
    options,
    (client) => client.get(pathOf(options)),
    (body: { readonly gateways: readonly Listed[] } | Listed) => describe(body),
  )
}

export function addEngine(url: string, options: AddOptions): Promise<ExitCode> {
  const { engine, id, maxInFlight, maxWaiting, dataParallelRanks, router } = options
  const entry = {
    url,
    engine,
    ...(id === undefined ? {} : { id }),
    ...(maxInFlight === undefined ? {} : { max_in_flight: maxInFlight }),
    ...(maxWaiting === undefined ? {} : { max_waiting: maxWaiting }),
    ...(dataParallelRanks === undefined ? {} : { data_parallel_ranks: dataParallelRanks }),
    ...(router === true ? { router } : {}),
  }
  return askNode(
    options,
    (client) => client.post(pathOf(options), entry),
    ({ id: given, gateways }: Changed) => `replica ${given} added to ${gateways.join(', ')}; it serves when its probe is answered\n`,
  )
}

export function removeEngine(id: string, options: EnginesOptions): Promise<ExitCode> {
  return askNode(
    options,
    (client) => client.delete(`${pathOf(options)}/${encodeURIComponent(id)}`),
    ({ gateways }: Changed) => `replica ${id} removed from ${gateways.join(', ')}; its calls in flight end by themselves\n`,
  )
}

function pathOf({ gateway }: EnginesOptions): string {
  return gateway === undefined ? '/replicas' : `/gateways/${encodeURIComponent(gateway)}/replicas`
}

function describe(body: { readonly gateways: readonly Listed[] } | Listed): string {
  const gateways = 'gateways' in body ? body.gateways : [body]
  const lines = gateways.flatMap(({ gateway_id, healthy, replicas }) => [
    `gateway ${gateway_id}${healthy ? '' : '  does not answer'}`,
    ...replicas.map((row) => `  ${describeReplica(row)}`),
    ...(healthy && replicas.length === 0 ? ['  no replicas: sessions wait until one is added'] : []),
  ])
  return `${lines.join('\n')}\n`
}
