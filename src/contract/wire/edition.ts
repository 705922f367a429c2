// All messages of one version in one document: what is kept beside the code, to tell whether a later one still means the same.
import { type JsonSchema, namedJsonSchemas } from './json-schema.ts'
import { MESSAGES, type Message } from './messages.ts'
import { SCHEMA_VERSION } from './version.ts'

export type Edition = {
  readonly schema_version: string
  readonly messages: Readonly<Record<string, { readonly direction: Message['direction']; readonly schema: JsonSchema }>>
}

/** Schemas refer to one another by JSON pointer. */
export function editionOf(version: string, messages: readonly Message[]): Edition {
  const schemas = namedJsonSchemas(Object.fromEntries(messages.map(({ name, schema }) => [name, schema])), placeOf)
  const entries = messages.map(({ name, direction }) => [name, { direction, schema: schemas[name] }])
  return { schema_version: version, messages: Object.fromEntries(entries) }
}

export function currentEdition(): Edition {
  return editionOf(SCHEMA_VERSION, MESSAGES)
}

function placeOf(name: string): string {
  return `#/messages/${name}/schema`
}
