// The tokens around a break as text: what both have, what the earlier call has, what came back.
import type { DriftWindow } from './drift-results.ts'

export type WindowText = { readonly common: string; readonly earlier: string; readonly later: string }

/** Text of ids; a problem in the user's terms when nobody can tell. */
export type Decode = (
  ids: readonly number[],
) => Promise<{ readonly ok: true; readonly text: string } | { readonly ok: false; readonly problem: string }>

/**
 * Each side is read together with what stands before it: a token may hold half a character, and some tokenizers drop the space that a text
 * begins with. What cannot be told apart for that reason goes to the sides.
 */
export async function readWindow(
  window: DriftWindow,
  decode: Decode,
): Promise<{ readonly ok: true; readonly text: WindowText } | { readonly ok: false; readonly problem: string }> {
  const { common, earlier, later } = window
  const [alone, one, other] = await Promise.all([decode(common), decode([...common, ...earlier]), decode([...common, ...later])])
  if (!alone.ok) return alone
  if (!one.ok) return one
  if (!other.ok) return other
  const shared = Math.min(sharedLength(alone.text, one.text), sharedLength(alone.text, other.text))
  return { ok: true, text: { common: alone.text.slice(0, shared), earlier: one.text.slice(shared), later: other.text.slice(shared) } }
}

function sharedLength(text: string, longer: string): number {
  let length = 0
  while (length < text.length && text[length] === longer[length]) length += 1
  // Never half of a surrogate pair.
  return length > 0 && /[\uD800-\uDBFF]/.test(text[length - 1] ?? '') ? length - 1 : length
}
