// What a planted fault is: one place in the code, changed so that one rule no longer holds, and the suites that must notice.

export type PlantedFault = {
  /** The rule as it is broken: `a run slot is granted twice`. */
  readonly name: string
  readonly file: string
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
  /** At least one test of these must fail. */
  readonly suites: readonly string[]
  /** Only tests whose full name matches are run: for suites of real processes, whose other tests would only cost time. */
  readonly tests?: string
}
