import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compareTests, parseTestLog } from '../../src/evaluators/test-log.ts'

const parsed = (log: string): Record<string, string> => Object.fromEntries(parseTestLog(log))

describe('a test log', () => {
  it.each<[string, Record<string, string>]>([
    ['PASSED tests/t.py::test_a', { 'tests/t.py::test_a': 'PASSED' }],
    ['PASSED tests/t.py::test_a[key-Must be str-1]', { 'tests/t.py::test_a[key-Must be str-1]': 'PASSED' }],
    ['FAILED tests/t.py::test_a[key-Must be int-2] - AssertionError: x', { 'tests/t.py::test_a[key-Must be int-2]': 'FAILED' }],
    ['FAILED tests/t.py::test_a[a - b] - E: no [x] - y', { 'tests/t.py::test_a[a - b]': 'FAILED' }],
    ['FAILED tests/t.py::test_a[[open] - E', { 'tests/t.py::test_a[[open]': 'FAILED' }],
    ['PASSED tests/t.py::test_c[(ValueError, TypeError)-*1 T*]', { 'tests/t.py::test_c[(ValueError, TypeError)-*1 T*]': 'PASSED' }],
    ['tests/t.py::test_b[x y] PASSED', { 'tests/t.py::test_b[x y]': 'PASSED' }],
    ['tests/t.py::test_b[x y] FAILED            [ 50%]', { 'tests/t.py::test_b[x y]': 'FAILED' }],
    ['tests/t.py::test_s SKIPPED (not today)    [100%]', { 'tests/t.py::test_s': 'SKIPPED' }],
    ['ERROR tests/t.py - ImportError: no module', { 'tests/t.py': 'ERROR' }],
    ['PASSED TestThing', { TestThing: 'PASSED' }],
    ['PASSED  aligned_by_hand', { aligned_by_hand: 'PASSED' }],
    ['\u001b[32mPASSED\u001b[0m tests/t.py::\u001b[1mtest_a\u001b[0m\r', { 'tests/t.py::test_a': 'PASSED' }],
    ['ERROR    root:app.py:3 something went wrong', {}],
    ['SKIPPED [3] tests/t.py:12: needs a network', {}],
    ['all tests PASSEDish', {}],
    ['PASSED', {}],
    ['  PASSED indented', {}],
    ['=== 3 passed in 0.1s ===', {}],
    ['', {}],
  ])('reads %j', (line, tests) => {
    expect(parsed(`noise\n${line}\nmore noise`)).toEqual(tests)
  })

  it.each([
    ['PASSED t::a\nFAILED t::a', 'FAILED'],
    ['FAILED t::a\nPASSED t::a', 'FAILED'],
    ['PASSED t::a\nERROR t::a - teardown', 'ERROR'],
    ['SKIPPED t::a\nPASSED t::a', 'SKIPPED'],
  ])('never merges a failure into a pass: %j', (log, status) => {
    expect(parsed(log)).toEqual({ 't::a': status })
  })

  it('gives back every full name it was written with', () => {
    const name = fc.stringMatching(/^t\.py::test_[a-z]{1,5}(\[[a-z0-9 ,()*-]{1,20}\])?$/).filter((text) => !/ {2}| ]|\[ /.test(text))
    const status = fc.constantFrom('PASSED', 'FAILED', 'ERROR')
    const tests = fc.uniqueArray(fc.record({ name, status, isLast: fc.boolean() }), { selector: (test) => test.name, maxLength: 20 })
    fc.assert(
      fc.property(tests, (written) => {
        const log = written.map((test) => (test.isLast ? `${test.name} ${test.status}` : `${test.status} ${test.name}`)).join('\n')
        expect(parsed(log)).toEqual(Object.fromEntries(written.map((test) => [test.name, test.status])))
      }),
    )
  })
})

describe('comparison with the expected map', () => {
  const log = parseTestLog(
    [
      'PASSED tests/t.py::test_a[key-Must be str-1]',
      'FAILED tests/t.py::test_a[key-Must be int-2] - AssertionError: x',
      'tests/t.py::test_b[x y] PASSED',
      'PASSED tests/t.py::test_c[(ValueError, TypeError)-*1 T*]',
    ].join('\n'),
  )
  const full = Object.fromEntries(log)

  it.each<[string, Record<string, string>, boolean]>([
    ['the same map', full, true],
    ['a missing test', { ...full, 'tests/t.py::test_d': 'PASSED' }, false],
    ['an unexpected test', { 'tests/t.py::test_b[x y]': 'PASSED' }, false],
    ['another status', { ...full, 'tests/t.py::test_b[x y]': 'FAILED' }, false],
    [
      'names cut at the first blank, with the worst status of what they begin',
      { 'tests/t.py::test_a[key-Must': 'FAILED', 'tests/t.py::test_b[x y]': 'PASSED', 'tests/t.py::test_c[(ValueError,': 'PASSED' },
      true,
    ],
    [
      'a cut name that begins a failure as a pass',
      { 'tests/t.py::test_a[key-Must': 'PASSED', 'tests/t.py::test_b[x y]': 'PASSED', 'tests/t.py::test_c[(ValueError,': 'PASSED' },
      false,
    ],
    ['a prefix without an open bracket', { 'tests/t.py::test_': 'FAILED' }, false],
    ['nothing', {}, false],
  ])('%s', (_name, expected, resolved) => {
    expect(compareTests(log, expected).resolved).toBe(resolved)
  })

  it('says what was missing, unexpected and different, and which names were cut', () => {
    const expected = { 'tests/t.py::test_a[key-Must': 'PASSED', 'tests/t.py::test_b[x y]': 'PASSED', gone: 'PASSED' }
    expect(compareTests(log, expected)).toEqual({
      resolved: false,
      tests: {
        'tests/t.py::test_a[key-Must': 'FAILED',
        'tests/t.py::test_b[x y]': 'PASSED',
        'tests/t.py::test_c[(ValueError, TypeError)-*1 T*]': 'PASSED',
      },
      missing: ['gone'],
      unexpected: ['tests/t.py::test_c[(ValueError, TypeError)-*1 T*]'],
      different: ['tests/t.py::test_a[key-Must'],
      cutNames: ['tests/t.py::test_a[key-Must'],
    })
  })

  it('resolves an empty expectation only for a run without tests', () => {
    expect(compareTests(new Map(), {}).resolved).toBe(true)
  })
})
