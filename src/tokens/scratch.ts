// Reused typed arrays in which numbers parsed from an engine's answer become tokens before they are stored.

/** Longer calls get an array of their own, so that one giant prompt is not kept for the life of the thread. */
const KEPT_TOKENS = 2 ** 18
const FIRST_TOKENS = 2 ** 12

/** Returns typed arrays as they are; numbers land in an array that is valid until the next call. Throws on what is no int32. */
export function openIdScratch(): (source: Int32Array | readonly number[]) => Int32Array {
  let kept = new Int32Array(FIRST_TOKENS)
  return (source) => {
    if (source instanceof Int32Array) return source
    if (source.length > kept.length && source.length <= KEPT_TOKENS) kept = new Int32Array(roomFor(source.length))
    const ids = source.length > KEPT_TOKENS ? new Int32Array(source.length) : kept.subarray(0, source.length)
    copyInt32s(source, ids)
    return ids
  }
}

/** As `openIdScratch`, for logprobs, which are rounded to float32. */
export function openLogprobScratch(): (source: Float32Array | readonly number[]) => Float32Array {
  let kept = new Float32Array(FIRST_TOKENS)
  return (source) => {
    if (source instanceof Float32Array) return source
    if (source.length > kept.length && source.length <= KEPT_TOKENS) kept = new Float32Array(roomFor(source.length))
    const logprobs = source.length > KEPT_TOKENS ? new Float32Array(source.length) : kept.subarray(0, source.length)
    logprobs.set(source)
    return logprobs
  }
}

// A typed array wraps silently what does not fit, and a wrong token must never be stored. One loop: `set` and then a check would read
// a long prompt twice.
function copyInt32s(source: readonly number[], into: Int32Array): void {
  for (let index = 0; index < source.length; index++) {
    const id = source[index]
    if (id === undefined || (id | 0) !== id) throw new RangeError(`token ${index} is ${id}, not an int32`)
    into[index] = id
  }
}

function roomFor(tokens: number): number {
  return 2 ** Math.ceil(Math.log2(tokens))
}
