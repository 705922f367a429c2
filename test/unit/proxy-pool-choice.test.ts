// What a caller is told when no replica gave it a place: the reason that waiting helps against, and the soonest time.
import { expect, it } from 'vitest'
import { failureOf, type Refusal } from '../../src/proxy/pool/choice.ts'

const refusal = (reason: Refusal['reason'], retryAfterMs: number, detail: string = reason): Refusal => ({
  type: 'refused',
  reason,
  retryAfterMs,
  detail,
})

it.each<[string, readonly Refusal[], object]>([
  [
    'the soonest of the busy',
    [refusal('full', 900), refusal('paused', 500), refusal('down', 10)],
    { code: 'overloaded', retryAfterMs: 500 },
  ],
  ['the soonest of those that are down', [refusal('down', 4_000), refusal('down', 500)], { code: 'engine-unreachable', retryAfterMs: 500 }],
  ['down before unfit', [refusal('not-trainable', 0), refusal('down', 700)], { code: 'engine-unreachable', retryAfterMs: 700 }],
  [
    'why the first cannot train',
    [refusal('not-trainable', 0, 'no ids'), refusal('not-trainable', 0, 'no logprobs')],
    { code: 'not-trainable', message: 'no ids' },
  ],
  ['that there is none', [], { code: 'engine-unreachable', retryAfterMs: 1_000 }],
])('%s', (_name, refusals, told) => {
  expect(failureOf(refusals)).toMatchObject(told)
})
