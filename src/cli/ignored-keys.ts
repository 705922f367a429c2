// The keys of a task that a node drops without a word, as Polar does: to the person who wrote the file they are most likely misspelt.
import { taskRequestSchema } from '../contract/task.ts'

/** Dotted paths, as in `runtime.prepare[0].comand`; none for a task that is not valid, which the node itself complains about. */
export function ignoredKeys(task: unknown): readonly string[] {
  const parsed = taskRequestSchema.safeParse(task)
  return parsed.success ? droppedFrom(task, parsed.data, '') : []
}

function droppedFrom(given: unknown, kept: unknown, path: string): readonly string[] {
  if (typeof given !== 'object' || given === null || typeof kept !== 'object' || kept === null) return []
  return Object.entries(given).flatMap(([key, value]) => {
    const here = Array.isArray(given) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`
    return Object.hasOwn(kept, key) ? droppedFrom(value, Reflect.get(kept, key), here) : [here]
  })
}
