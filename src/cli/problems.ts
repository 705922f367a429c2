// Problems of a configuration as a person reads them: those of its file with line, column and key, and those of the flags beside it.
import type { Config, ConfigProblem } from '../config.ts'

export function describeProblems(problems: readonly ConfigProblem[]): string {
  return problems
    .map(
      ({ file, line, column, key, message }) =>
        `${file}${line === 0 ? '' : `:${line}:${column}`}: ${key === '' ? '' : `${key}: `}${message}`,
    )
    .join('\n       ')
}

/** What is wrong with `--engine` beside this configuration, or null. */
export function engineFlagProblem(engine: string | undefined, { embedded }: Pick<Config, 'embedded'>): string | null {
  if (engine === undefined || embedded === null) return null
  return '--engine says what --engine-url leads to; no inference server is named'
}
