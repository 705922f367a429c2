// Runs the vendors' own SDKs against the gateway: `node scripts/test-sdk.ts [filter…]`; a filter is a part of a test's name.
import { runSuites } from './suites.ts'

// A test's full name holds every filter, in any order.
const pattern = process.argv
  .slice(2)
  .map((filter) => `(?=.*${filter.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')})`)
  .join('')
const { passed, failed, isGreen } = runSuites(['test/sdk/', ...(pattern === '' ? [] : [`--testNamePattern=^${pattern}`])])
if (passed + failed === 0 && pattern !== '') process.stdout.write(`no test’s name holds ${process.argv.slice(2).join(' and ')}\n`)
process.stdout.write(`${passed} passed, ${failed} failed\n`)
process.exitCode = isGreen ? 0 : 1
