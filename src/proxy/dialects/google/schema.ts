// Google's schemas → JSON Schema: types in lower case, `nullable` as a type of its own; what only looks like a schema is left alone.
import { isObject, type JsonObject } from '../../json.ts'

/** A schema as an engine takes it. */
export function jsonSchema(schema: JsonObject): JsonObject {
  const { nullable, ...rest } = Object.fromEntries(
    Object.entries(schema).map(([name, value]) => converted(SPELLINGS.get(name) ?? name, value)),
  )
  const { type, ...untyped } = rest
  return nullable === true ? withNull(rest) : type === undefined ? untyped : rest
}

/** Keywords whose value is a schema, a list of schemas, or either. */
const SCHEMA_KEYWORDS = new Set(
  (
    'items prefixItems anyOf oneOf allOf not if then else contains propertyNames additionalItems additionalProperties ' +
    'unevaluatedItems unevaluatedProperties'
  ).split(' '),
)

/** Keywords whose value maps names, which mean nothing themselves, to schemas. */
const SCHEMA_MAPS = new Set('properties patternProperties dependentSchemas $defs definitions defs'.split(' '))

/** Sixty-four bits wide in Google's own schema, so its JSON writes them as strings. */
const COUNTS = new Set('minItems maxItems minLength maxLength minProperties maxProperties'.split(' '))

/** Keywords in Protobuf's original spelling. */
const SPELLINGS: ReadonlyMap<string, string> = new Map([
  ['any_of', 'anyOf'],
  ['min_items', 'minItems'],
  ['max_items', 'maxItems'],
  ['min_length', 'minLength'],
  ['max_length', 'maxLength'],
  ['min_properties', 'minProperties'],
  ['max_properties', 'maxProperties'],
  ['property_ordering', 'propertyOrdering'],
])

function converted(name: string, value: unknown): readonly [string, unknown] {
  if (name === 'type') return [name, typeOf(value)]
  if (SCHEMA_KEYWORDS.has(name)) return [name, Array.isArray(value) ? value.map(schemaIn) : schemaIn(value)]
  if (SCHEMA_MAPS.has(name) && isObject(value)) {
    return [name, Object.fromEntries(Object.entries(value).map(([property, schema]) => [property, schemaIn(schema)]))]
  }
  if (COUNTS.has(name) && typeof value === 'string' && /^\d{1,15}$/.test(value)) return [name, Number(value)]
  return [name, value]
}

/** What is no object, as `false` and `true` for all or nothing, is given back as it came. */
function schemaIn(value: unknown): unknown {
  return isObject(value) ? jsonSchema(value) : value
}

function typeOf(type: unknown): unknown {
  if (Array.isArray(type)) return type.map(typeOf)
  if (type === 'TYPE_UNSPECIFIED') return undefined
  return typeof type === 'string' ? type.toLowerCase() : type
}

/** A schema without a type allows null already, unless its alternatives do not. */
function withNull(schema: JsonObject): JsonObject {
  const { type, anyOf, ...others } = schema
  if (type !== undefined) return { ...schema, type: [...new Set([...(Array.isArray(type) ? type : [type]), 'null'])] }
  return Array.isArray(anyOf) ? { ...others, anyOf: [...anyOf, { type: 'null' }] } : others
}
