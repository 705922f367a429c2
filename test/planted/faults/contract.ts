// Broken rules of the wire that only a client sees which was written from Polar's contract.
import type { PlantedFault } from '../fault.ts'

export const CONTRACT_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a field that Pydantic writes as null is refused',
    file: 'src/contract/task.ts',
    find: '    .nullish()\n    .transform((value) => value ?? undefined)\n    .optional()',
    replace: '    .optional()',
    suites: ['test/contract/tasks.test.ts'],
    tests: 'as Pydantic dumps it',
  },
  {
    name: 'storage that no runtime limits is taken for granted',
    file: 'src/contract/task.ts',
    find: "z.null('no runtime limits the storage of a sandbox')",
    replace: 'z.unknown()',
    suites: ['test/contract/tasks.test.ts'],
    tests: 'storage_mb',
  },
  {
    name: 'a session that is to be trained has an error',
    file: 'src/trajectory/result.ts',
    find: 'error === null || isToTrain ? {} : { error }',
    replace: 'error === null ? {} : { error }',
    suites: ['test/contract/slime.test.ts'],
    tests: 'results of this node.*agent_error',
  },
  {
    name: 'an agent that ran out of its own time is told as a session that did',
    file: 'src/actors/session/facts.ts',
    find: "timeout_source: 'agent'",
    replace: "timeout_source: 'session'",
    suites: ['test/contract/slime.test.ts'],
    tests: 'agent_timeout by metadata',
  },
  {
    name: 'a timing that no Polar client knows is on the wire',
    file: 'src/trajectory/result.ts',
    find: 'timing: timing.polar,',
    replace: 'timing: { ...timing.polar, a_stage_of_ours_ms: 1 },',
    suites: ['test/contract/slime.test.ts'],
    tests: 'results of this node.*completed',
  },
  {
    name: 'a cancelled session has an error that Polar’s clients do not look for',
    file: 'src/contract/outcome.ts',
    find: "reason === 'cancelled by the trainer' || ",
    replace: '',
    suites: ['test/contract/tasks.test.ts'],
    tests: 'ends a running task as cancelled',
  },
  {
    name: 'the metrics of a heartbeat may be anything',
    file: 'src/contract/wire/nodes.ts',
    find: 'metrics: nodeStageMetrics.partial().default({})',
    replace: 'metrics: z.unknown()',
    suites: ['test/contract/nodes.test.ts'],
    tests: 'metrics that are none',
  },
  {
    name: 'a gateway does not answer HEAD',
    file: 'src/http/routes/gateway-root.ts',
    find: "method: ['GET', 'HEAD'],",
    replace: "method: ['GET'],",
    suites: ['test/contract/nodes.test.ts'],
    tests: 'to GET and to HEAD',
  },
]
