// What may change in a message within one major version, and what may not.
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Edition, editionOf } from '../../src/contract/wire/edition.ts'
import type { JsonSchema } from '../../src/contract/wire/json-schema.ts'
import type { Message } from '../../src/contract/wire/messages.ts'
import { incompatibilities } from '../lib/schema-compatibility.ts'

type Change = readonly [what: string, before: z.ZodType, now: z.ZodType, problems: readonly string[]]

const text = z.string()

/** Of one message, `M`. An id is given once, so each schema gives it back. */
function edition(direction: Message['direction'], schema: z.ZodType): Edition {
  const named = schema.meta({ id: 'M' })
  const result = editionOf('1.0', [{ name: 'M', direction, schema: named }])
  z.globalRegistry.remove(named)
  return result
}

const GIVEN: readonly Change[] = [
  ['nothing', z.object({ a: text }), z.object({ a: text }), []],
  ['an optional key more', z.object({ a: text }), z.object({ a: text, b: text.optional() }), []],
  ['a required key more', z.object({ a: text }), z.object({ a: text, b: text }), []],
  ['a key that may be absent no more', z.object({ a: text.optional() }), z.object({ a: text }), []],
  ['a description', z.object({ a: text }), z.object({ a: text.describe('what it is') }), []],
  ['an integer where a number was', z.object({ a: z.number() }), z.object({ a: z.int() }), []],
  ['fewer words', z.object({ a: z.enum(['x', 'y']) }), z.object({ a: z.enum(['x']) }), []],
  ['null no more', z.object({ a: text.nullable() }), z.object({ a: text }), []],
  ['a narrower range', z.object({ a: z.number().min(0) }), z.object({ a: z.number().min(1) }), []],
  ['what was anything, a text', z.object({ a: z.unknown() }), z.object({ a: text }), []],
  ['a key less', z.object({ a: text, b: text }), z.object({ a: text }), ['M.b: is gone']],
  ['an optional key less', z.object({ a: text, b: text.optional() }), z.object({ a: text }), ['M.b: is gone']],
  ['a key that may be absent', z.object({ a: text }), z.object({ a: text.optional() }), ['M.a: may be absent now']],
  ['another type', z.object({ a: text }), z.object({ a: z.number() }), ['M.a: was string, is number']],
  ['a number where an integer was', z.object({ a: z.int() }), z.object({ a: z.number() }), ['M.a: was integer, is number']],
  ['any type', z.object({ a: text }), z.object({ a: z.unknown() }), ['M.a: was string, is anything']],
  ['null', z.object({ a: text }), z.object({ a: text.nullable() }), ['M.a: takes a form that it never had']],
  ['one more word', z.object({ a: z.enum(['x']) }), z.object({ a: z.enum(['x', 'y']) }), ['M.a: may hold a value that it never held']],
  ['any word', z.object({ a: z.literal('x') }), z.object({ a: text }), ['M.a: may hold a value that it never held']],
  ['a wider range', z.object({ a: z.number().min(0) }), z.object({ a: z.number() }), ['M.a: is less narrow than it was']],
  [
    'something inside a list',
    z.object({ a: z.array(z.object({ b: text })) }),
    z.object({ a: z.array(z.object({ c: text })) }),
    ['M.a[].b: is gone'],
  ],
  ['lists of anything', z.object({ a: z.array(text) }), z.object({ a: z.array(z.unknown()) }), ['M.a[]: was string, is anything']],
  [
    'something under any key',
    z.object({ a: z.record(text, z.int()) }),
    z.object({ a: z.record(text, text) }),
    ['M.a.*: was integer, is string'],
  ],
  [
    'a new kind of a union',
    z.union([z.object({ type: z.literal('x') }), z.object({ type: z.literal('y') })]),
    z.union([z.object({ type: z.literal('x') }), z.object({ type: z.literal('z') })]),
    ['M: takes a form that it never had'],
  ],
]

const TAKEN: readonly Change[] = [
  ['nothing', z.object({ a: text }), z.object({ a: text }), []],
  ['an optional key more', z.object({ a: text }), z.object({ a: text, b: text.optional() }), []],
  ['a key with a default more', z.object({ a: text }), z.object({ a: text, b: z.int().default(1) }), []],
  ['a key that may be left out', z.object({ a: text }), z.object({ a: text.optional() }), []],
  ['one more word', z.object({ a: z.enum(['x']) }), z.object({ a: z.enum(['x', 'y']) }), []],
  ['null', z.object({ a: text }), z.object({ a: text.nullable() }), []],
  ['a wider range', z.object({ a: z.int().max(10) }), z.object({ a: z.int().max(20) }), []],
  ['any type', z.object({ a: text }), z.object({ a: z.unknown() }), []],
  ['further keys', z.strictObject({ a: text }), z.object({ a: text }), []],
  ['a required key more', z.object({ a: text }), z.object({ a: text, b: text }), ['M.b: is required now']],
  ['a key that must be there', z.object({ a: text.optional() }), z.object({ a: text }), ['M.a: is required now']],
  ['a key that is ignored', z.object({ a: text, b: text.optional() }), z.object({ a: text }), ['M.b: is gone']],
  ['a word less', z.object({ a: z.enum(['x', 'y']) }), z.object({ a: z.enum(['x']) }), ['M.a: a value that was taken is refused']],
  ['null no more', z.object({ a: text.nullable() }), z.object({ a: text }), ['M.a: a form that was taken is refused']],
  ['a narrower range', z.object({ a: z.int().max(20) }), z.object({ a: z.int().max(10) }), ['M.a: is narrower than it was']],
  ['a pattern', z.object({ a: text }), z.object({ a: text.regex(/^x/) }), ['M.a: is narrower than it was']],
  ['another type', z.object({ a: z.number() }), z.object({ a: z.int() }), ['M.a: was number, is integer']],
  ['another default', z.object({ a: z.int().default(1) }), z.object({ a: z.int().default(2) }), ['M.a: another default']],
  [
    'another default of a message inside',
    z.object({ a: z.object({ b: text.optional() }).default({}) }),
    z.object({ a: z.object({ b: text.optional() }).default({ b: 'x' }) }),
    ['M.a: another default'],
  ],
  ['no further keys', z.object({ a: text }), z.strictObject({ a: text }), ['M.*: is refused now']],
]

describe('a message that the node gives may change by', () => {
  it.each(GIVEN.filter(([, , , problems]) => problems.length === 0))('%s', (_, before, now) => {
    expect(incompatibilities(edition('given', before), edition('given', now))).toEqual([])
  })
})

describe('a message that the node gives may not change by', () => {
  it.each(GIVEN.filter(([, , , problems]) => problems.length > 0))('%s', (_, before, now, problems) => {
    expect([...incompatibilities(edition('given', before), edition('given', now))].sort()).toEqual(problems)
  })
})

describe('a message that the node takes may change by', () => {
  it.each(TAKEN.filter(([, , , problems]) => problems.length === 0))('%s', (_, before, now) => {
    expect(incompatibilities(edition('taken', before), edition('taken', now))).toEqual([])
  })
})

describe('a message that the node takes may not change by', () => {
  it.each(TAKEN.filter(([, , , problems]) => problems.length > 0))('%s', (_, before, now, problems) => {
    expect([...incompatibilities(edition('taken', before), edition('taken', now))].sort()).toEqual(problems)
  })
})

describe('an edition', () => {
  const schema = z.object({ a: text }).meta({ id: 'M' })
  const before = editionOf('1.0', [{ name: 'M', direction: 'given', schema }])

  it('may gain a message, and lose none', () => {
    const empty = editionOf('1.0', [])
    expect(incompatibilities(empty, before)).toEqual([])
    expect(incompatibilities(before, empty)).toEqual(['M: is gone'])
  })

  it('may not turn a message round', () => {
    const turned = editionOf('1.0', [{ name: 'M', direction: 'taken', schema }])
    expect(incompatibilities(before, turned)).toEqual(['M: was given, is taken'])
  })

  it('is looked through where a message is named in one and written out in the other', () => {
    const whole = (schema: JsonSchema): Edition => ({ schema_version: '1.0', messages: { M: { direction: 'given', schema } } })
    const inner = { type: 'object', properties: { b: { type: 'string' } } }
    const named = whole({ type: 'object', properties: { a: { $ref: '#/messages/Inner/schema' } } })
    const before = { ...named, messages: { ...named.messages, Inner: { direction: 'given', schema: inner } } } as const
    expect(incompatibilities(before, whole({ type: 'object', properties: { a: inner } }))).toEqual(['Inner: is gone'])
    const other = { ...inner, properties: { c: { type: 'string' } } }
    expect(incompatibilities(before, whole({ type: 'object', properties: { a: other } }))).toEqual(['M.a.b: is gone', 'Inner: is gone'])
  })

  it('is not compared by rules that do not know its keywords', () => {
    const odd = editionOf('1.0', [{ name: 'Odd', direction: 'given', schema: z.tuple([text]).meta({ id: 'Odd' }) }])
    expect(() => incompatibilities(odd, odd)).toThrow('Odd: no rule compares prefixItems')
  })
})
