// Broken rules of sessions by themselves, of drained gateways, and of who is sent where.
import type { PlantedFault } from '../fault.ts'

const SINGLES = ['test/unit/rollout-server-singles.test.ts']
const GATEWAYS = ['test/unit/rollout-server-gateways.test.ts']

export const SINGLE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a session that names its gateway is sent to another',
    file: 'src/actors/rollout-server/turn.ts',
    find: '  if (pinned === null) return { ...state, line',
    replace: '  if (pinned !== undefined) return { ...state, line',
    suites: SINGLES,
  },
  {
    name: 'a session that names its gateway goes before everybody else there',
    file: 'src/actors/rollout-server/dispatch.ts',
    find: 'pinned !== null && comesBefore(pinned.item, first)',
    replace: 'pinned !== null',
    suites: ['test/model/rollout-server-dispatch.test.ts'],
  },
  {
    name: 'the most loaded gateway is sent the next session',
    file: 'src/actors/rollout-server/dispatch.ts',
    find: 'return loadA < loadB ||',
    replace: 'return loadA > loadB ||',
    suites: ['test/model/rollout-server-dispatch.test.ts'],
  },
  {
    name: 'sessions by themselves are kept under the name that they share',
    file: 'src/actors/rollout-server/dispatch.ts',
    find: 'key: task.task,',
    replace: 'key: nameOf(task),',
    suites: SINGLES,
  },
  {
    name: 'the task of a session by itself is shown as a task',
    file: 'src/actors/rollout-server/views.ts',
    find: 'return entry?.single === null ? entry : null',
    replace: 'return entry ?? null',
    suites: SINGLES,
  },
  {
    name: 'a capture is attempted again',
    file: 'src/actors/rollout-server/endings.ts',
    find: "return kindOf(task) === 'capture' ? 1 : maxAttempts",
    replace: 'return task.single === undefined ? 1 : maxAttempts',
    suites: SINGLES,
  },
  {
    name: 'a gateway is sent one capture too many',
    file: 'src/actors/rollout-server/captures.ts',
    find: 'gateway.captures >= gateway.limits.maxCaptures',
    replace: 'gateway.captures > gateway.limits.maxCaptures',
    suites: SINGLES,
  },
  {
    name: 'a deleted session is attempted again',
    file: 'src/actors/rollout-server/stops.ts',
    find: 'withSession(touched, sample, { ...entry, stop: reason })',
    replace: 'withSession(touched, sample, entry)',
    suites: SINGLES,
  },
  {
    name: 'a draining gateway is sent sessions',
    file: 'src/actors/rollout-server/dispatch.ts',
    find: 'return healthy && !held && !draining',
    replace: 'return healthy && !held && draining !== null',
    suites: GATEWAYS,
  },
  {
    name: 'a gateway that starts again forgets that it is to be emptied',
    file: 'src/actors/rollout-server/gateways.ts',
    find: 'draining: known?.draining ?? false,',
    replace: 'draining: false,',
    suites: GATEWAYS,
  },
  {
    name: 'a gateway that is to be emptied stays listed without a session',
    file: 'src/actors/rollout-server/views.ts',
    find: 'return !draining || agents + captures > 0',
    replace: 'return !draining || agents + captures >= 0',
    suites: GATEWAYS,
  },
  {
    name: 'the whole error of an earlier attempt is kept',
    file: 'src/actors/rollout-server/endings.ts',
    find: 'error?.slice(0, MAX_ERROR_CHARS) ?? null',
    replace: 'error',
    suites: ['test/unit/rollout-server-step.test.ts'],
  },
]
