import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findNonToml, type TomlTable, writeToml } from '../../src/harness/toml.ts'

describe('TOML', () => {
  it('writes root keys first and each table under its own header, so that no key lands in the table of another', () => {
    const document = {
      servers: { one: { command: 'a', args: ['x', 'y'], env: { A: '1' } }, empty: {} },
      model: 'm',
      retries: 3,
      ratio: 0.5,
      huge: 1e21,
      on: true,
      list: [1, [true], { k: 'v', 'two words': 2 }],
      'dotted.key': 'k',
    }
    expect(writeToml(document)).toBe(
      [
        'model = "m"',
        'retries = 3',
        'ratio = 0.5',
        'huge = 1e+21',
        'on = true',
        'list = [1, [true], { k = "v", "two words" = 2 }]',
        '"dotted.key" = "k"',
        '',
        '[servers.one]',
        'command = "a"',
        'args = ["x", "y"]',
        '',
        '[servers.one.env]',
        'A = "1"',
        '',
        '[servers.empty]',
        '',
      ].join('\n'),
    )
  })

  /** TOML 1.0, `basic-string`: nothing unescaped that it forbids, and no escape of half a surrogate pair. */
  const BASIC_STRING = /^"(?:[^"\\\p{Cc}\p{Cs}]|[\u0080-\u009f]|\\["\\bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"$/u

  it('writes any text as a basic string that reads back as it was', () => {
    const unit = fc.oneof(fc.constantFrom('"', '\\', '\n', '\0', '\u007f', '\u009f', '\ud800', '\udc00', "'", '#', '😀'), fc.string())
    fc.assert(
      fc.property(fc.string({ unit }), (text) => {
        const written = writeToml({ k: text }).slice('k = '.length, -1)
        expect(written).toMatch(BASIC_STRING)
        expect(JSON.parse(written)).toBe(text.toWellFormed())
      }),
    )
  })

  it('writes any key as one that reads back as it was', () => {
    fc.assert(
      fc.property(fc.string(), (key) => {
        const table: TomlTable = Object.fromEntries([[key, 1]])
        const written = writeToml(table).slice(0, -' = 1\n'.length)
        expect(/^[A-Za-z0-9_-]+$/.test(written) ? written : JSON.parse(written)).toBe(key.toWellFormed())
      }),
    )
  })

  it.each([
    [{ a: null }, 'config.a'],
    [{ a: { b: [1, null] } }, 'config.a.b.1'],
    [{ a: Number.NaN }, 'config.a'],
    [{ a: [{ b: undefined }] }, 'config.a.0.b'],
    [{ a: 'x', b: 1, c: true, d: [], e: {} }, null],
  ])('finds what it has no word for in %j', (value, place) => {
    expect(findNonToml(value, 'config')).toBe(place)
  })
})
