// What the engine was asked and what it really emitted: the truth that captured tokens are compared with.
import type { GeneratedChoice } from '../wire/generation.ts'
import type { FaultName } from './faults.ts'

export type EngineRequest = {
  /** Monotonic milliseconds at which the request had been read. */
  readonly at: number
  readonly path: string
  /** The data-parallel rank it named; null for whichever the engine likes. */
  readonly rank: number | null
  /** The body as it came. */
  readonly body: unknown
  readonly promptTokens: number
  readonly promptIds: readonly number[]
  /** What was sampled for the first choice, whether or not a fault hid or spoilt it on the wire. */
  readonly sampledIds: readonly number[]
  readonly logprobs: readonly (number | null)[]
  /** All choices of a request with `n`. */
  readonly choices: readonly {
    readonly sampledIds: readonly number[]
    readonly logprobs: readonly (number | null)[]
    readonly finish: string | null
  }[]
  readonly variant: string | null
  readonly weightVersion: string
  readonly fault: FaultName | null
  /** The status answered; null while open, after a reset and for a client that left first. */
  readonly status: number | null
  /** The client was gone before its answer was complete. */
  readonly cancelled: boolean
}

export type LogEntry = {
  sampled(choices: readonly GeneratedChoice[], variant: string | null): void
  prompted(ids: readonly number[]): void
  struck(fault: FaultName): void
  answered(status: number): void
  cancelled(): void
}

export type RequestLog = {
  open(arrived: Pick<EngineRequest, 'at' | 'path' | 'rank' | 'body' | 'weightVersion'>): LogEntry
  list(): readonly EngineRequest[]
}

/** Keeps the last requests: at most so many, and of those only as many as have at most so many prompt tokens together. */
export function openRequestLog(limits: { readonly requests: number; readonly promptTokens: number }): RequestLog {
  const entries: EngineRequest[] = []
  let promptTokens = 0
  const trim = () => {
    while (entries.length > limits.requests || (entries.length > 1 && promptTokens > limits.promptTokens)) {
      promptTokens -= entries.shift()?.promptTokens ?? 0
    }
  }
  return {
    open(arrived) {
      let entry: EngineRequest = {
        ...arrived,
        promptTokens: 0,
        promptIds: [],
        sampledIds: [],
        logprobs: [],
        choices: [],
        variant: null,
        fault: null,
        status: null,
        cancelled: false,
      }
      entries.push(entry)
      trim()
      const change = (changes: Partial<EngineRequest>) => {
        const index = entries.lastIndexOf(entry)
        const before = entry.promptTokens
        entry = { ...entry, ...changes }
        if (index === -1) return
        entries[index] = entry
        promptTokens += entry.promptTokens - before
        trim()
      }
      return {
        sampled(generated, variant) {
          const choices = generated.map((choice) => ({
            sampledIds: choice.tokens.map((token) => token.id),
            logprobs: choice.logprobs,
            finish: choice.finish,
          }))
          change({ choices, variant, sampledIds: choices[0]?.sampledIds ?? [], logprobs: choices[0]?.logprobs ?? [] })
        },
        prompted: (ids) => change({ promptIds: ids, promptTokens: ids.length }),
        struck: (fault) => change({ fault }),
        answered: (status) => change({ status }),
        cancelled: () => change({ cancelled: true }),
      }
    },
    list: () => [...entries],
  }
}
