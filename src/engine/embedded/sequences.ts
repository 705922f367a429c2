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
   * The free place that holds most of the prompt's beginning; among equals the one left alone the longest. Null when none is free.
   * `shared`: how many of the prompt's first tokens it holds.
   */
  take(prompt: Int32Array): { readonly place: Place; readonly shared: number } | null {
    let best: Place | null = null
    let shared = -1
    for (const place of this.#places) {
      if (place.isTaken) continue
      const length = commonPrefix(place, prompt)
      if (best !== null && (length < shared || (length === shared && place.lastTaken >= best.lastTaken))) continue
      best = place
      shared = length
    }
    if (best === null) return null
    this.#takings += 1
    best.isTaken = true
    best.lastTaken = this.#takings
    return { place: best, shared }
  }

  /** What it holds stays, for prompts that begin alike. */
  giveBack(place: Place): void {
    place.isTaken = false
  }

  keptTokens(): number {
    return this.#places.reduce((sum, place) => sum + place.length, 0)
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
