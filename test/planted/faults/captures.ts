// Broken rules of sessions by themselves: captures, their keys, and the routes that open, end and list them.
import type { PlantedFault } from '../fault.ts'

export const CAPTURE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a capture is idle while its call is in flight',
    file: 'src/actors/session/capture.ts',
    find: "if (state.inFlight === 0) idle.push({ type: 'disarm', deadline: 'idle' })",
    replace: '',
    suites: ['test/model/session-captures.test.ts'],
  },
  {
    name: 'a capture that never called the model counts as completed',
    file: 'src/actors/session/capture.ts',
    find: 'return state.calls === 0 ?',
    replace: 'return state.calls < 0 ?',
    suites: ['test/model/session-captures.test.ts'],
  },
  {
    name: 'a deleted capture is rewarded',
    file: 'src/actors/session/capture.ts',
    find: 'clientReward === null || cancelled !== null',
    replace: 'clientReward === null',
    suites: ['test/model/session-captures.test.ts'],
  },
  {
    name: 'a timer of a capture outlives it',
    file: 'src/actors/session/capture.ts',
    find: "{ type: 'disarm', deadline: 'agent' }, ",
    replace: '',
    suites: ['test/model/session-captures.test.ts'],
  },
  {
    name: 'the key of a capture is given after its end',
    file: 'src/actors/session/state.ts',
    find: "ask: message.ask, isOpen: state.phase === 'capturing' }",
    replace: 'ask: message.ask, isOpen: true }',
    suites: ['test/model/session-captures.test.ts'],
  },
  {
    name: 'a capture gives back a READY place that it never had',
    file: 'src/actors/gateway/state.ts',
    find: "stage: 'capturing', holdsReservation: false",
    replace: "stage: 'capturing', holdsReservation: true",
    suites: ['test/model/gateway-state.test.ts'],
  },
  {
    name: 'a session is found, and ended, under a gateway that does not have it',
    file: 'src/http/routes/sessions.ts',
    find: 'view === null || (place !== null && view.gateway !== null && view.gateway !== place)',
    replace: 'view === null',
    suites: ['test/conformance/control-sessions.test.ts'],
  },
  {
    name: 'a session that has ended is said to be deleted',
    file: 'src/http/routes/sessions.ts',
    find: 'deleted: answer.value.summary === null,',
    replace: 'deleted: true,',
    suites: ['test/conformance/control-sessions.test.ts'],
  },
  {
    name: 'a dispatch that cannot run is accepted',
    file: 'src/http/session-opening.ts',
    find: '  if (problems.length > 0) return { ok: false, problems }\n',
    replace: '',
    suites: ['test/conformance/control-sessions.test.ts'],
  },
]
