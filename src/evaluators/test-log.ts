// What a test run printed, as one status per test, and whether that is what was expected.

export type TestStatus = 'PASSED' | 'FAILED' | 'ERROR' | 'SKIPPED'

/** A test reported more than once has its worst status: a failure is never merged into a pass. */
const SEVERITY: { readonly [S in TestStatus]: number } = { PASSED: 0, SKIPPED: 1, FAILED: 2, ERROR: 3 }

const FIRST = /^(PASSED|FAILED|ERROR|SKIPPED)([ \t]+)(\S.*)$/
const LAST = /^(\S.*?)[ \t]+(PASSED|FAILED|ERROR|SKIPPED)(?:[ \t]+\[ *\d+%\])?(?:[ \t]+[[(].*[\])])?$/
/** A terminal's colour codes; built from text because an escape character in a literal is easily lost. */
const COLOUR = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, 'g')
/** pytest shows captured log records as `ERROR    logger:file.py:12 text`: not a test. */
const LOG_RECORD = /^\S+:[^\s:]+:\d+ /
/** pytest folds skips into `SKIPPED [3] tests/t.py:12: reason`: a count, not a test. */
const FOLDED_SKIP = /^\[\d+\] /

/** Both `STATUS name - reason` and `name STATUS` lines; everything else is ignored. */
export function parseTestLog(log: string): ReadonlyMap<string, TestStatus> {
  const tests = new Map<string, TestStatus>()
  for (const raw of log.replace(COLOUR, '').split('\n')) {
    const found = parseLine(raw.trimEnd())
    if (found === null) continue
    const before = tests.get(found.name)
    if (before === undefined || SEVERITY[found.status] > SEVERITY[before]) tests.set(found.name, found.status)
  }
  return tests
}

function parseLine(line: string): { readonly name: string; readonly status: TestStatus } | null {
  const first = FIRST.exec(line)
  if (first !== null) {
    const [, status = '', gap = '', rest = ''] = first
    if (gap.length > 1 && LOG_RECORD.test(rest)) return null
    if (status === 'SKIPPED' && FOLDED_SKIP.test(rest)) return null
    return isStatus(status) ? { name: withoutReason(rest), status } : null
  }
  const last = LAST.exec(line)
  if (last === null) return null
  const [, name = '', status = ''] = last
  return isStatus(status) ? { name, status } : null
}

/** Cuts ` - reason`, but not a ` - ` inside the brackets of a parametrised name. */
function withoutReason(text: string): string {
  let depth = 0
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at)
    if (character === '[') depth += 1
    else if (character === ']') depth -= 1
    else if (depth <= 0 && text.startsWith(' - ', at)) return text.slice(0, at)
  }
  // Brackets that never close: the name ends at the last one that does, if a reason follows there.
  const end = text.indexOf('] - ')
  return end === -1 ? text : text.slice(0, end + 1)
}

function isStatus(text: string): text is TestStatus {
  return Object.hasOwn(SEVERITY, text)
}

export type TestComparison = {
  readonly resolved: boolean
  /** By expected name where one applies; a name cut in the data set stands for every test it begins. */
  readonly tests: Readonly<Record<string, string>>
  readonly missing: readonly string[]
  readonly unexpected: readonly string[]
  readonly different: readonly string[]
  /** Expected names with an open bracket that were matched as prefixes. */
  readonly cutNames: readonly string[]
}

/**
 * Equal maps resolve. Some data sets cut names at the first blank: an expected name whose bracket does not close, and that no test has,
 * stands for all tests that begin with it, with the worst of their statuses.
 */
export function compareTests(parsed: ReadonlyMap<string, TestStatus>, expected: Readonly<Record<string, string>>): TestComparison {
  const tests = new Map<string, string>(parsed)
  const cutNames: string[] = []
  for (const name of Object.keys(expected)) {
    if (parsed.has(name) || !hasOpenBracket(name)) continue
    const begun = [...parsed].filter(([full]) => full.startsWith(name) && !Object.hasOwn(expected, full))
    if (begun.length === 0) continue
    cutNames.push(name)
    const worst = begun.map(([, status]) => status).reduce((a, b) => (SEVERITY[b] > SEVERITY[a] ? b : a))
    for (const [full] of begun) tests.delete(full)
    tests.set(name, worst)
  }
  const missing = Object.keys(expected).filter((name) => !tests.has(name))
  const unexpected = [...tests.keys()].filter((name) => !Object.hasOwn(expected, name))
  const different = Object.entries(expected)
    .filter(([name, status]) => tests.has(name) && tests.get(name) !== status)
    .map(([name]) => name)
  return {
    resolved: missing.length + unexpected.length + different.length === 0,
    tests: Object.fromEntries(tests),
    missing,
    unexpected,
    different,
    cutNames,
  }
}

function hasOpenBracket(name: string): boolean {
  return name.split('[').length > name.split(']').length
}
