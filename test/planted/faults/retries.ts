// Planted faults of turns that are asked again: what is the same turn, what it may be given, and when a client is told to leave it.
import type { PlantedFault } from '../fault.ts'

export const RETRY_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a failure that lasts is told as a passing one for ever',
    file: 'src/proxy/failure.ts',
    find: 'if (times >= tries) return',
    replace: 'if (times >= 30) return',
    suites: ['test/unit/proxy-retries.test.ts'],
  },
  {
    name: 'the failures of a turn are forgotten when it is asked again',
    file: 'src/proxy/dedupe.ts',
    find: 'failures: before?.failures ?? 0',
    replace: 'failures: 0',
    suites: ['test/model/proxy-dedupe.test.ts'],
  },
  {
    name: 'an early head takes the last word’s status away',
    file: 'src/proxy/exchange.ts',
    find: 'if (isLastTry(turn.earlierFailures) && !exchange.isHeld()) timer',
    replace: 'if (turn.earlierFailures < 0) timer',
    suites: ['test/unit/proxy-retries.test.ts'],
  },
  {
    name: 'a client whose turn has failed before hears nothing in a pause',
    file: 'src/proxy/exchange.ts',
    find: 'if (isLastTry(turn.earlierFailures) && !exchange.isHeld()) timer',
    replace: 'if (isLastTry(turn.earlierFailures)) timer',
    suites: ['test/unit/proxy-retries.test.ts'],
  },
  {
    name: 'a stream whose failure may pass ends Claude Code',
    file: 'src/proxy/dialects/anthropic/error.ts',
    find: "failure.isFinal ? typeOf(failure) : 'overloaded_error'",
    replace: 'typeOf(failure)',
    suites: ['test/unit/dialect-anthropic-reply.test.ts'],
  },
  {
    name: 'the last word of an overload is told by the code that invites to come back',
    file: 'src/proxy/failure.ts',
    find: "return failure('failed-repeatedly', ",
    replace: 'return failure(reason.code, ',
    suites: ['test/unit/dialect-table.test.ts'],
  },
  {
    name: 'a turn asked again with another budget is another turn',
    file: 'src/proxy/question.ts',
    find: 'messages, tools, others]',
    replace: 'messages, tools, parameters]',
    suites: ['test/unit/proxy-retries.test.ts'],
  },
  {
    name: 'a client is given more than it allows',
    file: 'src/proxy/dedupe.ts',
    find: 'maxTokens === null || length <= maxTokens',
    replace: 'maxTokens === null || length > 0',
    suites: ['test/unit/proxy-retries.test.ts'],
  },
  {
    name: 'an answer is poured into a socket that has no room',
    file: 'src/proxy/exchange.ts',
    find: '    last = frame\n    await client.room()\n',
    replace: '    last = frame\n',
    suites: ['test/conformance/streaming-cases.test.ts'],
  },
]
