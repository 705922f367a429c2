// Broken rules of the model boundary: whose call it is, one generation per turn, what a client sees, what is captured.
import type { PlantedFault } from '../fault.ts'

export const PROXY_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a key is taken whatever session the URL names',
    file: 'src/proxy/open-boundary.ts',
    find: 'if (session !== null && session !== door.options.session) {',
    replace: 'if (session === undefined) {',
    suites: ['test/unit/proxy-access.test.ts'],
  },
  {
    name: 'a sealed session is still served',
    file: 'src/proxy/door.ts',
    find: "    isOpen: () => phase === 'open',\n    attach(dialect, normalised) {\n      if (phase !== 'open') return",
    replace: "    isOpen: () => true,\n    attach(dialect, normalised) {\n      if (phase === 'closed') return",
    suites: ['test/unit/proxy-turns.test.ts'],
  },
  {
    name: 'the key of a closed door stays known',
    file: 'src/proxy/open-boundary.ts',
    find: '            keys.remove(door)\n',
    replace: '',
    suites: ['test/unit/proxy-access.test.ts'],
  },
  {
    name: 'an unknown route is taken for a generation',
    file: 'src/proxy/detect.ts',
    find: "      return { type: 'unknown', dialect }\n  }\n}",
    replace: "      return { type: 'generate', dialect, urlModel: null, urlStream: null }\n  }\n}",
    suites: ['test/unit/proxy-access.test.ts'],
  },
  {
    name: 'two open connections are joined to one turn',
    file: 'src/proxy/dedupe.ts',
    find: "    if (turn.digest === digest && turn.client.type === 'gone') {",
    replace: '    if (turn.digest === digest) {',
    suites: ['test/model/proxy-dedupe.test.ts'],
  },
  {
    name: 'the linger is ignored: a client that left loses its generation at once',
    file: 'src/proxy/door.ts',
    find: 'kernel.scheduler.after(settings.lingerMs, ',
    replace: 'kernel.scheduler.after(0, ',
    suites: ['test/unit/proxy-turns.test.ts'],
  },
  {
    name: 'an old linger cancels a turn whose client has come and gone again',
    file: 'src/proxy/dedupe.ts',
    find: ' || turn.client.linger !== event.linger) return',
    replace: ') return',
    suites: ['test/model/proxy-dedupe.test.ts'],
  },
  {
    name: 'one session adopts the answer of another',
    file: 'src/proxy/door.ts',
    find: `export function openDoor(host: DoorHost, options: DoorOptions, capture: Capture, recall: Recall): Door {
  const { kernel, settings } = host
  const running = new Map<CallId, Running>()
  /** The delivery the ledger was told. */
  const told = new Map<CallId, Delivery>()
  const work = new Set<Promise<unknown>>()
  const cuts = new Set<() => void>()
  let dedupe = NO_TURNS
`,
    replace: `const running = new Map<CallId, Running>()
let dedupe = NO_TURNS
export function openDoor(host: DoorHost, options: DoorOptions, capture: Capture, recall: Recall): Door {
  const { kernel, settings } = host
  const told = new Map<CallId, Delivery>()
  const work = new Set<Promise<unknown>>()
  const cuts = new Set<() => void>()
`,
    suites: ['test/unit/proxy-turns.test.ts'],
    tests: 'of two sessions',
  },
  {
    name: 'the answers of one session are put into the history of another',
    file: 'src/proxy/open-boundary.ts',
    find: 'openDoor(host, doorOptions, capture, openRecall())',
    replace: 'openDoor(host, doorOptions, capture, Object.assign(keys, { recall: openRecall(), ...keys }).recall)',
    suites: ['test/unit/proxy-recall.test.ts'],
  },
  {
    name: 'an engine’s abort is taken for an answer',
    file: 'src/proxy/engines/completion.ts',
    find: "if (finishReason === 'abort' || finishReason === 'unknown') {",
    replace: "if (finishReason === 'unknown') {",
    suites: ['test/unit/proxy-engines.test.ts'],
  },
  {
    name: 'a stream ends without its terminal frame',
    file: 'src/proxy/dialects/openai-chat/stream.ts',
    find: "      yield 'data: [DONE]\\n\\n'\n",
    replace: '',
    suites: ['test/unit/proxy-chat-reply.test.ts'],
  },
  {
    name: 'the headers of a plain call are committed before its answer',
    file: 'src/proxy/exchange.ts',
    find: `    const outcome = await Promise.race([turn.outcome, client.gone])
    if (outcome === GONE) return 'no'
    if (!outcome.ok) return answerFailure(exchange.dialect, outcome.failure, sink)
    sink.head(200, JSON_HEADERS)
`,
    replace: `    sink.head(200, JSON_HEADERS)
    const outcome = await Promise.race([turn.outcome, client.gone])
    if (outcome === GONE) return 'no'
    if (!outcome.ok) return finish(sink, client, '')
`,
    suites: ['test/unit/proxy-calls.test.ts'],
  },
  {
    name: 'a stream is silent until its answer is there',
    file: 'src/proxy/exchange.ts',
    find: '    if (!client.isBlocked()) client.write(stream.beat())\n',
    replace: '',
    suites: ['test/unit/proxy-calls.test.ts'],
  },
  {
    name: 'a stream that breaks after its headers ends as if it were whole',
    file: 'src/proxy/exchange.ts',
    find: "const told = reason.code === 'cancelled' ? null : stream.failure(reason)",
    replace: "const told = 'data: [DONE]\\n\\n'",
    suites: ['test/unit/proxy-calls.test.ts'],
  },
  {
    name: 'an answer is given before its record is taken',
    file: 'src/proxy/door.ts',
    find: 'const isRecorded = await host.recordCall({ ...record, delivery: forecast })',
    replace: 'void host.recordCall({ ...record, delivery: forecast })\n    const isRecorded = true',
    suites: ['test/unit/proxy-calls.test.ts'],
  },
  {
    name: 'a replica generates one call over its cap',
    file: 'src/proxy/pool/state.ts',
    find: 'state.leases.size < state.limits.inFlight',
    replace: 'state.leases.size <= state.limits.inFlight',
    suites: ['test/model/proxy-replica.test.ts'],
  },
  {
    name: 'a replica’s line takes one caller too many',
    file: 'src/proxy/pool/state.ts',
    find: 'state.waiting.length >= state.limits.line',
    replace: 'state.waiting.length > state.limits.line',
    suites: ['test/model/proxy-replica.test.ts'],
  },
  {
    name: 'a place is lost when its caller gave up as it was granted',
    file: 'src/proxy/pool/state.ts',
    find: 'return held === undefined ? [state, []] : grantWaiting({ ...state, leases: without(state.leases, held[0]) })',
    replace: 'return [state, []]',
    suites: ['test/model/proxy-replica.test.ts'],
  },
  {
    name: 'a lost replica is never asked again',
    file: 'src/proxy/pool/state.ts',
    find: "return [down, [...effects, { type: 'probe-after', delayMs: backoffMs(state.limits, failures) }]]",
    replace: 'return [down, effects]',
    suites: ['test/model/proxy-replica.test.ts'],
  },
  {
    name: 'a call whose replica is lost is not tried on another',
    file: 'src/proxy/generation.ts',
    find: 'if (breaks > settings.maxRepeats) {',
    replace: 'if (breaks > 0) {',
    suites: ['test/unit/proxy-pool.test.ts'],
  },
  {
    name: 'a training session is served by a replica that cannot train',
    file: 'src/proxy/pool/state.ts',
    find: "health.tier === 'eval' && waiter.tier === 'train'",
    replace: "health.tier === 'eval' && waiter.tier === 'eval'",
    suites: ['test/model/proxy-replica.test.ts'],
  },
  {
    name: 'a session runs one call over its limit',
    file: 'src/proxy/admission.ts',
    find: 'count(session) < limits.perSession',
    replace: 'count(session) <= limits.perSession',
    suites: ['test/model/proxy-admission.test.ts'],
  },
  {
    name: 'an answer that comes back is not restored to the sampled bytes',
    file: 'src/proxy/recall.ts',
    find: 'return message.name === undefined ? original : { ...original, name: message.name }',
    replace: 'return message',
    suites: ['test/unit/proxy-recall.test.ts'],
  },
  {
    name: 'captured ids and logprobs are not compared in length',
    file: 'src/proxy/engines/completion.ts',
    find: 'if (logprobs.length !== sampledIds.length) {',
    replace: 'if (logprobs === undefined) {',
    suites: ['test/unit/proxy-engines.test.ts'],
  },
  {
    name: 'a logprob that is NaN is accepted from an engine',
    file: 'src/proxy/engines/completion.ts',
    find: "typeof logprob !== 'number' || !Number.isFinite(logprob) || logprob > 0",
    replace: "typeof logprob === 'number' && logprob > 0",
    suites: ['test/unit/proxy-engines.test.ts'],
  },
  {
    name: 'a call that found no room in the arena shifts the tokens of the next one',
    file: 'src/proxy/capture.ts',
    find: '    tokens.append(NO_TOKENS)\n',
    replace: '',
    suites: ['test/unit/proxy-calls.test.ts'],
  },
]
