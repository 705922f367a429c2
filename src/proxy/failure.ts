// Every way a model call can fail: the status it is answered with, and how often in a row a client may be asked to come back for it.

type Kind = {
  readonly status: number
  /** With so many failures of one turn in a row the client is told to leave it, in these words. */
  readonly tries: number
  readonly lastWords: string
}

/** Asking again changes nothing. */
const final = (status: number): Kind => ({ status, tries: 1, lastWords: '' })
/** It may be over the next time, and whoever asks for ever never ends. */
const passing = (status: number, tries: number, lastWords: string): Kind => ({ status, tries, lastWords })

/** The one status that every agent takes for the last word. */
const LAST_WORD = 400

const KINDS = {
  'malformed-json': final(400),
  'invalid-request': final(400),
  'constrained-decoding': final(400),
  'context-overflow': final(400),
  'engine-rejected': final(400),
  'failed-repeatedly': final(LAST_WORD),
  'previous-response-unknown': final(400),
  // Vendors say 429, which most agents take for an invitation.
  'budget-exhausted': final(400),
  unauthenticated: final(401),
  forbidden: final(403),
  'session-ended': final(403),
  'not-trainable': final(403),
  'route-unknown': final(404),
  'model-unknown': final(404),
  'too-large': final(413),
  'unsupported-encoding': final(415),
  'upgrade-required': final(426),
  overloaded: passing(429, 5, 'every inference server stays busy'),
  'gateway-error': passing(500, 3, 'the gateway keeps failing to serve this call'),
  'engine-failed': passing(502, 3, 'the inference server keeps failing'),
  'engine-unreachable': passing(503, 5, 'no inference server comes back'),
  'engine-aborted': passing(503, 5, 'the inference server keeps aborting the generation'),
  'not-recorded': passing(503, 5, 'the call cannot be made durable'),
  'gateway-closing': passing(503, 5, 'the gateway is stopping'),
  /** It took an hour. */
  'engine-timeout': passing(504, 2, 'the inference server does not answer in time'),
  /** Told to nobody: the client or the session is gone. */
  cancelled: final(499),
} as const satisfies Readonly<Record<string, Kind>>

export type FailureCode = keyof typeof KINDS

export type Failure = {
  readonly code: FailureCode
  readonly status: number
  /** In the caller's terms: names its field, never ours. */
  readonly message: string
  /** The field of the request that is to blame. */
  readonly param: string | null
  readonly retryAfterMs: number | null
  /** The client is not to ask again. */
  readonly isFinal: boolean
}

type Particulars = { readonly param?: string; readonly retryAfterMs?: number; readonly status?: number }

export function failure(code: FailureCode, message: string, particulars: Particulars = {}): Failure {
  return {
    code,
    status: particulars.status ?? KINDS[code].status,
    message,
    param: particulars.param ?? null,
    retryAfterMs: particulars.retryAfterMs ?? null,
    isFinal: KINDS[code].tries === 1,
  }
}

const MAX_RETRY_AFTER_MS = 30_000

/**
 * The failure as it is told when its turn has failed this many times in a row: come back later each time, and in the end not at all.
 * The last words and their code are our own: whatever the status, Pi asks again for an "internal error", OpenCode for a `rate_limit_exceeded`.
 */
export function inARow(reason: Failure, times: number): Failure {
  if (reason.isFinal || times < 2) return reason
  const { tries, lastWords } = KINDS[reason.code]
  if (times >= tries) return failure('failed-repeatedly', `${lastWords} (${times} times in a row)`)
  const { retryAfterMs } = reason
  return retryAfterMs === null ? reason : { ...reason, retryAfterMs: Math.min(MAX_RETRY_AFTER_MS, retryAfterMs * 2 ** (times - 1)) }
}

/** True when the next failure of a turn that has failed so often may be the last word: only a status says that to every client. */
export function isLastTry(earlierFailures: number): boolean {
  return earlierFailures >= 2
}
