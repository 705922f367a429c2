// Broken rules of evaluations and topologies: what counts, what is trained, what is drawn again, and what a file of Polar's becomes.
import type { PlantedFault } from '../fault.ts'

export const EVALUATION_FAULTS: readonly PlantedFault[] = [
  {
    name: 'an evaluated session is trained',
    file: 'src/trajectory/result.ts',
    find: "isEvaluation ? mask(trace, 'evaluation') : ",
    replace: '',
    suites: ['test/unit/trajectory-result.test.ts'],
  },
  {
    name: 'an evaluation is refused by an engine without token ids',
    file: 'src/actors/session/actor.ts',
    find: "=== 'evaluation' ? 'eval' : 'train'",
    replace: "=== 'evaluation' ? 'train' : 'train'",
    suites: ['test/e2e/eval.test.ts'],
    tests: 'judges a model that gives no token ids',
  },
  {
    name: 'an evaluated session that timed out counts by its grade',
    file: 'src/eval/report.ts',
    find: "const isGraded = status === 'COMPLETED' && vote.reward !== null",
    replace: 'const isGraded = vote.reward !== null',
    suites: ['test/unit/eval-report.test.ts'],
  },
  {
    name: 'an evaluation divides by the sessions that came back',
    file: 'src/eval/report.ts',
    find: 'Array.from({ length: options.samples }, (_, i)',
    replace: 'Array.from({ length: Math.min(cast.length, options.samples) }, (_, i)',
    suites: ['test/unit/eval-report.test.ts'],
  },
  {
    name: 'pass@k is the chance of k draws that are put back',
    file: 'src/eval/pass-at-k.ts',
    find: 'for (let i = samples - successes + 1; i <= samples; i += 1) allFail *= 1 - k / i',
    replace: 'allFail = (1 - successes / samples) ** k',
    suites: ['test/property/eval-pass-at-k.test.ts'],
  },
  {
    name: 'the seeds of an evaluation change with the rest of its file',
    file: 'src/eval/plan.ts',
    find: 'seedOf(dataset.name, position)',
    replace: 'seedOf(dataset.sha256, position)',
    suites: ['test/unit/eval-dataset.test.ts'],
  },
  {
    name: 'another run of an evaluation is taken for the same one',
    file: 'src/eval/plan.ts',
    find: 'samples, seedBase, run])',
    replace: 'samples, seedBase])',
    suites: ['test/unit/eval-dataset.test.ts'],
  },
  {
    name: 'an evaluation starts more tasks than it may have at a time',
    file: 'src/eval/run.ts',
    find: 'Math.min(options.concurrency, tasks.length)',
    replace: 'tasks.length',
    suites: ['test/unit/eval-run.test.ts'],
  },
  {
    name: 'an evaluation goes on from the journal of another run',
    file: 'src/eval/journal.ts',
    find: 'headSchema.safeParse(head).data?.digest === digest',
    replace: 'headSchema.safeParse(head).success',
    suites: ['test/unit/eval-run.test.ts'],
  },
  {
    name: 'a key of Polar’s topology that has no effect is not told of',
    file: 'src/config/polar-keys.ts',
    find: "  'gateway.completion_persistence': 'every",
    replace: "  'gateway.completion_persistance': 'every",
    suites: ['test/unit/topology-files.test.ts'],
  },
  {
    name: 'a topology that leaves the default address of a server out is served by the embedded engine',
    file: 'src/config/inference.ts',
    find: "(inference.engine !== undefined || model !== '')",
    replace: 'inference.engine !== undefined && model === undefined',
    suites: ['test/unit/topology-files.test.ts'],
  },
]
