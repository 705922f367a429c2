// The planted faults: one broken rule each, and the suites of which at least one test must fail.

export type PlantedFault = {
  readonly name: string
  readonly file: string
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
  readonly suites: readonly string[]
}

export const FAULTS: readonly PlantedFault[] = [
  {
    name: 'a run slot is granted twice',
    file: 'src/actors/gateway/state.ts',
    find: "count(next, 'running') < next.limits.maxRunWorkers",
    replace: "count(next, 'running') <= next.limits.maxRunWorkers",
    suites: ['test/model/gateway-state.test.ts'],
  },
  {
    name: 'a READY place is lost when a prepared session is cancelled',
    file: 'src/actors/gateway/state.ts',
    find: 'holdsReservation = state.ready.reserve()',
    replace: 'holdsReservation = false',
    suites: ['test/model/gateway-state.test.ts'],
  },
  {
    name: 'a session is graded before its agent’s tree is dead',
    file: 'src/actors/session/state.ts',
    find: "{ type: 'kill-agent', sandbox: state.sandbox },",
    replace: '',
    suites: ['test/model/session-state.test.ts'],
  },
  {
    name: 'a result is reported before it is recorded',
    file: 'src/actors/session/state.ts',
    find: "if (!result.ok || result.value.type === 'refused') {",
    replace: 'if (!result.ok) {',
    suites: ['test/model/session-state.test.ts'],
  },
]
