// One argument that was sampled as bare text, as JSON of the type that the tool's schema gives it.

import { pythonJson, pythonNumber } from '../../python-json.ts'
import { isObject } from '../json.ts'
import { pythonLiteral } from './python-literal.ts'

type ArgumentType = 'string' | 'integer' | 'number' | 'boolean' | 'object' | 'null'

/** Text that is no value of its type stays text: the tool then says what is wrong with it. */
export function argumentJson(text: string, schema: unknown): string {
  const types = typesOf(schema)
  // The format has no null: templates print Python's None.
  const isNull = /^(?:null|none)$/i.test(text)
  const type = mainType(types)
  if (isNull && (types.includes('null') || type !== 'string')) return 'null'
  switch (type) {
    case 'string':
    case 'null':
      return JSON.stringify(text)
    case 'integer':
      return integer(text) ?? JSON.stringify(text)
    case 'number':
      return number(text) ?? JSON.stringify(text)
    case 'boolean':
      return /^(?:true|false)$/i.test(text) ? text.toLowerCase() : JSON.stringify(text)
    case 'object':
      return pythonJson(text) ?? pythonLiteral(text) ?? JSON.stringify(text)
  }
}

/** Null beside another type only says that the argument may be missing; of several others, text is the safest. */
function mainType(types: readonly ArgumentType[]): ArgumentType {
  const others = types.filter((type) => type !== 'null')
  if (others.includes('string')) return 'string'
  return others[0] ?? types[0] ?? 'string'
}

/** What a schema allows, unions and enumerations included; empty when it does not say. */
function typesOf(schema: unknown): readonly ArgumentType[] {
  if (!isObject(schema)) return []
  const { type } = schema
  if (typeof type === 'string') return [typeNamed(type)]
  if (Array.isArray(type)) return type.flatMap((each: unknown) => (typeof each === 'string' ? [typeNamed(each)] : []))
  const options = schema.anyOf ?? schema.oneOf
  if (Array.isArray(options)) return options.flatMap(typesOf)
  if (Array.isArray(schema.enum)) return schema.enum.map(typeOfValue)
  return []
}

/** Schemas of many hands name types in many ways; both engines know these by their beginnings. */
function typeNamed(name: string): ArgumentType {
  const lower = name.trim().toLowerCase()
  if (lower === 'null') return 'null'
  if (/^(?:int|uint|long|short|unsigned)/.test(lower)) return 'integer'
  if (/^(?:num|float|double)/.test(lower)) return 'number'
  if (/^(?:bool|binary)/.test(lower)) return 'boolean'
  if (/^(?:string|str|text|varchar|char|enum)$/.test(lower)) return 'string'
  return 'object'
}

function typeOfValue(value: unknown): ArgumentType {
  if (value === null) return 'null'
  switch (typeof value) {
    case 'number':
      return Number.isInteger(value) ? 'integer' : 'number'
    case 'boolean':
      return 'boolean'
    case 'string':
      return 'string'
    default:
      return 'object'
  }
}

/** As Python's int() reads it, with digits of any number. */
function integer(text: string): string | null {
  const digits = /^\s*([+-]?)(\d+(?:_\d+)*)\s*$/.exec(text)
  if (digits === null) return null
  const [, sign = '', figures = ''] = digits
  const plain = figures.replaceAll('_', '').replace(/^0+(?=\d)/, '')
  return sign === '-' && plain !== '0' ? `-${plain}` : plain
}

/** A number without point and exponent stays whole. Infinity and NaN are no JSON. */
function number(text: string): string | null {
  const whole = integer(text)
  if (whole !== null) return whole
  const isDecimal = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*$/.test(text)
  return isDecimal && Number.isFinite(Number(text)) ? pythonNumber(text.trim().replace(/^\+/, '')) : null
}
