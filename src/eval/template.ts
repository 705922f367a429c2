// One task for many instances: a TaskRequest whose `{instance.key}` are filled in from each of them.

const PLACEHOLDER = /\{instance\.([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)\}/g
const ALONE = /^\{instance\.([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)\}$/

export type Filled = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly problem: string }

/** A string that is one placeholder becomes what stands in the instance, whatever its type; inside a longer one it becomes text. */
export function fillTemplate(template: unknown, instance: unknown): Filled {
  const missing = new Set<string>()
  const read = (path: string): unknown => {
    let value = instance
    for (const key of path.split('.')) {
      value = typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined
    }
    if (value === undefined) missing.add(path)
    return value
  }
  const fill = (value: unknown): unknown => {
    if (typeof value === 'string') {
      const alone = ALONE.exec(value)?.[1]
      return alone === undefined ? value.replace(PLACEHOLDER, (_, path: string) => textOf(read(path))) : read(alone)
    }
    if (Array.isArray(value)) return value.map(fill)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, fill(member)]))
  }
  const value = fill(template)
  if (missing.size === 0) return { ok: true, value }
  return { ok: false, problem: `has no ${[...missing].join(', ')}, which the template asks for` }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null)
}
