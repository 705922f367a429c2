// Broken rules of token memory: every block accounted for, nothing read that was recycled, every token stored.
import type { PlantedFault } from '../fault.ts'

export const TOKEN_FAULTS: readonly PlantedFault[] = [
  {
    name: 'the last lease of a closed session frees nothing',
    file: 'src/tokens/session-tokens.ts',
    find: '      if (isClosed && leases.size === 0) freeBlocks()\n',
    replace: '',
    suites: ['test/unit/tokens-session.test.ts'],
  },
  {
    name: 'a closed session frees blocks that are still leased',
    file: 'src/tokens/session-tokens.ts',
    find: '      isClosed = true\n      if (leases.size === 0) freeBlocks()',
    replace: '      isClosed = true\n      freeBlocks()',
    suites: ['test/unit/tokens-session.test.ts'],
  },
  {
    name: 'a session that is closed twice frees its blocks twice',
    file: 'src/tokens/session-tokens.ts',
    find: '    blocks.length = 0\n',
    replace: '',
    suites: ['test/model/tokens-arena.test.ts'],
  },
  {
    name: 'freed blocks stay counted as leased',
    file: 'src/tokens/block-pool.ts',
    find: '      leased -= blocks.length\n',
    replace: '',
    suites: ['test/unit/tokens-arena.test.ts'],
  },
  {
    name: 'a recycled block keeps its epoch',
    file: 'src/tokens/slab.ts',
    find: 'Atomics.add(slab.epochs, block, 1)',
    replace: 'Atomics.add(slab.epochs, block, 0)',
    suites: ['test/unit/tokens-slab.test.ts'],
  },
  {
    name: 'a reader does not look at the epoch before it copies',
    file: 'src/tokens/segment.ts',
    find: 'Atomics.load(slab.epochs, block) !== segment.epoch || ',
    replace: '',
    suites: ['test/unit/tokens-slab.test.ts'],
  },
  {
    name: 'a reader does not look at the epoch again after it copied',
    file: 'src/tokens/segment.ts',
    find: '  if (Atomics.add(slab.epochs, block, 0) !== segment.epoch) throw stale(segment)\n',
    replace: '',
    suites: ['test/unit/tokens-slab.test.ts'],
  },
  {
    name: 'tokens are readable before they are published',
    file: 'src/tokens/segment.ts',
    find: ' || Atomics.load(slab.published, block) < end',
    replace: '',
    suites: ['test/unit/tokens-slab.test.ts'],
  },
  {
    name: 'the last token of a prompt’s suffix is dropped',
    file: 'src/tokens/session-tokens.ts',
    find: 'suffix: storeIds(prompt.subarray(shared)),',
    replace: 'suffix: storeIds(prompt.subarray(shared, -1)),',
    suites: ['test/unit/tokens-session.test.ts'],
  },
  {
    name: 'the common prefix is one token short',
    file: 'src/tokens/prefix.ts',
    find: 'while (same < length && a[aOffset + same] === b[bOffset + same]) same++',
    replace: 'while (same < length - 1 && a[aOffset + same] === b[bOffset + same]) same++',
    suites: ['test/unit/tokens-prefix.test.ts'],
  },
  {
    name: 'a prompt shares with the first fitting call instead of the longest',
    file: 'src/tokens/session-tokens.ts',
    find: 'if (length > 0 && length >= shared) {',
    replace: 'if (length > 0 && shared === 0) {',
    suites: ['test/unit/tokens-session.test.ts'],
  },
  {
    name: 'a refused call has claimed blocks',
    file: 'src/tokens/block-pool.ts',
    find: 'const isPossible = leased + count <= capacity',
    replace: 'const isPossible = true',
    suites: ['test/unit/tokens-arena.test.ts'],
  },
]
