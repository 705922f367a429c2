import { expect, it } from 'vitest'
import { renderTable } from '../../bench/lib/table.ts'

it('a table of benches names each group once and gives every number its unit', () => {
  const row = { avgNs: 12.345, p50Ns: 1_500, p99Ns: 2_500_000, heapBytes: 2_048 }
  const table = renderTable([
    { group: 'queue', bench: 'a', ...row },
    { group: 'queue', bench: 'longer', ...row, avgNs: 3e9, heapBytes: null },
    { group: 'link', bench: 'b', ...row, heapBytes: 3 * 2 ** 20 },
  ])
  expect(table.split('\n').map((line) => line.replaceAll(/ {2,}/g, '  '))).toEqual([
    '  average  p50  p99  heap',
    'queue',
    '  a  12.35 ns  1.50 µs  2.50 ms  2.00 KiB',
    '  longer  3.00 s  1.50 µs  2.50 ms  –',
    'link',
    '  b  12.35 ns  1.50 µs  2.50 ms  3.00 MiB',
    '',
  ])
})
