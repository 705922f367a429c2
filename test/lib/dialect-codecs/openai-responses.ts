// A client of OpenAI's Responses.
import { openaiResponses } from '../../../src/proxy/dialects/openai-responses/dialect.ts'
import { signatureOf } from '../../../src/proxy/dialects/signature.ts'
import { canonicalText, type JsonObject } from '../../../src/proxy/json.ts'
import { canonicalArguments, type Said } from '../dialect-answers.ts'
import { dataUrl, type NeutralTurn } from '../dialect-cases.ts'
import { type Codec, eventsOf } from '../dialect-codec.ts'

type Text = { readonly type: string; readonly text: string }
type Item = {
  readonly type: 'reasoning' | 'message' | 'function_call'
  readonly id: string
  readonly summary?: readonly Text[]
  readonly encrypted_content?: string
  readonly content?: readonly Text[]
  readonly call_id?: string
  readonly name?: string
  readonly arguments?: string
}
type Reply = {
  readonly status: 'completed' | 'incomplete' | 'in_progress' | 'failed'
  readonly incomplete_details: { readonly reason: string } | null
  readonly error: { readonly code: string; readonly message: string } | null
  readonly output: readonly Item[]
  readonly usage: {
    readonly input_tokens: number
    readonly output_tokens: number
    readonly input_tokens_details: { readonly cached_tokens: number }
  }
}
type Event = {
  readonly type: string
  readonly sequence_number: number
  readonly response?: Reply
  readonly item?: Item
  readonly output_index?: number
  readonly delta?: string
}

export const responsesCodec: Codec = {
  dialect: openaiResponses,
  signs: 'every turn',
  lacks: ['stop'],
  url: () => ({ model: null, form: null }),
  request({ system, tools, choice, thinking, maxTokens, temperature, topP }, items, isStream) {
    return {
      model: 'm',
      input: items,
      max_output_tokens: maxTokens,
      store: false,
      include: ['reasoning.encrypted_content'],
      ...(system === null ? {} : { instructions: system }),
      ...(tools.length === 0
        ? {}
        : {
            tools: tools.map(({ name, description, schema }) => ({
              type: 'function',
              name,
              description,
              parameters: schema,
              strict: false,
            })),
          }),
      ...(choice === null ? {} : { tool_choice: typeof choice === 'string' ? choice : { type: 'function', name: choice.name } }),
      ...(thinking === null ? {} : { reasoning: { effort: thinking === 'on' ? 'medium' : 'none', summary: 'auto' } }),
      ...(temperature === null ? {} : { temperature }),
      ...(topP === null ? {} : { top_p: topP }),
      ...(isStream ? { stream: true } : {}),
    }
  },
  items(turn: NeutralTurn) {
    switch (turn.type) {
      case 'user': {
        const image = turn.image === null ? [] : [{ type: 'input_image', image_url: dataUrl(turn.image) }]
        return [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: turn.text }, ...image] }]
      }
      case 'note':
        return [{ type: 'message', role: 'developer', content: [{ type: 'input_text', text: turn.text }] }]
      case 'results':
        return [
          ...turn.results.map(({ id, value }) => ({ type: 'function_call_output', call_id: id, output: JSON.stringify(value) })),
          ...(turn.late === null ? [] : [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: turn.late }] }]),
        ]
      case 'assistant': {
        const signature = turn.origin === null ? {} : { encrypted_content: signatureOf(turn.origin) }
        return [
          ...(turn.reasoning === ''
            ? []
            : [{ type: 'reasoning', summary: [{ type: 'summary_text', text: turn.reasoning }], ...signature }]),
          ...(turn.text === '' ? [] : [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: turn.text }] }]),
          ...turn.calls.map(({ id, name, arguments: args }) => ({ type: 'function_call', call_id: id, name, arguments: args })),
        ]
      }
    }
  },
  returned: (reply) => (reply as Reply).output,
  fold(stream) {
    const told: Item[] = []
    const pieces = new Map<number, string>()
    let last: Reply | null = null
    for (const [index, { name, data }] of eventsOf(stream).entries()) {
      const event: Event = JSON.parse(data)
      if (name !== event.type || event.sequence_number !== index || last !== null) throw new Error(`an event out of place: ${data}`)
      const { response, item, output_index: place = -1, delta = '' } = event
      pieces.set(place, (pieces.get(place) ?? '') + delta)
      if (event.type === 'response.output_item.done' && item !== undefined) {
        if (place !== told.length || textOf(item) !== (pieces.get(place) ?? ''))
          throw new Error(`an item unlike its pieces: ${data.slice(0, 2_000)}`)
        told.push(item)
      }
      if (event.type === 'response.completed' || event.type === 'response.incomplete') last = response ?? null
    }
    if (last === null || canonicalText(last.output) !== canonicalText(told)) throw new Error('the stream ends otherwise than it went')
    // Spread: a reply is an object of its own to those who read it.
    return { ...last } as JsonObject
  },
  said(reply): Said {
    const { output, status, incomplete_details: details, usage } = reply as Reply
    if (output.length === 0) throw new Error('an answer has at least one item')
    const of = (type: Item['type']): readonly Item[] => output.filter((item) => item.type === type)
    return {
      reasoning: of('reasoning').map(textOf).join(''),
      text: of('message').map(textOf).join(''),
      calls: of('function_call').map(({ call_id: id = '', name = '', arguments: args = '' }) => ({
        id,
        name,
        arguments: canonicalArguments(args),
      })),
      finish: status === 'completed' ? 'done' : details?.reason === 'max_output_tokens' ? 'length' : 'filtered',
      usage: { prompt: usage.input_tokens, completion: usage.output_tokens, cached: usage.input_tokens_details.cached_tokens },
    }
  },
  failure(body) {
    const { error } = JSON.parse(body)
    if (typeof error.type !== 'string' || typeof error.code !== 'string') throw new Error(`not OpenAI's envelope: ${body}`)
    return error.message
  },
  streamFailure(stream) {
    const [event, ...others] = eventsOf(stream)
    const { response } = JSON.parse(event?.data ?? '{}')
    if (others.length > 0 || event?.name !== 'response.failed' || response.status !== 'failed')
      throw new Error(`not a failed response: ${stream}`)
    return response.error.message
  },
}

function textOf({ summary = [], content = [], arguments: args = '' }: Item): string {
  return [...summary, ...content].map(({ text }) => text).join('') + args
}
