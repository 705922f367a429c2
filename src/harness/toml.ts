// Writes plain values as TOML 1.0: root keys first, then every table under its own header, so that no key lands in another's table.

export type TomlValue = string | number | boolean | readonly TomlValue[] | TomlTable
export type TomlTable = { readonly [key: string]: TomlValue }

export function writeToml(document: TomlTable): string {
  return tableLines([], document).join('\n').concat('\n')
}

/** The place of the first value that TOML has no word for, as a dotted path, or null. */
export function findNonToml(value: unknown, path: string): string | null {
  if (typeof value === 'string' || typeof value === 'boolean') return null
  if (typeof value === 'number') return Number.isFinite(value) ? null : path
  if (typeof value !== 'object' || value === null) return path
  for (const [key, each] of Object.entries(value)) {
    const found = findNonToml(each, `${path}.${key}`)
    if (found !== null) return found
  }
  return null
}

function tableLines(path: readonly string[], table: TomlTable): readonly string[] {
  const entries = Object.entries(table)
  const own = entries.flatMap(([key, value]) => (isTable(value) ? [] : [`${tomlKey(key)} = ${inline(value)}`]))
  const header = path.length === 0 || (own.length === 0 && entries.length > 0) ? [] : ['', `[${path.map(tomlKey).join('.')}]`]
  const nested = entries.flatMap(([key, value]) => (isTable(value) ? tableLines([...path, key], value) : []))
  return [...header, ...own, ...nested]
}

function isTable(value: TomlValue): value is TomlTable {
  return typeof value === 'object' && !Array.isArray(value)
}

function inline(value: TomlValue): string {
  if (typeof value === 'string') return tomlString(value)
  if (typeof value !== 'object') return String(value)
  if (!isTable(value)) return `[${value.map(inline).join(', ')}]`
  return `{ ${Object.entries(value)
    .map(([key, each]) => `${tomlKey(key)} = ${inline(each)}`)
    .join(', ')} }`
}

function tomlKey(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : tomlString(key)
}

/** JSON's escapes are TOML's but for two: half a surrogate pair has no place in TOML, and DEL must be escaped. */
function tomlString(text: string): string {
  return JSON.stringify(text.toWellFormed()).replaceAll('\u007f', '\\u007f')
}
