// Broken rules of pauses and weight updates: whose time runs, what is gone on with, and which weights a token is said to be of.
import type { PlantedFault } from '../fault.ts'

const CLOCK = ['test/model/session-clock.test.ts']
const ABORTED = ['test/unit/proxy-aborted.test.ts']
const STANDING = ['test/unit/proxy-standing.test.ts']
const SPANS = ['test/unit/proxy-weight-spans.test.ts']

export const WEIGHT_UPDATE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'an agent’s budget runs on in a pause',
    file: 'src/actors/session/agent-clock.ts',
    find: "const stopped = deadlinesOf(clock).map(([deadline]): SessionEffect => ({ type: 'disarm', deadline }))",
    replace: 'const stopped: SessionEffect[] = []',
    suites: CLOCK,
  },
  {
    name: 'a deadline that is set in a pause runs in it',
    file: 'src/actors/session/agent-clock.ts',
    find: '    return clock.runsSinceMs !== null\n  })',
    replace: '    return true\n  })',
    suites: CLOCK,
  },
  {
    name: 'a session that is opened in a pause is not told of it',
    file: 'src/actors/gateway/state.ts',
    find: 'return areCallsHeld ? [spawned, tellHeld(spec.session, true)] : [spawned]',
    replace: 'return areCallsHeld ? [spawned] : [spawned]',
    suites: ['test/model/gateway-state.test.ts'],
  },
  {
    name: 'the clock of a gate counts pauses',
    file: 'src/proxy/pool/pause-gate.ts',
    find: 'heldMs += scheduler.clock.nowMs() - heldSinceMs',
    replace: 'heldMs += 0',
    suites: ['test/unit/proxy-pause-gate.test.ts'],
  },
  {
    name: 'the rest of an answer may be as long as the whole',
    file: 'src/proxy/engines/continuation.ts',
    find: "if (typeof budget === 'number') return budget - sampled",
    replace: "if (typeof budget === 'number') return budget",
    suites: ABORTED,
  },
  {
    name: 'only the rest of an answer is read',
    file: 'src/proxy/engines/continuation.ts',
    find: 'spelt(kind, shown, request.model, send),',
    replace: 'spelt(kind, shown.slice(part.sampledIds.length), request.model, send),',
    suites: ABORTED,
  },
  {
    name: 'an answer whose end was not said is gone on with',
    file: 'src/proxy/engines/continuation.ts',
    find: "return finishReason === 'abort' && error === null",
    replace: 'return error === null',
    suites: ABORTED,
  },
  {
    name: 'stop strings are looked for in the rest alone',
    file: 'src/proxy/engines/continuation.ts',
    find: 'stop: (value) => Array.isArray(value) && value.length === 0,',
    replace: 'stop: () => true,',
    suites: ABORTED,
  },
  {
    name: 'aborts that a pause brings are counted',
    file: 'src/proxy/generation.ts',
    find: 'const wasHeld = pool.isPaused() || pool.pauses() !== pauses',
    replace: 'const wasHeld = false',
    suites: ABORTED,
  },
  {
    name: 'a sleeping engine is sent what waited',
    file: 'src/proxy/pool/state.ts',
    find: 'if (result.ok && result.value.isAsleep) {',
    replace: 'if (result.ok && result.value.isAsleep && state.isRemoved) {',
    suites: STANDING,
  },
  {
    name: 'the word of an earlier pause is taken for that of the last one',
    file: 'src/proxy/pool/state.ts',
    find: 'if (state.asking?.pause !== pause) return [state, []]',
    replace: 'if (state.asking === null) return [state, []]',
    suites: STANDING,
  },
  {
    name: 'spans with a hole are believed',
    file: 'src/proxy/engines/weight-spans.ts',
    find: 'start === (told[at - 1]?.end ?? 0) && end > start',
    replace: 'end > start',
    suites: SPANS,
  },
  {
    name: 'an answer is gone on with as if nothing of it could repeat',
    file: 'src/proxy/engines/continuation.ts',
    find: 'repetition_penalty: (value) => value === 1,',
    replace: 'repetition_penalty: () => true,',
    suites: ABORTED,
  },
  {
    name: 'what was drawn after a cut has no weights where those before it are not known',
    file: 'src/proxy/engines/weight-spans.ts',
    find: 'if (span.version !== null || span.end <= from) return [span]',
    replace: 'if (span.version !== null || span.start < from) return [span]',
    suites: SPANS,
  },
  {
    name: 'a call that began before an update is stamped with what came after it',
    file: 'src/proxy/generation.ts',
    find: 'if (before !== null && before === now) return named(outcome, now, from)',
    replace: 'if (now !== null) return named(outcome, now, from)',
    suites: ABORTED,
  },
]
