// Faults in how a call waits out an outage of its servers, and in what is remembered of an attempt that failed.
import type { PlantedFault } from '../fault.ts'

export const OUTAGE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a call does not wait for a server that is down',
    file: 'src/proxy/generation.ts',
    find: "const isOutage = acquired.failure.code === 'engine-unreachable'",
    replace: 'const isOutage = false',
    suites: ['test/unit/proxy-pool.test.ts'],
  },
  {
    name: 'a server that serves again wakes nobody',
    file: 'src/proxy/pool/pool.ts',
    find: 'stranded.wakeAll()',
    replace: '',
    suites: ['test/unit/proxy-pool.test.ts'],
  },
  {
    name: 'an outage is waited for without end',
    file: 'src/proxy/verdict.ts',
    find: 'lessons.outage ??= { endsMs: clock.nowMs() + outageMs, tries: 0 }',
    replace: 'lessons.outage = { endsMs: clock.nowMs() + outageMs, tries: 0 }',
    suites: ['test/unit/proxy-pool.test.ts'],
  },
  {
    name: 'a server that loads its model is taken for one that refuses the call',
    file: 'src/proxy/verdict.ts',
    find: "return status === 503 && message.includes('Loading model')",
    replace: 'return status === 503 && false',
    suites: ['test/unit/proxy-pool.test.ts'],
  },
  {
    name: 'an outage counts against a call that a server has taken since',
    file: 'src/proxy/verdict.ts',
    find: '  if (!isUntaken(outcome)) court.lessons.outage = null\n',
    replace: '',
    suites: ['test/unit/proxy-pool.test.ts'],
  },
  {
    name: 'whoever waits for a server that never answered its probe is not relieved',
    file: 'src/proxy/pool/pool.ts',
    find: '(isServing ? replica.limits.inFlight : 0)',
    replace: '(isServing ? replica.limits.inFlight : replica.limits.inFlight)',
    suites: ['test/unit/proxy-pool-changes.test.ts'],
  },
]
