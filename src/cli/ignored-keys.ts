// The keys of a task that a node drops without a word, as Polar does: to the person who wrote the file they are most likely misspelt.
import { taskRequestSchema } from '../contract/task.ts'

/** What is read of `metadata.polar_node`; the rest of it is copied to results like all metadata. */
const READ_OF_OWN = new Set(['purpose', 'results', 'budget'])

/** Dotted paths, as in `runtime.prepare[0].comand`; none for a task that is not valid, which the node itself complains about. */
export function ignoredKeys(task: unknown): readonly string[] {
  const parsed = taskRequestSchema.safeParse(task)
  if (!parsed.success) return []
  const { polar_node: own } = parsed.data.metadata
  const unread = typeof own === 'object' && own !== null ? Object.keys(own).filter((key) => !READ_OF_OWN.has(key)) : []
  return [...droppedFrom(task, parsed.data, ''), ...unread.map((key) => `metadata.polar_node.${key}`)]
}

function droppedFrom(given: unknown, kept: unknown, path: string): readonly string[] {
  if (typeof given !== 'object' || given === null || typeof kept !== 'object' || kept === null) return []
  return Object.entries(given).flatMap(([key, value]) => {
    const here = Array.isArray(given) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`
    return Object.hasOwn(kept, key) ? droppedFrom(value, Reflect.get(kept, key), here) : [here]
  })
}
