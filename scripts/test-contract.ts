// Holds a real node to Polar's wire contract as its clients know it: `node scripts/test-contract.ts`. Needs Debian's python3 and python3-httpx.
import { runSuites } from './suites.ts'

const { passed, failed, skipped, isGreen } = runSuites(['test/contract/'])
process.stdout.write(`contract: ${passed} passed, ${failed} failed, ${skipped.length} skipped\n`)
process.exitCode = isGreen && skipped.length === 0 ? 0 : 1
