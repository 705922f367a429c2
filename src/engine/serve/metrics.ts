// The engine's counters and their Prometheus text, under each engine's own names.

export type Tally = {
  /** Rises by one with every generation. */
  nextSerial(): number
  /** A prompt has been read, so many of its tokens from a state that was still there. */
  started(promptTokens: number, cachedTokens: number): void
  /** Seconds from a request's arrival to its first token. */
  firstToken(seconds: number): void
  drawn(tokens: number): void
  finished(reason: string): void
  totals(): Totals
}

type Totals = {
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly generationTokens: number
  readonly finished: ReadonlyMap<string, number>
  readonly firstTokens: Histogram
}

/** `counts[i]`: how many were at most `BUCKETS[i]`. */
type Histogram = { readonly counts: readonly number[]; readonly sum: number; readonly count: number }

export type Gauges = { readonly running: number; readonly waiting: number; readonly cacheUsage: number }

/** Seconds, as vLLM has them for the first token. */
const BUCKETS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560]

export function openTally(): Tally {
  let serial = 0
  let promptTokens = 0
  let cachedTokens = 0
  let generationTokens = 0
  const finished = new Map<string, number>()
  const counts = BUCKETS.map(() => 0)
  let sum = 0
  let count = 0
  return {
    nextSerial() {
      serial += 1
      return serial
    },
    started(tokens, cached) {
      promptTokens += tokens
      cachedTokens += cached
    },
    firstToken(seconds) {
      sum += seconds
      count += 1
      for (const [at, limit] of BUCKETS.entries()) if (seconds <= limit) counts[at] = (counts[at] ?? 0) + 1
    },
    drawn(tokens) {
      generationTokens += tokens
    },
    finished(reason) {
      finished.set(reason, (finished.get(reason) ?? 0) + 1)
    },
    totals: () => ({ promptTokens, cachedTokens, generationTokens, finished, firstTokens: { counts, sum, count } }),
  }
}

export function vllmMetrics(model: string, totals: Totals, gauges: Gauges): string {
  const labels = `engine="0",model_name="${escaped(model)}"`
  const lines = [
    ...gauge('vllm:num_requests_running', labels, gauges.running),
    ...gauge('vllm:num_requests_waiting', labels, gauges.waiting),
    ...gauge('vllm:kv_cache_usage_perc', labels, gauges.cacheUsage),
    ...counter('vllm:prefix_cache_queries', labels, totals.promptTokens),
    ...counter('vllm:prefix_cache_hits', labels, totals.cachedTokens),
    ...counter('vllm:prompt_tokens', labels, totals.promptTokens),
    ...counter('vllm:generation_tokens', labels, totals.generationTokens),
    '# TYPE vllm:request_success counter',
    ...[...totals.finished].map(([reason, count]) => `vllm:request_success_total{${labels},finished_reason="${reason}"} ${count}.0`),
    ...histogram('vllm:time_to_first_token_seconds', labels, totals.firstTokens),
  ]
  return `${lines.join('\n')}\n`
}

export function sglangMetrics(model: string, totals: Totals, gauges: Gauges): string {
  const labels = `model_name="${escaped(model)}"`
  const hitRate = totals.promptTokens === 0 ? 0 : totals.cachedTokens / totals.promptTokens
  const lines = [
    ...gauge('sglang:num_running_reqs', labels, gauges.running),
    ...gauge('sglang:num_queue_reqs', labels, gauges.waiting),
    ...gauge('sglang:token_usage', labels, gauges.cacheUsage),
    ...gauge('sglang:cache_hit_rate', labels, hitRate),
    ...counter('sglang:prompt_tokens', labels, totals.promptTokens),
    ...counter('sglang:generation_tokens', labels, totals.generationTokens),
    ...histogram('sglang:time_to_first_token_seconds', labels, totals.firstTokens),
  ]
  return `${lines.join('\n')}\n`
}

export function llamacppMetrics(_model: string, totals: Totals, gauges: Gauges): string {
  const plain = (name: string, type: 'gauge' | 'counter', value: number) => [`# TYPE llamacpp:${name} ${type}`, `llamacpp:${name} ${value}`]
  const lines = [
    ...plain('requests_processing', 'gauge', gauges.running),
    ...plain('requests_deferred', 'gauge', gauges.waiting),
    ...plain('prompt_tokens_total', 'counter', totals.promptTokens - totals.cachedTokens),
    ...plain('tokens_predicted_total', 'counter', totals.generationTokens),
  ]
  return `${lines.join('\n')}\n`
}

/** Within a label's quotes. */
const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
/** A number as Python's client writes it. */
const float = (value: number): string => (Number.isInteger(value) ? `${value}.0` : String(value))
const gauge = (name: string, labels: string, value: number): readonly string[] => [
  `# TYPE ${name} gauge`,
  `${name}{${labels}} ${float(value)}`,
]
const counter = (name: string, labels: string, value: number): readonly string[] => [
  `# TYPE ${name} counter`,
  `${name}_total{${labels}} ${value}.0`,
]
const histogram = (name: string, labels: string, { counts, sum, count }: Histogram): readonly string[] => [
  `# TYPE ${name} histogram`,
  ...BUCKETS.map((limit, at) => `${name}_bucket{${labels},le="${float(limit)}"} ${counts[at] ?? 0}.0`),
  `${name}_bucket{${labels},le="+Inf"} ${count}.0`,
  `${name}_count{${labels}} ${count}.0`,
  `${name}_sum{${labels}} ${float(sum)}`,
]
