// Cutting an answer's text into the deltas of a stream.

/** Keeps one frame well under a socket's high-water mark, so that a slow reader is felt early. */
export const PIECE_CHARS = 8_192

/** Cuts between code points: half a surrogate pair does not survive JSON over UTF-8. No text has no piece. */
export function pieces(text: string): readonly string[] {
  const found: string[] = []
  let from = 0
  while (from < text.length) {
    let to = Math.min(from + PIECE_CHARS, text.length)
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to -= 1
    found.push(text.slice(from, to))
    from = to
  }
  return found
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff
}
