// Every way a model call can fail, with the status it is answered with; dialects put it into their own envelope.

const STATUS = {
  'malformed-json': 400,
  'invalid-request': 400,
  'constrained-decoding': 400,
  'context-overflow': 400,
  'engine-rejected': 400,
  'previous-response-unknown': 400,
  unauthenticated: 401,
  forbidden: 403,
  'session-ended': 403,
  'not-trainable': 403,
  'route-unknown': 404,
  'model-unknown': 404,
  'too-large': 413,
  'unsupported-encoding': 415,
  'upgrade-required': 426,
  overloaded: 429,
  'budget-exhausted': 429,
  'gateway-error': 500,
  'engine-failed': 502,
  'engine-unreachable': 503,
  'engine-aborted': 503,
  'not-recorded': 503,
  'gateway-closing': 503,
  'engine-timeout': 504,
  /** Told to nobody: the client or the session is gone. */
  cancelled: 499,
} as const

export type FailureCode = keyof typeof STATUS

export type Failure = {
  readonly code: FailureCode
  readonly status: number
  /** In the caller's terms: names its field, never ours. */
  readonly message: string
  /** The field of the request that is to blame. */
  readonly param: string | null
  readonly retryAfterMs: number | null
}

type Particulars = { readonly param?: string; readonly retryAfterMs?: number; readonly status?: number }

export function failure(code: FailureCode, message: string, particulars: Particulars = {}): Failure {
  return {
    code,
    status: particulars.status ?? STATUS[code],
    message,
    param: particulars.param ?? null,
    retryAfterMs: particulars.retryAfterMs ?? null,
  }
}
