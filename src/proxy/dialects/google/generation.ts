// Google's generation config → the engine's parameters, and how the client wants its answer told.
import type { Diagnostic } from '../../../contract/call.ts'
import { describe, type JsonObject } from '../../json.ts'
import { readParameters } from '../../parameters.ts'
import type { ReadContext } from '../dialect.ts'
import { isAbsent, object, optionalBudget, orRefuse, refuse, refuseInTraining, text } from '../reading.ts'
import { readEffort, thinkingSwitch } from '../thinking.ts'
import { booleanAt, type Fields, fieldsOf, listAt, type Member, noteOthers, objectAt, placeOf, textAt, valueAt } from './fields.ts'
import type { GoogleWishes } from './response.ts'
import { jsonSchema } from './schema.ts'

type Kind = 'number' | 'integer'

const SAMPLING: readonly (readonly [google: string, engine: string, kind: Kind])[] = [
  ['temperature', 'temperature', 'number'],
  ['topP', 'top_p', 'number'],
  ['topK', 'top_k', 'integer'],
  ['seed', 'seed', 'integer'],
  ['presencePenalty', 'presence_penalty', 'number'],
  ['frequencyPenalty', 'frequency_penalty', 'number'],
]

const KNOWN = new Set([
  ...SAMPLING.map(([google]) => google),
  ...(
    'maxOutputTokens stopSequences candidateCount responseMimeType responseSchema responseJsonSchema responseFormat thinkingConfig ' +
    'responseLogprobs logprobs'
  ).split(' '),
])
const THINKING = new Set(['includeThoughts', 'thinkingLevel', 'thinkingBudget'])

/** What is not carried over, of one of the places where generation settings may stand. */
export function noteUnused(config: Fields, elsewhere: ReadonlySet<string>, diagnostics: Diagnostic[]): void {
  noteOthers(config, new Set([...KNOWN, ...elsewhere]), diagnostics)
}

type Generation = {
  readonly read: { readonly parameters: JsonObject; readonly diagnostics: readonly Diagnostic[] }
  readonly maxTokens: number | null
  readonly wishes: Omit<GoogleWishes, 'isArray'>
}

export function readGeneration(config: Fields, { tier, pins }: Pick<ReadContext, 'tier' | 'pins'>, diagnostics: Diagnostic[]): Generation {
  const candidates = numberAt(config, 'candidateCount', 'integer') ?? 1
  if (candidates !== 1) refuse(placeOf(config, 'candidateCount'), 'only one candidate per request can be served')
  const stopPlace = placeOf(config, 'stopSequences')
  const stop = listAt(config, 'stopSequences').map((sequence, index) => text(sequence, `${stopPlace}[${index}]`))
  const maxTokens = optionalBudget(valueAt(config, 'maxOutputTokens'), placeOf(config, 'maxOutputTokens'))
  const thinking = readThinking(config, diagnostics)
  const source = {
    max_tokens: maxTokens,
    ...Object.fromEntries(SAMPLING.map(([google, engine, kind]) => [engine, numberAt(config, google, kind)])),
    ...(stop.length === 0 ? {} : { stop }),
    ...thinking.parameters,
    ...readResponseFormat(config, tier),
  }
  // How many alternatives are wanted is checked and not passed on: an engine gives those it was set up for.
  numberAt(config, 'logprobs', 'integer')
  return {
    read: orRefuse(readParameters(source, tier, pins)),
    maxTokens,
    wishes: { thoughts: thinking.isShown, logprobs: booleanAt(config, 'responseLogprobs') ?? false },
  }
}

type Thinking = { readonly parameters: JsonObject; readonly isShown: boolean }

/**
 * A budget of zero turns thinking off; a level, a budget or the wish to see thoughts turns it on; otherwise the model decides.
 * How large the budget is is no matter for a local engine: `max_tokens` bounds thinking and answer together.
 */
function readThinking(config: Fields, diagnostics: Diagnostic[]): Thinking {
  const thinking = objectAt(config, 'thinkingConfig')
  if (thinking === null) return { parameters: {}, isShown: true }
  noteOthers(thinking, THINKING, diagnostics)
  const included = booleanAt(thinking, 'includeThoughts')
  const budget = numberAt(thinking, 'thinkingBudget', 'integer')
  const level = textAt(thinking, 'thinkingLevel')?.toLowerCase()
  const isStated = level !== undefined && level !== 'thinking_level_unspecified'
  const effort = isStated ? readEffort(level, placeOf(thinking, 'thinkingLevel'), diagnostics) : null
  const isShown = included !== false
  if (budget === 0) return { parameters: thinkingSwitch(false), isShown }
  const isOn = included === true || effort !== null || (budget !== null && budget > 0)
  return { parameters: { ...(isOn ? thinkingSwitch(true) : {}), reasoning_effort: effort }, isShown }
}

type Structure = { readonly mimeType: Member | null; readonly schema: Member | null }

/** A schema or JSON asked for masks the vocabulary; plain text does not. */
function readResponseFormat(config: Fields, tier: 'train' | 'eval'): JsonObject {
  const { mimeType, schema } = structureOf(config)
  const type = mimeType === null ? null : text(mimeType.value, mimeType.place, true).toLowerCase()
  const isPlain = type === null || type === '' || type === 'text/plain'
  if (mimeType !== null && !isPlain && type !== 'application/json') {
    refuse(mimeType.place, `expected "text/plain" or "application/json", got ${JSON.stringify(type)}`)
  }
  const asked = schema ?? (isPlain ? null : mimeType)
  if (asked === null) return {}
  refuseInTraining(asked.place, tier)
  if (schema === null) return { response_format: { type: 'json_object' } }
  const shape = jsonSchema(object(schema.value, schema.place))
  return { response_format: { type: 'json_schema', json_schema: { name: 'google_response', schema: shape } } }
}

/** From `responseFormat`, or from the three older fields. */
function structureOf(config: Fields): Structure {
  const place = placeOf(config, 'responseFormat')
  for (const [index, entry] of listAt(config, 'responseFormat').entries()) {
    const format = fieldsOf(entry, `${place}[${index}]`)
    const written = objectAt(format, 'text')
    if (written === null) refuse(format.place, 'only text can be served')
    return { mimeType: written.members.get('mimeType') ?? null, schema: written.members.get('schema') ?? null }
  }
  return {
    mimeType: config.members.get('responseMimeType') ?? null,
    schema: config.members.get('responseJsonSchema') ?? config.members.get('responseSchema') ?? null,
  }
}

function numberAt(fields: Fields, name: string, kind: Kind): number | null {
  const value = valueAt(fields, name)
  if (isAbsent(value)) return null
  if (typeof value === 'number' && (kind === 'integer' ? Number.isSafeInteger(value) : Number.isFinite(value))) return value
  const expected = kind === 'integer' ? 'an integer' : 'a number'
  return refuse(placeOf(fields, name), `expected ${expected}, got ${typeof value === 'number' ? value : describe(value)}`)
}
