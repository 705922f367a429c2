// Why a generation ends with an error: one class and one stable code each.

/** Prompt and answer fill the context: there is no room for another token. */
export class ContextFullError extends Error {
  readonly code = 'context-full'

  constructor(contextTokens: number) {
    super(`the context of ${contextTokens} tokens is full`)
  }
}

export class SequencesTakenError extends Error {
  readonly code = 'sequences-taken'

  constructor() {
    super('as many generations go on as the model has sequences')
  }
}

/** The model gives no token a probability that is a number. */
export class BrokenDistributionError extends Error {
  readonly code = 'broken-distribution'

  constructor() {
    super('the model gives no token a probability: its weights are damaged')
  }
}

/** The weights are gone, or about to go. */
export class ModelClosedError extends Error {
  readonly code = 'model-closed'

  constructor() {
    super('the model was closed')
  }
}
