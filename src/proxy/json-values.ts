// How many values a JSON text holds, counted before it is parsed: what is short as text can be large as values.

const [QUOTE, BACKSLASH, COMMA, BRACKET, BRACE] = [0x22, 0x5c, 0x2c, 0x5b, 0x7b]

/** Exact for JSON but for empty lists and objects, which count one more; some number for anything else. */
export function valuesIn(bytes: Uint8Array): number {
  let values = 1
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === QUOTE) at = stringEnd(bytes, at)
    else if (byte === COMMA || byte === BRACKET || byte === BRACE) values += 1
  }
  return values
}

/** Where the string ends that begins at `start`; the text's end for one without an end. */
function stringEnd(bytes: Uint8Array, start: number): number {
  for (let end = bytes.indexOf(QUOTE, start + 1); end !== -1; end = bytes.indexOf(QUOTE, end + 1)) {
    let slashes = 0
    while (bytes[end - 1 - slashes] === BACKSLASH) slashes += 1
    if (slashes % 2 === 0) return end
  }
  return bytes.length
}
