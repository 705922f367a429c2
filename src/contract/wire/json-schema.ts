// A zod schema as JSON Schema, with every schema that has an id kept as a reference to it.
import { z } from 'zod'

export type JsonSchema = { readonly [key: string]: unknown }

/**
 * Draft 2020-12, which is OpenAPI 3.1's as well. As a sender may write it: defaults may be left out, further keys may stand beside the
 * named ones; so a schema says the same of a body that is taken and of one that is given. `place` makes a reference of an id.
 */
export function jsonSchema(schema: z.ZodType, place: (id: string) => string): JsonSchema {
  const id = schema.meta()?.id
  if (id !== undefined) return { $ref: place(id) }
  const { $schema: _, $defs: __, ...rest } = rendered(schema)
  return placed(rest, place)
}

/** What stands behind the ids of such schemas, and not only the references to them. */
export function namedJsonSchemas(schemas: Readonly<Record<string, z.ZodType>>, place: (id: string) => string): Record<string, JsonSchema> {
  // Rendered together, so that none is rendered anew for each that refers to it.
  const { $defs = {} } = rendered(z.object(schemas))
  const named = Object.keys(schemas).map((id) => {
    const definition = $defs[id]
    if (definition === undefined) throw new Error(`the schema of ${id} does not bear that id`)
    return [id, placed(definition, place)]
  })
  return Object.fromEntries(named)
}

/** Complete in itself: what it refers to stands in `$defs`. */
export function schemaFile(id: string, schema: z.ZodType): JsonSchema {
  const { [id]: own, ...others } = rendered(schema).$defs ?? {}
  const place = (name: string) => (name === id ? '#' : `${LOCAL}${name}`)
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: `${id}.json`,
    title: id,
    ...placed(own ?? {}, place),
    ...(Object.keys(others).length === 0 ? {} : { $defs: placed(others, place) }),
  }
}

const LOCAL = '#/$defs/'

function rendered(schema: z.ZodType): JsonSchema & { readonly $defs?: Readonly<Record<string, JsonSchema>> } {
  const written = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', override: ({ jsonSchema: node }) => dropTruisms(node) })
  return written as ReturnType<typeof rendered> // zod's own type has no index
}

/** That JSON's keys are strings, and how far JavaScript counts, is no promise of ours. */
function dropTruisms(node: z.core.JSONSchema.BaseSchema): void {
  if (node.maximum === Number.MAX_SAFE_INTEGER) delete node.maximum
  if (node.minimum === Number.MIN_SAFE_INTEGER) delete node.minimum
  if (typeof node.propertyNames === 'object' && Object.keys(node.propertyNames).join() === 'type') delete node.propertyNames
}

function placed(schema: JsonSchema, place: (id: string) => string): JsonSchema {
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, key === '$ref' ? moved(value, place) : inside(value, place)]),
  )
}

function inside(value: unknown, place: (id: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => inside(item, place))
  return isJsonSchema(value) ? placed(value, place) : value
}

function moved(reference: unknown, place: (id: string) => string): unknown {
  return typeof reference === 'string' && reference.startsWith(LOCAL) ? place(reference.slice(LOCAL.length)) : inside(reference, place)
}

export function isJsonSchema(value: unknown): value is JsonSchema {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}
