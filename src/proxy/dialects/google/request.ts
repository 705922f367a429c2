// Google generateContent → the pivot: what is kept, what is dropped with a note, what is refused in the caller's terms.
import type { Diagnostic } from '../../../contract/call.ts'
import type { NormalisedCall } from '../../chat.ts'
import type { JsonObject } from '../../json.ts'
import type { ReadContext, ReadRequest } from '../dialect.ts'
import { modelName, reading, refuse } from '../reading.ts'
import { mergeLeadingSystem } from '../system-messages.ts'
import { type Fields, fieldsOf, NO_FIELDS, noteOthers, objectAt, overlaid, placeOf, valueAt } from './fields.ts'
import { noteUnused, readGeneration } from './generation.ts'
import { readContents, readSystemInstruction } from './history.ts'
import type { GoogleWishes } from './response.ts'
import { readToolChoice, readTools } from './tools.ts'

/** Known here, and either used or without meaning for a local engine: dropped without a word. */
const KNOWN = new Set(
  'model contents systemInstruction tools toolConfig generationConfig config cachedContent safetySettings labels serviceTier store'.split(
    ' ',
  ),
)
/** What an SDK's own config says to the SDK. */
const CLIENT_FIELDS = new Set('httpOptions abortSignal automaticFunctionCalling automaticContinuation'.split(' '))

export function readGoogle(body: JsonObject, context: ReadContext): ReadRequest<GoogleWishes> {
  return reading(() => {
    const { call, wishes, unpaired } = normalise(fieldsOf(body, ''), context)
    if (unpaired !== null) refuse(unpaired, 'no functionCall of the turn before has this id or name')
    // Parts that say nothing are passed over; an engine must be told something.
    if (call.request.messages.length === 0) refuse('contents', 'no part of them says anything')
    return { call, wishes }
  })
}

type Normalised = { readonly call: NormalisedCall; readonly wishes: GoogleWishes; readonly unpaired: string | null }

/** All but that every result must have its call, and that something must be said. */
export function normalise(body: Fields, { tier, pins, url }: ReadContext): Normalised {
  const diagnostics: Diagnostic[] = []
  const config = objectAt(body, 'config') ?? NO_FIELDS
  const request = overlaid(body, config)
  const stated = objectAt(body, 'generationConfig') ?? NO_FIELDS
  const nested = objectAt(config, 'generationConfig') ?? NO_FIELDS
  noteOthers(body, KNOWN, diagnostics)
  noteUnused(config, new Set([...KNOWN, ...CLIENT_FIELDS]), diagnostics)
  for (const settings of [stated, nested]) noteUnused(settings, NOTHING, diagnostics)
  if (request.members.has('cachedContent')) refuse(placeOf(request, 'cachedContent'), 'no content is cached here; send it with the request')
  const { read, maxTokens, wishes } = readGeneration(overlaid(stated, overlaid(nested, config)), { tier, pins }, diagnostics)
  const system = readSystemInstruction(request, diagnostics)
  const { messages, unpaired } = readContents(request, diagnostics)
  const choice = readToolChoice(request, readTools(request, diagnostics), tier, diagnostics)
  return {
    call: {
      modelRequested: modelName(url.model ?? valueAt(body, 'model')),
      // The URL alone decides.
      stream: url.form === 'events' || url.form === 'array',
      maxTokensRequested: maxTokens,
      continues: null,
      request: {
        messages: mergeLeadingSystem(system === null ? messages : [system, ...messages]),
        tools: choice.tools,
        parameters: { ...read.parameters, ...choice.parameters },
      },
      diagnostics: [...diagnostics, ...read.diagnostics],
    },
    wishes: { ...wishes, isArray: url.form === 'array' },
    unpaired,
  }
}

const NOTHING: ReadonlySet<string> = new Set()
