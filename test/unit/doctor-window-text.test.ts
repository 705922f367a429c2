import { expect, it } from 'vitest'
import { readWindow } from '../../src/doctor/window-text.ts'

/** Ids are bytes; a text that ends inside a character ends in U+FFFD, as tokenizers decode it. */
const bytes = async (ids: readonly number[]) => ({ ok: true, text: Buffer.from(ids).toString('utf8') }) as const
const idsOf = (text: string) => [...Buffer.from(text)]

it.each([
  ['plain text', idsOf('end\n'), idsOf('<think>'), idsOf('I'), { common: 'end\n', earlier: '<think>', later: 'I' }],
  ['nothing on one side', idsOf('a'), [], idsOf('b'), { common: 'a', earlier: '', later: 'b' }],
  ['a character whose bytes part', [0x61, 0xc3], [0xa9, 0x21], [0xa8], { common: 'a', earlier: 'é!', later: 'è' }],
  [
    'characters beyond the first plane',
    [...idsOf('a'), ...idsOf('😀').slice(0, 3)],
    [0x80],
    [0x81],
    { common: 'a', earlier: '😀', later: '😁' },
  ],
  ['the same text by other tokens', idsOf('a'), idsOf('bc'), idsOf('bc'), { common: 'a', earlier: 'bc', later: 'bc' }],
])('parts %s where it parts', async (_, common, earlier, later, text) => {
  expect(await readWindow({ start: 0, common, earlier, later }, bytes)).toEqual({ ok: true, text })
})

it('says why when nobody can tell what the ids mean', async () => {
  const failing = async (ids: readonly number[]) => (ids.length > 1 ? ({ ok: false, problem: 'no such route' } as const) : bytes(ids))
  expect(await readWindow({ start: 0, common: [97], earlier: [98], later: [99] }, failing)).toEqual({ ok: false, problem: 'no such route' })
})
