// Which inference server the sessions ran on: what the configuration, the node and the server itself say of it.
import { z } from 'zod'
import type { Config } from '../config.ts'
import type { EngineFacts } from './drift-report.ts'
import type { FoundReplica } from './engine-readiness.ts'

const DEADLINE_MS = 10_000
const modelsSchema = z.looseObject({ data: z.array(z.looseObject({ id: z.string() })).min(1) })

/**
 * `model`: the name that was asked for; without one it is what the node would take, the first that the server lists. `embeddedUrl`: where the
 * node's own engine listens, or null.
 */
export async function readEngine(
  replica: FoundReplica,
  { nodes }: Config,
  model: string | null,
  embeddedUrl: string | null,
): Promise<EngineFacts> {
  const replicas = nodes.flatMap((node) => node.replicas)
  // A router's workers stand in no configuration.
  const spec = replicas.find(({ url }) => url === replica.url) ?? replicas.find(({ isRouter }) => isRouter) ?? replicas[0]
  const named = model ?? nodes.map(({ modelServed }) => modelServed).find((name) => name !== '') ?? null
  return {
    url: replica.url,
    kind: replica.url === embeddedUrl ? 'embedded' : (spec?.engine ?? 'vllm'),
    model: named ?? (await firstModel(replica.url)),
    logprob_mode: replica.logprob_mode,
    max_model_len: replica.max_model_len,
  }
}

async function firstModel(url: string): Promise<string | null> {
  try {
    const response = await fetch(`${url}/v1/models`, { signal: AbortSignal.timeout(DEADLINE_MS) })
    const parsed = modelsSchema.safeParse(await response.json())
    return parsed.success ? (parsed.data.data[0]?.id ?? null) : null
  } catch {
    return null
  }
}
