// What a dialect's grammar gives: valid requests, and the next turn of a conversation that was really answered.
import type { DialectName } from '../../../src/contract/call.ts'
import type { Dice } from '../dice.ts'

export type Body = Readonly<Record<string, unknown>>

/** Whatever the request is written for. */
export type Setting = {
  readonly tier: 'train' | 'eval'
  /** Stands in the newest words of the request. */
  readonly mark: string
}

export type ValidRequest = {
  readonly path: string
  readonly query: string
  readonly body: Body
  /** How the answer is asked for. */
  readonly form: 'plain' | 'events' | 'array'
  /** Features for which a server may refuse this valid request with a 4xx; empty when it must serve it. */
  readonly refusable: readonly string[]
}

/** A request that was answered in full, and what the client keeps of the answer: its dialect's own history items. */
export type Answered = { readonly request: ValidRequest; readonly kept: Kept }

/** The answer in the vendor's own form, ready to be put into a history. */
export type Kept = {
  readonly items: readonly Body[]
  /** Calls that want a result, in order; `kind` is the item's type where a dialect has several. */
  readonly calls: readonly { readonly id: string; readonly name: string; readonly kind: string }[]
  /** Names the answer, for a dialect whose client may send only what is new. */
  readonly responseId: string | null
}

export type Grammar = {
  readonly dialect: DialectName
  request(dice: Dice, setting: Setting): ValidRequest
  /** The same conversation one turn later, the answer returned as this dialect's clients return it. */
  nextTurn(dice: Dice, setting: Setting, answered: Answered): ValidRequest
  /** The body of the vendor's token-counting route. */
  count(dice: Dice, setting: Setting): Pick<ValidRequest, 'path' | 'body' | 'refusable'>
}

/** How often a part is drawn that may be refused: a history has dozens, and one is enough to refuse it all. */
export const RARE = 0.15

/** Collects what makes a request refusable while it is written. */
export type Refusable = { readonly reasons: string[]; because<T>(reason: string, value: T): T }

export function openRefusable(): Refusable {
  const reasons: string[] = []
  return {
    reasons,
    because(reason, value) {
      reasons.push(reason)
      return value
    },
  }
}

/** A body's list as one, or nothing of it. */
export function listOf(body: Body, name: string): readonly Body[] {
  const value = body[name]
  return Array.isArray(value) ? value : []
}
