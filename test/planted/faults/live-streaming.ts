// Broken rules of answers that are told while they are sampled.
import type { PlantedFault } from '../fault.ts'

const STREAMS = ['test/property/engine-streams.test.ts']
const LIVE = ['test/conformance/live-streaming.test.ts']

export const LIVE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'characters that two pieces of a stream share are lost',
    file: 'src/proxy/engines/event-stream.ts',
    find: 'decoder.decode(bytes, { stream: true })',
    replace: 'decoder.decode(bytes)',
    suites: ['test/unit/proxy-event-stream.test.ts'],
  },
  {
    name: 'only the last ids of a stream are kept',
    file: 'src/proxy/engines/chat-fold.ts',
    find: '      ids.push(...newIds)',
    replace: '      ids.splice(0, ids.length, ...newIds)',
    suites: STREAMS,
  },
  {
    name: 'a stream that stops half way is taken for an answer',
    file: 'src/proxy/engines/following.ts',
    find: 'fold.saysDone && !isDone ? null : fold.read()',
    replace: 'fold.read()',
    suites: LIVE,
    tests: 'truncated-json',
  },
  {
    name: 'line breaks that a call may follow are told',
    file: 'src/proxy/answer-text/growing-text.ts',
    find: "release('content', trimmedLength(pending.slice(0, end)))",
    replace: "release('content', end)",
    suites: ['test/unit/proxy-growing-text.test.ts'],
  },
  {
    name: 'text that the profile cuts off is told before it is whole',
    file: 'src/proxy/live/telling.ts',
    find: "part === 'content' ? beginningAtEnd(held, cutStrings) : 0",
    replace: '0',
    suites: ['test/unit/proxy-telling.test.ts'],
  },
  {
    name: 'another answer is begun when one broke off that was heard',
    file: 'src/proxy/verdict.ts',
    find: 'return hasTold && part === null',
    replace: 'return false',
    suites: LIVE,
    tests: 'broke off|reset-in-body',
  },
  {
    name: 'an adopted answer is heard from where its first client left',
    file: 'src/proxy/live/live-answer.ts',
    find: '      let at = 0\n',
    replace: '      let at = told.length\n',
    suites: ['test/unit/proxy-telling.test.ts'],
  },
  {
    name: 'an answer that is whole is heard as it grew for another client',
    file: 'src/proxy/door.ts',
    find: 'isWhole ? { ...turn, live: null } : turn',
    replace: 'turn',
    suites: LIVE,
    tests: 'asks again after the end',
  },
  {
    name: 'a client that heard the beginning of another answer is told the end of this one',
    file: 'src/proxy/exchange.ts',
    find: 'if (hasHeard && turn.live?.leadsTo(outcome.answer) !== true) {',
    replace: 'if (hasHeard && turn.live === null) {',
    suites: ['test/unit/proxy-hearing.test.ts'],
  },
  {
    name: 'an answer that is not what was told is ended as if it were',
    file: 'src/proxy/live/live-answer.ts',
    find: 'leadsTo: (answer) => isBeginning(told, answer),',
    replace: 'leadsTo: () => true,',
    suites: ['test/unit/proxy-telling.test.ts'],
  },
  {
    name: 'an engine whose stream lost ids is asked for streams again',
    file: 'src/proxy/pool/pool.ts',
    find: '        member.facts.streams = false\n',
    replace: '',
    suites: LIVE,
    tests: 'lost ids once',
  },
  {
    name: 'an engine whose streams lose ids trains sessions that must be live',
    file: 'src/proxy/engines/probe.ts',
    find: "streamMode === 'live' && loss !== null",
    replace: 'false',
    suites: ['test/conformance/engine-adapters.test.ts'],
    tests: 'asked whether',
  },
]
