// A first-in first-out queue over a power-of-two array that grows to what is used; its owner keeps the bound.

const FIRST_SLOTS = 16

export class Ring<T> {
  #slots: (T | undefined)[] = new Array<T | undefined>(FIRST_SLOTS).fill(undefined)
  #mask = FIRST_SLOTS - 1
  #head = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  push(item: T): void {
    if (this.#size > this.#mask) this.#grow()
    this.#slots[(this.#head + this.#size) & this.#mask] = item
    this.#size++
  }

  shift(): T | undefined {
    if (this.#size === 0) return undefined
    const item = this.#slots[this.#head]
    // The slot is emptied so that a delivered message is not kept alive by its queue.
    this.#slots[this.#head] = undefined
    this.#head = (this.#head + 1) & this.#mask
    this.#size--
    return item
  }

  /** Everything that waits, oldest first; the ring is empty afterwards. */
  drain(): T[] {
    const items: T[] = []
    for (let item = this.shift(); item !== undefined; item = this.shift()) items.push(item)
    return items
  }

  /** Everything that waits, oldest first, left in place. */
  items(): T[] {
    const items: T[] = []
    for (let index = 0; index < this.#size; index++) {
      const item = this.#slots[(this.#head + index) & this.#mask]
      if (item !== undefined) items.push(item)
    }
    return items
  }

  #grow(): void {
    const slots = new Array<T | undefined>((this.#mask + 1) * 2).fill(undefined)
    for (let index = 0; index < this.#size; index++) slots[index] = this.#slots[(this.#head + index) & this.#mask]
    this.#slots = slots
    this.#mask = slots.length - 1
    this.#head = 0
  }
}
