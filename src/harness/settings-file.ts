// A CLI's own settings.json: what a task adds to it, what the harness sets whatever the task says, and `$` kept a dollar.

export type SettingsFile = { readonly [key: string]: unknown }

/** Paths such as `security.auth` that `given` must leave alone, since they route or quiet the CLI: a problem in the caller's terms, or null. */
export function checkOwnKeys(harness: string, given: SettingsFile, own: readonly string[]): string | null {
  for (const path of own) {
    let value: unknown = given
    for (const key of path.split('.')) value = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined
    if (value !== undefined) return `agent.settings.config.${path} is set by harness '${harness}' itself`
  }
  return null
}

/** Objects are joined; of two values for one key the second one stands, and one that is undefined says nothing. */
export function mergedSettings(first: SettingsFile, second: SettingsFile): SettingsFile {
  const result = new Map(Object.entries(first))
  for (const [key, value] of Object.entries(second)) {
    const before = result.get(key)
    if (isObject(value)) result.set(key, mergedSettings(isObject(before) ? before : {}, value))
    else if (value !== undefined) result.set(key, value)
  }
  return Object.fromEntries(result)
}

/** The variable that holds one dollar sign. */
export const DOLLAR = { POLAR_DOLLAR: '$' } as const
const DOLLAR_SIGN = `\${POLAR_DOLLAR}`

/** The CLIs put variables in place of `$NAME` and `${NAME}` in every string of the file, once: this way each string comes out as it is. */
export function writeSettings(settings: SettingsFile): string {
  return JSON.stringify(
    settings,
    (_key, value: unknown) => (typeof value === 'string' ? value.replaceAll('$', () => DOLLAR_SIGN) : value),
    2,
  )
}

function isObject(value: unknown): value is SettingsFile {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
