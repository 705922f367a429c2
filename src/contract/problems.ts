// What zod found wrong with a part of a task, on one line, each problem under the path that the caller wrote.
import type { z } from 'zod'

/** `root` is where `input` stands in the task; `known` are the keys it may have, told to whoever used another. */
export function problemsOf(root: string, input: unknown, { issues }: z.ZodError, known: readonly string[] = []): string {
  return issues.flatMap((issue) => describe(root, input, issue, known)).join('; ')
}

function describe(root: string, input: unknown, issue: z.core.$ZodIssue, known: readonly string[]): readonly string[] {
  const path = [root, ...issue.path.map(String)].join('.')
  if (issue.code === 'unrecognized_keys') {
    const hint = issue.path.length > 0 || known.length === 0 ? '' : `; there are ${known.join(', ')}`
    return [`${issue.keys.map((key) => `${path}.${key}`).join(', ')}: unknown key${hint}`]
  }
  return [`${path}: ${isMissing(input, issue.path) ? 'is required' : issue.message}`]
}

function isMissing(input: unknown, path: readonly PropertyKey[]): boolean {
  let value = input
  for (const part of path) value = typeof value === 'object' && value !== null ? Reflect.get(value, part) : undefined
  return value === undefined
}
