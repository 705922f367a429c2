// What became of a task's callback, in words; a task without one has nothing to say.

const WORDS: Readonly<Record<string, string>> = {
  pending: 'not yet delivered',
  delivered: 'delivered',
  dead: 'never delivered (polar callbacks says why)',
}

/** `delivery` as the control API gives it. */
export function describeDelivery(delivery: unknown): string | null {
  return WORDS[String(delivery)] ?? null
}
