// The places generations take in the model's memory: which is free, what each still holds, and which suits a prompt best.

/** What one sequence of the model's memory holds. `tokens` is as long as a sequence may get; the first `length` are held. */
export type Place = {
  readonly index: number
  readonly tokens: Int32Array
  length: number
  isTaken: boolean
  /** Counts takings: the place with the lowest is the one that was left alone the longest. */
  lastTaken: number
}

/** Of what a place holds. A conversation changed near its end keeps this much; a long system prompt in common can be half of two. */
const CONTINUED_SHARE = 3 / 4

export class Places {
  readonly #places: readonly Place[]
  #takings = 0

  constructor(count: number, contextTokens: number) {
    this.#places = Array.from({ length: count }, (_, index) => ({
      index,
      tokens: new Int32Array(contextTokens),
      length: 0,
      isTaken: false,
      lastTaken: 0,
    }))
  }

  /**
   * The free place that holds most of the prompt's beginning and little else: what it holds is continued. Else the one left alone the
   * longest: a beginning that many prompts share is worth less than what would be lost of a conversation that may go on. Null when none is
   * free. `shared`: how many of the prompt's first tokens it holds.
   */
  take(prompt: Int32Array): { readonly place: Place; readonly shared: number } | null {
    const free = this.#places
      .filter((place) => !place.isTaken)
      .map((place) => ({ place, shared: commonPrefix(place, prompt) }))
      .sort((a, b) => a.place.lastTaken - b.place.lastTaken)
    const continued = free.filter(({ place, shared }) => shared > 0 && shared >= place.length * CONTINUED_SHARE)
    const chosen = continued.sort((a, b) => b.shared - a.shared)[0] ?? free[0]
    if (chosen === undefined) return null
    this.#takings += 1
    chosen.place.isTaken = true
    chosen.place.lastTaken = this.#takings
    return chosen
  }

  /** What it holds stays, for prompts that begin alike. */
  giveBack(place: Place): void {
    place.isTaken = false
  }

  /** Tokens held by places that are taken: what the others hold is given up for whoever needs the room. */
  usedTokens(): number {
    return this.#places.reduce((sum, place) => sum + (place.isTaken ? place.length : 0), 0)
  }
}

export function holdOne(place: Place, id: number): void {
  place.tokens[place.length] = id
  place.length += 1
}

export function hold(place: Place, ids: Int32Array): void {
  place.tokens.set(ids, place.length)
  place.length += ids.length
}

/** Compares number by number: prompts of tens of thousands of tokens allocate nothing. */
function commonPrefix(place: Place, prompt: Int32Array): number {
  const end = Math.min(place.length, prompt.length)
  const held = place.tokens
  let at = 0
  while (at < end && held[at] === prompt[at]) at += 1
  return at
}
