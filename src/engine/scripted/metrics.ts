// The engine's counters and their Prometheus text, under each engine's own names.

export type Tally = {
  /** Rises by one with every generation. */
  nextSerial(): number
  started(promptTokens: number): void
  finished(reason: string, tokens: number): void
  totals(): Totals
}

type Totals = { readonly promptTokens: number; readonly generationTokens: number; readonly finished: ReadonlyMap<string, number> }

export function openTally(): Tally {
  let serial = 0
  let promptTokens = 0
  let generationTokens = 0
  const finished = new Map<string, number>()
  return {
    nextSerial() {
      serial += 1
      return serial
    },
    started(tokens) {
      promptTokens += tokens
    },
    finished(reason, tokens) {
      generationTokens += tokens
      finished.set(reason, (finished.get(reason) ?? 0) + 1)
    },
    totals: () => ({ promptTokens, generationTokens, finished }),
  }
}

export function vllmMetrics(model: string, totals: Totals, counts: { readonly running: number; readonly waiting: number }): string {
  const labels = `engine="0",model_name="${model}"`
  const lines = [
    ...gauge('vllm:num_requests_running', labels, counts.running),
    ...gauge('vllm:num_requests_waiting', labels, counts.waiting),
    ...gauge('vllm:kv_cache_usage_perc', labels, 0),
    ...counter('vllm:prompt_tokens', labels, totals.promptTokens),
    ...counter('vllm:generation_tokens', labels, totals.generationTokens),
    '# TYPE vllm:request_success counter',
    ...[...totals.finished].map(([reason, count]) => `vllm:request_success_total{${labels},finished_reason="${reason}"} ${count}.0`),
  ]
  return `${lines.join('\n')}\n`
}

export function sglangMetrics(model: string, totals: Totals, counts: { readonly running: number; readonly waiting: number }): string {
  const labels = `model_name="${model}"`
  const lines = [
    ...gauge('sglang:num_running_reqs', labels, counts.running),
    ...gauge('sglang:num_queue_reqs', labels, counts.waiting),
    ...gauge('sglang:token_usage', labels, 0),
    ...counter('sglang:prompt_tokens', labels, totals.promptTokens),
    ...counter('sglang:generation_tokens', labels, totals.generationTokens),
  ]
  return `${lines.join('\n')}\n`
}

export function llamacppMetrics(_model: string, totals: Totals, counts: { readonly running: number; readonly waiting: number }): string {
  const plain = (name: string, type: 'gauge' | 'counter', value: number) => [`# TYPE llamacpp:${name} ${type}`, `llamacpp:${name} ${value}`]
  const lines = [
    ...plain('requests_processing', 'gauge', counts.running),
    ...plain('requests_deferred', 'gauge', counts.waiting),
    ...plain('prompt_tokens_total', 'counter', totals.promptTokens),
    ...plain('tokens_predicted_total', 'counter', totals.generationTokens),
  ]
  return `${lines.join('\n')}\n`
}

const gauge = (name: string, labels: string, value: number): readonly string[] => [`# TYPE ${name} gauge`, `${name}{${labels}} ${value}.0`]
const counter = (name: string, labels: string, value: number): readonly string[] => [
  `# TYPE ${name} counter`,
  `${name}_total{${labels}} ${value}.0`,
]
