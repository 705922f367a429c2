// Broken rules of the embedded model: what is drawn, what is kept of a generation, who gets a place back, which files are let through.
import type { PlantedFault } from '../fault.ts'

const MODEL = ['test/conformance/embedded-llama.test.ts']
const SAMPLER = ['test/unit/embedded-sampler.test.ts']

export const EMBEDDED_LLAMA_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a place is kept when a generation is aborted that nobody asks for a token',
    file: 'src/engine/embedded/llama-stoppable.ts',
    find: "callerSignal.addEventListener('abort', onAbort, { once: true })",
    replace: 'void onAbort',
    suites: MODEL,
    tests: 'a generation that is ended',
  },
  {
    name: 'a prompt that begins alike is read on from one token too far',
    file: 'src/engine/embedded/llama-generation.ts',
    find: 'Math.min(taken.shared, prompt.length - 1)',
    replace: 'Math.min(taken.shared + 1, place.length, prompt.length - 1)',
    suites: MODEL,
    tests: 'what is kept of a generation',
  },
  {
    name: 'a conversation is forgotten for the few words it has in common with another',
    file: 'src/engine/embedded/places.ts',
    find: ' && shared >= place.length * CONTINUED_SHARE',
    replace: ' && CONTINUED_SHARE > 0',
    suites: ['test/unit/embedded-llama-places.test.ts'],
  },
  {
    name: 'tokens are sent to a client that does not read them',
    file: 'src/engine/embedded/answer-sink.ts',
    find: 'gone.aborted || response.writableNeedDrain',
    replace: 'gone.aborted',
    suites: ['test/conformance/embedded-engine.test.ts'],
    tests: 'a client that does not read',
  },
  {
    name: 'a state that a failed step left is taken for a known one',
    file: 'src/engine/embedded/llama-generation.ts',
    find: '    isKnown = false\n',
    replace: '    isKnown = true\n',
    suites: MODEL,
    tests: 'a generation that breaks',
  },
  {
    name: 'what is shown beside a token changes which token is drawn',
    file: 'src/engine/embedded/llama-generation.ts',
    find: 'const isNative = drawsNatively(sampling)\n  return (',
    replace: 'const isNative = drawsNatively(sampling) && alternatives === 0\n  return (',
    suites: MODEL,
    tests: 'shown beside it',
  },
  {
    name: 'what must be done alone waits as long as anybody draws',
    file: 'src/engine/embedded/llama-rounds.ts',
    find: 'const alone = this.#alone.shift()',
    replace: 'const alone = step.length === 0 ? this.#alone.shift() : undefined',
    suites: ['test/unit/embedded-llama-rounds.test.ts'],
  },
  {
    name: 'sequences share a step in the order in which they asked',
    file: 'src/engine/embedded/llama-rounds.ts',
    find: '.sort((a, b) => a.index - b.index)',
    replace: '',
    suites: ['test/unit/embedded-llama-rounds.test.ts'],
  },
  {
    name: 'top_p is taken of the mass before min_p',
    file: 'src/engine/embedded/sampler.ts',
    find: 'this.#cutAt(topP * sum)',
    replace: 'this.#cutAt((topP * this.#probabilitySum) / highest)',
    suites: SAMPLER,
  },
  {
    name: 'a token that top_p cut away may still be drawn',
    file: 'src/engine/embedded/sampler.ts',
    find: 'this.#weights[id] = 0',
    replace: 'void id',
    suites: SAMPLER,
  },
  {
    name: 'a model that embeds texts is taken for one that writes',
    file: 'src/engine/embedded/llama-shape.ts',
    find: "of('pooling_type') !== undefined",
    replace: 'header.tensors < 0',
    suites: ['test/conformance/embedded-llama-files.test.ts'],
  },
  {
    name: 'a model may take all the memory there is',
    file: 'src/engine/embedded/llama-memory.ts',
    find: 'const SHARE = 1 / 3',
    replace: 'const SHARE = 1',
    suites: ['test/unit/embedded-llama-memory.test.ts'],
  },
]
