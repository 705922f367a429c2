// Google generateContent → the pivot: what is kept, what is dropped with a diagnostic, what is refused in the caller's terms.
import type { Diagnostic } from '../../../contract/call.ts'
import type { NormalisedCall } from '../../chat.ts'
import type { Failure } from '../../failure.ts'
import type { JsonObject } from '../../json.ts'
import type { ReadContext, ReadCount } from '../dialect.ts'
import { modelName, reading, refuse } from '../reading.ts'
import { mergeLeadingSystem } from '../system-messages.ts'
import { type Fields, fieldsOf, NO_FIELDS, noteOthers, objectAt, overlaid, placeOf } from './fields.ts'
import { type GoogleWishes, noteUnused, readGeneration } from './generation.ts'
import { readContents, readSystemInstruction } from './history.ts'
import { readToolChoice, readTools } from './tools.ts'

export type ReadGoogle =
  | { readonly ok: true; readonly call: NormalisedCall; readonly wishes: GoogleWishes }
  | { readonly ok: false; readonly failure: Failure }

/** Used, or without meaning for a local engine: dropped without a word. */
const REQUEST_FIELDS = new Set(
  'model contents systemInstruction tools toolConfig generationConfig config cachedContent safetySettings labels serviceTier store'.split(
    ' ',
  ),
)
/** What an SDK's own config says to the SDK. */
const CLIENT_FIELDS = new Set('httpOptions abortSignal automaticFunctionCalling automaticContinuation'.split(' '))

export function readGoogle(body: JsonObject, context: ReadContext): ReadGoogle {
  return reading(() => {
    const { call, wishes, unpaired } = normalise(fieldsOf(body, ''), context)
    if (unpaired !== null) refuse(unpaired, 'no functionCall of the turn before has this id or name')
    // Parts that say nothing are passed over; an engine must be told something.
    if (call.request.messages.length === 0) refuse('contents', 'no part of them says anything')
    return { call, wishes }
  })
}

type Normalised = { readonly call: NormalisedCall; readonly wishes: GoogleWishes; readonly unpaired: string | null }

function normalise(body: Fields, context: ReadContext): Normalised {
  const diagnostics: Diagnostic[] = []
  const config = objectAt(body, 'config') ?? NO_FIELDS
  const request = overlaid(body, config)
  const stated = objectAt(body, 'generationConfig') ?? NO_FIELDS
  const nested = objectAt(config, 'generationConfig') ?? NO_FIELDS
  noteOthers(body, withInternal(body), diagnostics)
  noteUnused(config, new Set([...REQUEST_FIELDS, ...CLIENT_FIELDS]), diagnostics)
  for (const settings of [stated, nested]) noteUnused(settings, NOTHING, diagnostics)
  if (request.members.has('cachedContent')) refuse(placeOf(request, 'cachedContent'), 'no content is cached here; send it with the request')
  const generation = readGeneration(overlaid(stated, overlaid(nested, config)), context, diagnostics)
  const system = readSystemInstruction(request, diagnostics)
  const { messages, unpaired } = readContents(request, diagnostics)
  const tools = readTools(request, diagnostics)
  const choice = readToolChoice(request, tools, context.tier, diagnostics)
  return {
    call: {
      modelRequested: modelName(context.url.model ?? body.members.get('model')?.value),
      // The URL alone decides.
      stream: context.url.form === 'events' || context.url.form === 'array',
      maxTokensRequested: generation.maxTokens,
      continues: null,
      request: {
        messages: mergeLeadingSystem(system === null ? messages : [system, ...messages]),
        tools,
        parameters: { ...generation.parameters, ...choice },
      },
      diagnostics,
    },
    wishes: generation.wishes,
    unpaired,
  }
}

const NOTHING: ReadonlySet<string> = new Set()

/** Fields of the gateway's own, which are for nobody else. */
function withInternal(body: Fields): ReadonlySet<string> {
  const internal = [...body.members].filter(([, { name }]) => name.startsWith('_proxy_')).map(([known]) => known)
  return new Set([...REQUEST_FIELDS, ...internal])
}

/** The body of countTokens: contents alone, or a whole request in `generateContentRequest`. A part of a conversation can be counted too. */
export function readCountTokens(body: JsonObject, context: ReadContext): ReadCount {
  const read = reading(() => {
    const fields = fieldsOf(body, '')
    return normalise(objectAt(fields, 'generateContentRequest') ?? fields, context)
  })
  return read.ok ? { ok: true, countable: { kind: 'messages', request: read.call.request } } : read
}
