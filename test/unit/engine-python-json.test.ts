import { describe, expect, it } from 'vitest'
import { pythonJson, pythonJsonOf } from '../../src/python-json.ts'

// Expected texts are what CPython prints for json.dumps(json.loads(text), ensure_ascii=False).
describe('JSON as Python writes it', () => {
  it.each([
    ['compact becomes spaced', '{"a":1,"b":[1,2,{"c":null}]}', '{"a": 1, "b": [1, 2, {"c": null}]}'],
    ['pretty-printed becomes one line', '{\n  "a": true,\n\t"b": []\n}', '{"a": true, "b": []}'],
    ['punctuation inside strings stays', '{"a":"x,y:z {q} [1]"}', '{"a": "x,y:z {q} [1]"}'],
    ['quotes and backslashes stay escaped', '{"a":"say \\"hi\\" \\\\ "}', '{"a": "say \\"hi\\" \\\\ "}'],
    ['escapes of printable characters are undone', '{"a":"\\u00e9\\/\\u0041"}', '{"a": "é/A"}'],
    ['control characters stay escaped', '{"a":"\\u0001\\n\\t\\u000b"}', '{"a": "\\u0001\\n\\t\\u000b"}'],
    ['number-like keys keep their place', '{"b":1,"1":2}', '{"b": 1, "1": 2}'],
    ['a float stays a float', '[1.0,-0.0,2.50]', '[1.0, -0.0, 2.5]'],
    ['big whole numbers keep every digit', '[12345678901234567890,-0]', '[12345678901234567890, 0]'],
    ['exponents are written as Python does', '[1e5,1e16,1e-4,1e-5,1.5E+22,123e-7]', '[100000.0, 1e+16, 0.0001, 1e-05, 1.5e+22, 1.23e-05]'],
    ['too large for a float', '[1e999,-1e999]', '[Infinity, -Infinity]'],
    ['a bare value', '"x"', '"x"'],
  ])('%s', (_name, text, expected) => {
    expect(pythonJson(text)).toBe(expected)
  })

  it.each(['{"a":', 'ls -la', '', "{'a': 1}", '{"a": NaN}'])('refuses %j, which is not JSON', (text) => {
    expect(pythonJson(text)).toBeNull()
  })

  it('changes nothing when applied again', () => {
    const once = pythonJson('{"x":[1.5,"é",{}]}') ?? ''
    expect(pythonJson(once)).toBe(once)
  })

  it('writes a value as its JSON text would be written', () => {
    expect(pythonJsonOf({ command: 'ls', deep: { list: [1, 'two', false] } })).toBe(
      '{"command": "ls", "deep": {"list": [1, "two", false]}}',
    )
  })
})
