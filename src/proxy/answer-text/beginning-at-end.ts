// How much of a growing text may yet turn out to be one of some known texts.

/** Length of the longest end of `text` that one of `texts` begins with, the whole of it included. */
export function beginningAtEnd(text: string, texts: readonly string[]): number {
  let longest = 0
  for (const known of texts) {
    for (let length = Math.min(known.length, text.length); length > longest; length -= 1) {
      if (!text.endsWith(known.slice(0, length))) continue
      longest = length
      break
    }
  }
  return longest
}

/** 1 when a text that goes on ends with the first half of a character, or with what stands for bytes that are none yet; else 0. */
export function brokenAtEnd(text: string): 0 | 1 {
  const last = text.charCodeAt(text.length - 1)
  return (last >= 0xd800 && last <= 0xdbff) || last === 0xfffd ? 1 : 0
}
