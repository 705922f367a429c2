// Broken rules of the tiny policy's making: its file, its vocabulary, its training data, its trainer.
import type { PlantedFault } from '../fault.ts'

export const TINY_POLICY_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a tensor is said to lie four bytes after its place',
    file: 'examples/tiny-policy/gguf.ts',
    find: "head.number('uint64', offset)",
    replace: "head.number('uint64', offset + 4)",
    suites: ['test/unit/tiny-policy-gguf.test.ts'],
  },
  {
    name: 'a model file that was cut is read beyond its end',
    file: 'examples/tiny-policy/gguf.ts',
    find: 'if (length > bytes.byteLength - position) throw',
    replace: 'if (length < 0) throw',
    suites: ['test/unit/tiny-policy-gguf.test.ts'],
  },
  {
    name: 'the tiny vocabulary leaves out a merge',
    file: 'examples/tiny-policy/vocabulary.ts',
    find: 'source.model.merges.slice(0, merges)',
    replace: 'source.model.merges.slice(1, merges)',
    suites: ['test/unit/tiny-policy-vocabulary.test.ts'],
  },
  {
    name: 'what was only read is trained',
    file: 'examples/tiny-policy/corpus.ts',
    find: 'weights.push(span.weight)',
    replace: 'weights.push(1)',
    suites: ['test/unit/tiny-policy-corpus.test.ts'],
  },
  {
    name: 'a conversation told again keeps its folder',
    file: 'examples/tiny-policy/variation.ts',
    find: 'text.replaceAll(folder, newFolder)',
    replace: 'text',
    suites: ['test/unit/tiny-policy-corpus.test.ts'],
  },
  {
    name: 'gradients of keys stay turned by their positions',
    file: 'examples/tiny-policy/trainer/network.h',
    find: '    rotate(w->d_key, t, key_heads, -1);\n',
    replace: '',
    suites: ['test/e2e/tiny-policy-training.test.ts'],
  },
  {
    name: 'only one thread’s gradients are followed',
    file: 'examples/tiny-policy/trainer/train.c',
    find: 'work[0].gradients[p] += work[i].gradients[p]',
    replace: 'work[0].gradients[p] += 0',
    suites: ['test/e2e/tiny-policy-training.test.ts'],
  },
  {
    name: 'a model is made surer than its loss allows',
    file: 'examples/tiny-policy/trainer/sharpening.h',
    find: '<= before) continue',
    replace: '<= 1e9) continue',
    suites: ['test/e2e/tiny-policy-training.test.ts'],
  },
]
