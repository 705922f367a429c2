// Broken rules that only a real model's tokens show: a logprob that is a little off, or another token's, or of other weights.
import type { PlantedFault } from '../fault.ts'

const ENGINE = ['test/tokens/engine.test.ts']
const MODES = ['test/tokens/modes.test.ts']
const DRIFT = ['test/tokens/drift.test.ts']
const WEIGHTS = ['test/e2e/weight-versions.test.ts']

export const REAL_TOKEN_FAULTS: readonly PlantedFault[] = [
  {
    name: 'the embedded engine keeps keys in float16',
    file: 'src/engine/embedded/llama-runtime.ts',
    find: "experimentalKvCacheKeyType: 'F32'",
    replace: "experimentalKvCacheKeyType: 'F16'",
    suites: ENGINE,
  },
  {
    name: 'the embedded engine calls processed what is raw',
    file: 'src/engine/embedded/sampler.ts',
    find: "const [part, sum] = mode === 'raw'",
    replace: "const [part, sum] = mode !== 'raw'",
    suites: ENGINE,
  },
  {
    name: 'the scorer of the suites knows an epsilon by heart',
    file: 'test/lib/scorer-weights.ts',
    find: "number('attention.layer_norm_rms_epsilon')",
    replace: '1e-6',
    suites: ENGINE,
  },
  {
    name: 'the end token that the embedded engine drew is not told',
    file: 'src/engine/embedded/growing-choice.ts',
    find: 'logprobs.push(logprob)',
    replace: 'if (isEnd) tokens.pop()\n      else logprobs.push(logprob)',
    suites: MODES,
    tests: 'vllm',
  },
  {
    name: 'vLLM is not told the temperature that the agent asked for',
    file: 'src/proxy/engines/vllm.ts',
    find: '    ...parameters,\n',
    replace: '    ...parameters,\n    temperature: 1,\n',
    suites: MODES,
    tests: 'vllm',
  },
  {
    name: 'the window of a break shows what differs as what both have',
    file: 'src/trajectory/drift.ts',
    find: 'later.promptIds.subarray(start, index)',
    replace: 'later.promptIds.subarray(start, index + 1)',
    suites: DRIFT,
  },
  {
    name: "the neighbouring token's logprob is captured",
    file: 'src/proxy/engines/completion.ts',
    find: 'return logprobs.content.map((entry: unknown) => (isObject(entry) ? entry.logprob : undefined))',
    replace: 'return logprobs.content.map((_, at, all) => all.at(at - 1).logprob)',
    suites: MODES,
    tests: 'vllm',
  },
  {
    name: 'the logprobs of any engine are taken for raw',
    file: 'src/proxy/ending.ts',
    find: "logprobMode: last?.lease.logprobMode ?? 'unknown'",
    replace: "logprobMode: 'raw'",
    suites: MODES,
    tests: 'sglang',
  },
  {
    name: 'a turn that was turned into other ids is not told',
    file: 'src/trajectory/relations.ts',
    find: 'if (!knowsMessages && !found.isRewrite) return null',
    replace: "if (found.class === 'D1') return null",
    suites: DRIFT,
  },
  {
    name: 'a turn that was turned into other ids after one that held is not told',
    file: 'src/trajectory/relations.ts',
    find: 'relateRoot(roots, index)) : relateBranch(context, index)',
    replace: 'relateRoot(roots, index)) : null',
    suites: ['test/unit/trajectory-relations.test.ts'],
  },
  {
    name: 'what a pause left of a generation is taken for its answer',
    file: 'src/proxy/engines/completion.ts',
    find: "if (finishReason === 'abort' || finishReason === 'unknown') {",
    replace: "if (finishReason === 'unknown') {",
    suites: WEIGHTS,
  },
  {
    name: 'all turns of a row are said to be of its last weights',
    file: 'src/trajectory/rows.ts',
    find: 'if (before !== undefined && before.version === version) spans',
    replace: 'if (before !== undefined) spans',
    suites: WEIGHTS,
  },
]
