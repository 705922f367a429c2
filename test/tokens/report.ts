// What the suites have to tell `npm run test:tokens`: one line of JSON per source in the file it names.
import { appendFileSync } from 'node:fs'
import type { Account } from './rescoring.ts'

/** Names the file; unset when the suites run among all others. */
export const REPORT_VARIABLE = 'POLAR_TOKENS_REPORT'

/** `note`: what else is to be said of the source. */
export type ReportLine = Account & { readonly source: string; readonly note: string }

export function report(source: string, account: Account, note = ''): void {
  const file = process.env[REPORT_VARIABLE]
  const line: ReportLine = { source, note, ...account }
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(line)}\n`)
}
