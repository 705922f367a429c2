// How an agent is told that its session's budget is used up: as the last word of its model, so that it ends as if it were done.
import type { BudgetLimits, Spendable } from '../contract/session-budget.ts'
import type { ChatAnswer } from './chat.ts'
import { type Failure, failure } from './failure.ts'

/** No engine has said this: it has no tokens and is no turn. Nothing in it is a word by which a client knows an error. */
export function farewellAnswer(spent: Spendable, limits: BudgetLimits): ChatAnswer {
  return {
    message: { role: 'assistant', content: `I have to stop here: ${spentSentence(spent, limits)}.` },
    finishReason: 'stop',
    usage: { promptTokens: 0, completionTokens: 0, cachedTokens: null, reasoningTokens: null },
    stopSequence: null,
    logprobs: null,
  }
}

/** For a client that asks on: every dialect tells it so that none asks again. */
export function spentFailure(spent: Spendable, limits: BudgetLimits): Failure {
  return failure('budget-exhausted', spentSentence(spent, limits))
}

export function spentSentence(spent: Spendable, limits: BudgetLimits): string {
  if (spent === 'text_bytes') return "the session's memory for the texts of its calls is used up"
  const limit = limits[spent]
  const [one, many] = WORDS[spent]
  return `the session's budget of ${limit} ${limit === 1 ? one : many} is used up`
}

const WORDS = {
  calls: ['model call', 'model calls'],
  sampled_tokens: ['sampled token', 'sampled tokens'],
  context_tokens: ['token of context', 'tokens of context'],
  seconds: ['second', 'seconds'],
} as const
