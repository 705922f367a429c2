// `polar pause` and `polar resume`: the model calls of a node, or of one gateway, held while weights are updated.
import { type AskOptions, askNode } from './asking.ts'
import type { ExitCode } from './exit.ts'

export type PauseOptions = AskOptions & {
  readonly gateway?: string
  /** Seconds that calls in flight may take to end. */
  readonly timeout?: number
}

type Status = {
  readonly node_id?: string
  readonly paused: boolean
  readonly inflight: number
  readonly healthy?: boolean
  readonly metadata?: { readonly polar_node: { readonly node_id: string; readonly waiting: number } }
}
type Answer = Status | (Status & { readonly gateways: readonly Status[] })

export function pauseInference({ timeout, ...options }: PauseOptions): Promise<ExitCode> {
  const query = timeout === undefined ? '' : `?timeout_seconds=${timeout}`
  return askNode(options, (client) => client.post(`${placeOf(options)}/pause${query}`, {}), describe)
}

export function resumeInference(options: PauseOptions): Promise<ExitCode> {
  return askNode(options, (client) => client.post(`${placeOf(options)}/resume`, {}), describe)
}

function placeOf({ gateway }: PauseOptions): string {
  return `${gateway === undefined ? '' : `/gateways/${encodeURIComponent(gateway)}`}/admin/inference`
}

function describe(answer: Answer): string {
  const gateways = 'gateways' in answer ? answer.gateways : [answer]
  return gateways.map((status) => `${describeStatus(status)}\n`).join('')
}

function describeStatus({ node_id, paused, inflight, healthy, metadata }: Status): string {
  const own = metadata?.polar_node
  const silent = healthy === false ? '  does not answer' : ''
  return `gateway ${node_id ?? own?.node_id}  ${paused ? 'paused' : 'serving'}  in flight ${inflight}, waiting ${own?.waiting ?? 0}${silent}`
}
