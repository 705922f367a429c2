// A client of Anthropic's Messages.
import { anthropic } from '../../../src/proxy/dialects/anthropic/dialect.ts'
import { signatureOf } from '../../../src/proxy/dialects/signature.ts'
import { canonicalText } from '../../../src/proxy/json.ts'
import type { Said } from '../dialect-answers.ts'
import type { NeutralTurn } from '../dialect-cases.ts'
import { type Codec, eventsOf } from '../dialect-codec.ts'

type Block = {
  readonly type: 'thinking' | 'text' | 'tool_use'
  readonly thinking?: string
  readonly signature?: string
  readonly text?: string
  readonly id?: string
  readonly name?: string
  readonly input?: object
}
type Usage = { readonly input_tokens: number; readonly cache_read_input_tokens: number; readonly output_tokens: number }
type Reply = { readonly role: 'assistant'; readonly content: readonly Block[]; readonly stop_reason: string; readonly usage: Usage }
type Delta = {
  readonly type: 'thinking_delta' | 'signature_delta' | 'text_delta' | 'input_json_delta'
  readonly thinking?: string
  readonly signature?: string
  readonly text?: string
  readonly partial_json?: string
}
type Event =
  | { readonly type: 'message_start'; readonly message: Reply }
  | { readonly type: 'content_block_start'; readonly index: number; readonly content_block: Block }
  | { readonly type: 'content_block_delta'; readonly index: number; readonly delta: Delta }
  | { readonly type: 'content_block_stop'; readonly index: number }
  | { readonly type: 'message_delta'; readonly delta: { readonly stop_reason: string }; readonly usage: Usage }
  | { readonly type: 'message_stop' | 'ping' }
  | { readonly type: 'error'; readonly error: { readonly type: string; readonly message: string } }

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  415: 'invalid_request_error',
  429: 'rate_limit_error',
  500: 'api_error',
  502: 'api_error',
  503: 'api_error',
  504: 'timeout_error',
}

export const anthropicCodec: Codec = {
  dialect: anthropic,
  signs: 'turns with reasoning',
  lacks: [],
  url: () => ({ model: null, form: null }),
  request({ system, tools, choice, thinking, maxTokens, temperature, topP, stop }, items, isStream) {
    return {
      model: 'm',
      max_tokens: maxTokens,
      messages: items,
      ...(system === null ? {} : { system: [{ type: 'text', text: system, cache_control: { type: 'ephemeral' } }] }),
      ...(tools.length === 0 ? {} : { tools: tools.map(({ name, description, schema }) => ({ name, description, input_schema: schema })) }),
      ...(choice === null
        ? {}
        : {
            tool_choice:
              typeof choice === 'string' ? { type: choice === 'required' ? 'any' : choice } : { type: 'tool', name: choice.name },
          }),
      ...(thinking === null ? {} : { thinking: thinking === 'on' ? { type: 'enabled', budget_tokens: 1_024 } : { type: 'disabled' } }),
      ...(temperature === null ? {} : { temperature }),
      ...(topP === null ? {} : { top_p: topP }),
      ...(stop.length === 0 ? {} : { stop_sequences: stop }),
      ...(isStream ? { stream: true } : {}),
    }
  },
  items(turn: NeutralTurn) {
    switch (turn.type) {
      case 'user': {
        const image = turn.image === null ? [] : [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: turn.image } }]
        return [{ role: 'user', content: [{ type: 'text', text: turn.text }, ...image] }]
      }
      case 'note':
        return [{ role: 'system', content: turn.text }]
      case 'results': {
        const told = turn.results.map(({ id, value }) => ({ type: 'tool_result', tool_use_id: id, content: JSON.stringify(value) }))
        return [{ role: 'user', content: [...told, ...(turn.late === null ? [] : [{ type: 'text', text: turn.late }])] }]
      }
      case 'assistant': {
        const signature = turn.origin === null ? '' : signatureOf(turn.origin)
        return [
          {
            role: 'assistant',
            content: [
              ...(turn.reasoning === '' ? [] : [{ type: 'thinking', thinking: turn.reasoning, signature }]),
              ...(turn.text === '' ? [] : [{ type: 'text', text: turn.text }]),
              ...turn.calls.map(({ id, name, arguments: args }) => ({ type: 'tool_use', id, name, input: JSON.parse(args) })),
            ],
          },
        ]
      }
    }
  },
  returned: (reply) => [{ role: 'assistant', content: (reply as Reply).content }],
  fold(stream) {
    const blocks: Block[] = []
    let json = ''
    let open: Block | null = null
    let message: Reply | null = null
    let end: { readonly stop_reason: string; readonly usage: Usage } | null = null
    let isStopped = false
    const demand = (holds: boolean): void => {
      if (!holds) throw new Error(`an event out of place: ${stream.slice(0, 2_000)}`)
    }
    for (const { name, data } of eventsOf(stream)) {
      const event: Event = JSON.parse(data)
      demand(name === event.type && !isStopped)
      switch (event.type) {
        case 'message_start':
          demand(message === null && event.message.content.length === 0)
          message = event.message
          break
        case 'content_block_start':
          demand(message !== null && open === null && event.index === blocks.length)
          open = event.content_block
          json = ''
          break
        case 'content_block_delta':
          if (open === null || event.index !== blocks.length) throw new Error('a delta of no block')
          json += event.delta.partial_json ?? ''
          open = extended(open, event.delta)
          break
        case 'content_block_stop':
          if (open === null || event.index !== blocks.length) throw new Error('a stop of no block')
          blocks.push(open.type === 'tool_use' ? { ...open, input: JSON.parse(json === '' ? '{}' : json) } : open)
          open = null
          break
        case 'message_delta':
          demand(open === null && end === null)
          end = { stop_reason: event.delta.stop_reason, usage: event.usage }
          break
        case 'message_stop':
          demand(end !== null)
          isStopped = true
          break
        case 'ping':
          break
        case 'error':
          throw new Error(event.error.message)
      }
    }
    demand(isStopped)
    return { ...message, content: blocks, ...end }
  },
  said(reply): Said {
    const { content, stop_reason: stop, usage } = reply as Reply
    if (content.length === 0) throw new Error('an answer has at least one block')
    for (const block of content) {
      if (block.type === 'thinking' && (block.signature ?? '') === '') throw new Error('a thinking block without a signature')
    }
    return {
      reasoning: content.map((block) => block.thinking ?? '').join(''),
      text: content.map((block) => block.text ?? '').join(''),
      calls: content.flatMap(({ type, id = '', name = '', input }) =>
        type === 'tool_use' ? [{ id, name, arguments: canonicalText(input) }] : [],
      ),
      finish: stop === 'max_tokens' ? 'length' : stop === 'refusal' ? 'filtered' : 'done',
      usage: {
        prompt: usage.input_tokens + usage.cache_read_input_tokens,
        completion: usage.output_tokens,
        cached: usage.cache_read_input_tokens,
      },
    }
  },
  failure(body, status) {
    const { type, error } = JSON.parse(body)
    if (type !== 'error' || error.type !== TYPES[status]) throw new Error(`not Anthropic's envelope: ${body}`)
    return error.message
  },
  streamFailure(stream) {
    const [event, ...others] = eventsOf(stream)
    const { type, error } = JSON.parse(event?.data ?? '{}')
    if (others.length > 0 || event?.name !== 'error' || type !== 'error' || typeof error.type !== 'string') {
      throw new Error(`not Anthropic's error event: ${stream}`)
    }
    return error.message
  },
}

function extended(block: Block, delta: Delta): Block {
  switch (delta.type) {
    case 'thinking_delta':
      return { ...block, thinking: (block.thinking ?? '') + (delta.thinking ?? '') }
    case 'signature_delta':
      return { ...block, signature: (block.signature ?? '') + (delta.signature ?? '') }
    case 'text_delta':
      return { ...block, text: (block.text ?? '') + (delta.text ?? '') }
    case 'input_json_delta':
      return block
  }
}
