// The pieces of a streamed text: as long as they may be, none cut inside a character, and all of them the text again.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { pieces } from '../../src/proxy/dialects/pieces.ts'

const FULL = 8_192
const FACE = '😀'
const HALF = FACE.charAt(0)

it.each([
  ['nothing', '', []],
  ['a character', 'x', [1]],
  ['a full piece', 'x'.repeat(FULL), [FULL]],
  ['one character more', 'x'.repeat(FULL + 1), [FULL, 1]],
  ['two full pieces', 'x'.repeat(2 * FULL), [FULL, FULL]],
  ['a character of two halves across the cut', `${'x'.repeat(FULL - 1)}${FACE}y`, [FULL - 1, 3]],
  ['the first character of two halves across the cut', `${'x'.repeat(FULL - 1)}\u{10000}y`, [FULL - 1, 3]],
  ['the last character of two halves across the cut', `${'x'.repeat(FULL - 1)}\u{10ffff}y`, [FULL - 1, 3]],
  ['a character of two halves before the cut', `${'x'.repeat(FULL - 2)}${FACE}y`, [FULL, 1]],
  ['a character just below those of two halves', `${'x'.repeat(FULL - 1)}\ud7ffy`, [FULL, 1]],
  ['a second half without its first', `${'x'.repeat(FULL - 1)}\udc00y`, [FULL, 1]],
  ['a first half at the end', `${'x'.repeat(FULL - 1)}${HALF}`, [FULL]],
])('of %s', (_given, text, lengths) => {
  expect(pieces(text).map((piece) => piece.length)).toEqual(lengths)
  expect(pieces(text).join('')).toBe(text)
})

it('survive JSON over UTF-8 whenever the text does', () => {
  const long = fc.tuple(fc.integer({ min: FULL - 4, max: FULL + 4 }), fc.string({ unit: 'binary', maxLength: 20 }))
  fc.assert(
    fc.property(long, ([length, text]) => {
      const whole = 'x'.repeat(length) + text
      const sent = pieces(whole).map((piece): string => JSON.parse(Buffer.from(JSON.stringify(piece)).toString()))
      expect(sent.join('')).toBe(whole)
      for (const piece of sent) expect(piece).not.toBe('')
    }),
  )
})
