// The signature that travels with an answer: it names its call, and nobody else's passes for one.
import { expect, it } from 'vitest'
import { signatureOf, signedCall } from '../../src/proxy/dialects/signature.ts'

const CALL = '0123456789abcdef0123456789abcdef'
const signed = (text: string): string => Buffer.from(text).toString('base64')

it('names its call, in base64 as Google’s clients take it', () => {
  expect(signatureOf(CALL)).toMatch(/^[A-Za-z0-9+/]+={0,2}$/)
  expect(signatureOf(CALL).length % 4).toBe(0)
  expect(signedCall(signatureOf(CALL))).toBe(CALL)
})

it.each([
  ['of another maker', signed(`other:${CALL}`)],
  ['without a maker', signed(CALL)],
  ['of no call', signed('polar:somebody')],
  ['of a call and more', signed(`polar:${CALL}0`)],
  ['in capitals', signed(`polar:${CALL.toUpperCase()}`)],
  ['that is empty', ''],
  ['that is no text', 7],
  ['that is missing', undefined],
])('%s names none', (_given, signature) => {
  expect(signedCall(signature)).toBeNull()
})
