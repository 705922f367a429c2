// What storing and reading a turn costs, and what memcmp gains over a loop.
import { bench, do_not_optimize, group } from 'mitata'
import { openArena } from '../../src/tokens/arena.ts'
import { commonPrefix } from '../../src/tokens/prefix.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import { naiveCommonPrefix } from '../../test/property/prefix-naive.ts'

const PROMPT_TOKENS = 32_768
const TURN_TOKENS = 1_024
const SAMPLED_TOKENS = 256
const CALLS_PER_SESSION = 100

function counted(length: number, buffer: ArrayBufferLike = new ArrayBuffer(length * 4)): Int32Array {
  const tokens = new Int32Array(buffer)
  for (let index = 0; index < length; index++) tokens[index] = index
  return tokens
}

export function registerTokenBenches(): void {
  for (const length of [32_768, 131_072]) {
    const known = counted(length, new SharedArrayBuffer(length * 4))
    const prompt = counted(length)
    group(`common prefix of ${length} tokens`, () => {
      bench('naive loop', () => do_not_optimize(naiveCommonPrefix(known, 0, prompt, 0, length)))
      bench('memcmp', () => do_not_optimize(commonPrefix(known, 0, prompt, 0, length)))
    })
  }

  group(`append a turn of ${TURN_TOKENS} tokens on a prompt of ${PROMPT_TOKENS}`, () => {
    bench('typed arrays', appendTurns(counted(PROMPT_TOKENS + TURN_TOKENS)))
    bench('number arrays', appendTurns([...counted(PROMPT_TOKENS + TURN_TOKENS)]))
  })

  group(`read ${CALLS_PER_SESSION} calls that end at ${PROMPT_TOKENS} tokens`, () => {
    const reference = leaseGrowingSession()
    bench('readCalls', () => do_not_optimize(readCalls(reference)))
  })
}

/** Each append differs from the others at the turn's first token, so that it stores all of the turn. */
function appendTurns(prompt: Int32Array | number[]): () => void {
  const arena = openArena({ maxSlabs: 4 })
  const sampledIds = counted(SAMPLED_TOKENS)
  const logprobs = new Float32Array(SAMPLED_TOKENS).fill(-1)
  let session = arena.openSession()
  let calls = 0
  return () => {
    if (calls++ === CALLS_PER_SESSION) {
      session.close()
      session = arena.openSession()
      calls = 1
    }
    prompt[PROMPT_TOKENS] = -calls
    do_not_optimize(session.append({ promptIds: prompt, sampledIds, logprobs }))
  }
}

function leaseGrowingSession() {
  const session = openArena({ maxSlabs: 4 }).openSession()
  const everything = counted(PROMPT_TOKENS)
  const step = Math.floor(PROMPT_TOKENS / CALLS_PER_SESSION)
  for (let call = 1; call <= CALLS_PER_SESSION; call++) {
    const sampledIds = everything.subarray(call * step - step / 4, call * step)
    const promptIds = everything.subarray(0, call * step - sampledIds.length)
    session.append({ promptIds, sampledIds, logprobs: new Float32Array(sampledIds.length).fill(-1) })
  }
  return session.lease()
}
