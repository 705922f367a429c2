// Breaks a valid request at a random place: a wrong type, a field too many or too few, an odd number, a name that objects have already.
import type { Dice } from '../dice.ts'
import type { Body } from '../grammar/grammar.ts'
import { nested, rawText, withFieldTwice, writeJson } from './json-text.ts'

type Path = readonly (string | number)[]

export type Mutant = {
  /** JSON, though not always what `JSON.stringify` would give. */
  readonly text: string
  /** What was done, for people. */
  readonly notes: readonly string[]
}

const ODD_VALUES: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  -0.5,
  2 ** 31,
  2 ** 53,
  -(2 ** 63),
  rawText('1e999'),
  rawText('-1e999'),
  rawText('-0'),
  rawText('0.1e-400'),
  rawText('123456789012345678901234567890'),
  '',
  ' ',
  'a',
  'NaN',
  '0',
  'null',
  '\u0000',
  '\ud800',
  'before \udc00 after',
  '😀'.slice(0, 1),
  [],
  {},
  [null],
  [[]],
  [{}],
  ['a'],
  [1, 'a', null, {}],
  { type: null },
  { type: 'text' },
  { type: 'function' },
  { text: 1 },
  { a: { b: { c: {} } } },
]

const ODD_NAMES = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  'length',
  'then',
  '',
  ' ',
  '0',
  '-1',
  '\ud800',
  'ﬁ',
  'a.b[0]',
  'origin',
]

/** Words that choose a variant somewhere; each is wrong nearly everywhere. */
const TAGS = (
  'user assistant system developer tool model function text image image_url input_text output_text thinking redacted_thinking tool_use tool_result ' +
  'document function_call function_call_output reasoning message custom namespace auto any none required tool item_reference compaction refusal'
).split(' ')

type Mutation = { readonly weight: number; readonly run: (dice: Dice, body: Body) => Body; readonly name: string }

const MUTATIONS: readonly Mutation[] = [
  { name: 'wrong value', weight: 30, run: (dice, body) => atRandom(dice, body, () => dice.pick(ODD_VALUES)) },
  { name: 'field gone', weight: 20, run: (dice, body) => atRandom(dice, body, () => GONE) },
  {
    name: 'other tag',
    weight: 14,
    run: (dice, body) =>
      atRandom(
        dice,
        body,
        () => dice.pick(TAGS),
        (value, path) => typeof value === 'string' && /^(type|role|mode)$/.test(String(path.at(-1))),
      ),
  },
  {
    name: 'field too many',
    weight: 12,
    run: (dice, body) => atRandom(dice, body, (value) => withField(value, dice.pick(ODD_NAMES), dice.pick(ODD_VALUES)), isObject),
  },
  { name: 'other body’s field', weight: 6, run: (dice, body) => ({ ...body, ...dice.pick(FOREIGN_FIELDS) }) },
  { name: 'list emptied', weight: 6, run: (dice, body) => atRandom(dice, body, () => [], Array.isArray) },
  {
    name: 'list doubled',
    weight: 6,
    run: (dice, body) => atRandom(dice, body, (value) => (Array.isArray(value) ? [...value, ...value] : value), Array.isArray),
  },
  {
    name: 'list turned',
    weight: 5,
    run: (dice, body) => atRandom(dice, body, (value) => (Array.isArray(value) ? value.toReversed() : value), Array.isArray),
  },
  { name: 'list holding itself', weight: 4, run: (dice, body) => atRandom(dice, body, (value) => [value]) },
  { name: 'value as JSON text', weight: 4, run: (dice, body) => atRandom(dice, body, (value) => JSON.stringify(value)) },
  {
    name: 'deep nesting',
    weight: 4,
    run: (dice, body) => atRandom(dice, body, () => nested(dice.pick(['arrays', 'objects']), dice.pick([20, 200, 2_000, 20_000, 60_000]))),
  },
  {
    name: 'huge text',
    weight: 1,
    run: (dice, body) => atRandom(dice, body, () => dice.pick(['a', 'é', ' ', '\n', '"']).repeat(dice.pick([70_000, 200_000]))),
  },
  {
    name: 'long list',
    weight: 2,
    run: (dice, body) =>
      atRandom(
        dice,
        body,
        (value) => Array.from({ length: 300 }, () => value),
        (value) => JSON.stringify(value).length < 200,
      ),
  },
  { name: 'field renamed', weight: 5, run: (dice, body) => atRandom(dice, body, (value) => renamed(dice, value), isObject) },
  { name: 'two places swapped', weight: 5, run: swapped },
]

const FOREIGN_FIELDS: readonly Body[] = [
  { contents: [{ role: 'user', parts: [{ text: 'a' }] }] },
  { messages: [{ role: 'user', content: 'a' }] },
  { input: 'a', instructions: 'b' },
  { stream: true },
  { stream: 'true' },
  { n: 2 },
  { best_of: 2 },
  { return_token_ids: true, prompt_logprobs: 1, echo: true },
  { extra_body: { return_token_ids: true } },
  { max_tokens: 0 },
  { max_tokens: 10 ** 9 },
  { tools: null },
]

/** One to three mutations of a valid body. */
export function mutate(dice: Dice, body: Body): Mutant {
  const chosen = dice.list(1, dice.chance(0.7) ? 1 : 3, () => dice.weighted(MUTATIONS.map((each) => [each.weight, each] as const)))
  let mutant = body
  for (const { run } of chosen) mutant = run(dice, mutant)
  const text = writeJson(mutant)
  const notes = chosen.map(({ name }) => name)
  if (!dice.chance(0.05) || Object.keys(mutant).length === 0) return { text, notes }
  return { text: withFieldTwice(text, dice.pick(Object.keys(mutant)), dice.pick(ODD_VALUES)), notes: [...notes, 'field twice'] }
}

const isObject = (value: unknown): value is Body => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Every place in the value, the value itself excepted. */
export function pathsOf(value: unknown, prefix: Path = []): readonly Path[] {
  if (typeof value !== 'object' || value === null) return []
  const entries: readonly (readonly [string | number, unknown])[] = Array.isArray(value) ? [...value.entries()] : Object.entries(value)
  return entries.flatMap(([key, inner]) => [[...prefix, key], ...pathsOf(inner, [...prefix, key])])
}

function pathIn(dice: Dice, body: Body, isMeant: (value: unknown, path: Path) => boolean = () => true): Path {
  const paths = pathsOf(body).filter((path) => isMeant(valueAt(body, path), path))
  // Places near the root are few, and matter as much as the many below.
  const depth = dice.whole(1, 6)
  const near = paths.filter((path) => path.length <= depth)
  const eligible = near.length > 0 ? near : paths
  return eligible.length === 0 ? [] : dice.pick(eligible)
}

function atRandom(dice: Dice, body: Body, change: (value: unknown) => unknown, isMeant?: (value: unknown, path: Path) => boolean): Body {
  const path = pathIn(dice, body, isMeant)
  return path.length === 0 ? body : replaceAt(body, path, change(valueAt(body, path)))
}

function valueAt(value: unknown, path: Path): unknown {
  let found = value
  for (const key of path) found = typeof found === 'object' && found !== null ? Reflect.get(found, key) : undefined
  return found
}

export const GONE = Symbol('taken out')

export function replaceAt(body: Body, path: Path, value: unknown): Body {
  return replaced(body, path, value) as Body // An object whose inside was replaced is one still.
}

function replaced(target: unknown, [key, ...rest]: Path, value: unknown): unknown {
  if (key === undefined) return value
  if (Array.isArray(target)) {
    const index = Number(key)
    if (rest.length === 0 && value === GONE) return target.toSpliced(index, 1)
    return target.with(index, replaced(target[index], rest, value))
  }
  if (!isObject(target)) return target
  const entries = Object.entries(target)
  if (rest.length === 0 && value === GONE) return Object.fromEntries(entries.filter(([name]) => name !== key))
  return Object.fromEntries(entries.map(([name, inner]) => [name, name === key ? replaced(inner, rest, value) : inner]))
}

/** Own property even for a name that objects inherit. */
function withField(value: unknown, name: string, field: unknown): unknown {
  return isObject(value) ? Object.fromEntries([...Object.entries(value), [name, field]]) : value
}

function renamed(dice: Dice, value: unknown): unknown {
  if (!isObject(value) || Object.keys(value).length === 0) return value
  const old = dice.pick(Object.keys(value))
  const name = dice.pick([`${old}s`, old.toUpperCase(), old.replaceAll('_', ''), dice.pick(ODD_NAMES)])
  return Object.fromEntries(Object.entries(value).map(([each, inner]) => [each === old ? name : each, inner]))
}

function swapped(dice: Dice, body: Body): Body {
  const first = pathIn(dice, body)
  const second = pathIn(dice, body)
  if (first.length === 0 || second.length === 0) return body
  // A place within the other would vanish by the first replacement.
  const holds = (outer: Path, inner: Path): boolean => outer.every((key, index) => inner[index] === key)
  if (holds(first, second) || holds(second, first)) return body
  const [a, b] = [valueAt(body, first), valueAt(body, second)]
  return replaceAt(replaceAt(body, first, b), second, a)
}
