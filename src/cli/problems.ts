// Problems of a configuration file as a person reads them: file, line, column, key, what is wrong.
import type { ConfigProblem } from '../config.ts'

export function describeProblems(problems: readonly ConfigProblem[]): string {
  return problems
    .map(({ file, line, column, key, message }) => `${file}:${line}:${column}: ${key === '' ? '' : `${key}: `}${message}`)
    .join('\n       ')
}
