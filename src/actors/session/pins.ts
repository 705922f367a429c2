// Sampling that the task fixes for every call of the session, whatever the agent CLI asks for.
import type { SamplingPins } from '../../proxy/boundary.ts'
import type { SessionSpec } from '../gateway/protocol.ts'

export function pinsOf(spec: SessionSpec): SamplingPins {
  const { settings } = spec.request.agent
  const { metadata } = spec.request
  const wanted = settings.sampling
  const sampling: Record<string, unknown> = typeof wanted === 'object' && wanted !== null ? { ...wanted } : {}
  const number = (value: unknown): number | undefined => (typeof value === 'number' && Number.isFinite(value) ? value : undefined)
  const base = number(metadata.eval_sampling_seed_base)
  const seed = base === undefined ? (number(settings.sampling_seed) ?? number(sampling.seed)) : base + spec.sampleIndex
  const [temperature, topP, topK] = [number(sampling.temperature), number(sampling.top_p), number(sampling.top_k)]
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(topK === undefined ? {} : { top_k: topK }),
    ...(seed === undefined ? {} : { seed }),
  }
}
