// A client of OpenAI's chat completions.
import { openaiChat } from '../../../src/proxy/dialects/openai-chat/dialect.ts'
import { canonicalArguments, type Said } from '../dialect-answers.ts'
import { dataUrl, type NeutralTurn } from '../dialect-cases.ts'
import { type Codec, eventsOf } from '../dialect-codec.ts'

type Call = { readonly id: string; readonly type: 'function'; readonly function: { readonly name: string; readonly arguments: string } }
type Message = { readonly content: string | null; readonly reasoning_content?: string; readonly tool_calls?: readonly Call[] }
type Reply = {
  readonly choices: readonly [{ readonly message: Message; readonly finish_reason: string }]
  readonly usage: {
    readonly prompt_tokens: number
    readonly completion_tokens: number
    readonly prompt_tokens_details: { readonly cached_tokens: number }
  }
}
type Delta = {
  readonly content?: string
  readonly reasoning_content?: string
  readonly tool_calls?: readonly {
    readonly index: number
    readonly id?: string
    readonly function: { readonly name?: string; readonly arguments: string }
  }[]
}
type Chunk = {
  readonly choices: readonly { readonly delta: Delta; readonly finish_reason: string | null }[]
  readonly usage?: Reply['usage'] | null
}

export const chatCodec: Codec = {
  dialect: openaiChat,
  signs: 'no turn',
  lacks: [],
  url: () => ({ model: null, form: null }),
  request({ system, tools, choice, thinking, maxTokens, temperature, topP, stop }, items, isStream) {
    return {
      model: 'm',
      messages: [...(system === null ? [] : [{ role: 'system', content: system }]), ...items],
      ...(tools.length === 0
        ? {}
        : {
            tools: tools.map(({ name, description, schema }) => ({
              type: 'function',
              function: { name, description, parameters: schema },
            })),
          }),
      ...(choice === null ? {} : { tool_choice: typeof choice === 'string' ? choice : { type: 'function', function: choice } }),
      ...(thinking === null ? {} : { chat_template_kwargs: { enable_thinking: thinking === 'on' } }),
      max_completion_tokens: maxTokens,
      temperature,
      top_p: topP,
      ...(stop.length === 0 ? {} : { stop }),
      ...(isStream ? { stream: true, stream_options: { include_usage: true } } : {}),
    }
  },
  items(turn: NeutralTurn) {
    switch (turn.type) {
      case 'user':
        if (turn.image === null) return [{ role: 'user', content: turn.text }]
        return [
          {
            role: 'user',
            content: [
              { type: 'text', text: turn.text },
              { type: 'image_url', image_url: { url: dataUrl(turn.image) } },
            ],
          },
        ]
      case 'note':
        return [{ role: 'developer', content: turn.text }]
      case 'results':
        return [
          ...turn.results.map(({ id, value }) => ({ role: 'tool', tool_call_id: id, content: JSON.stringify(value) })),
          ...(turn.late === null ? [] : [{ role: 'user', content: turn.late }]),
        ]
      case 'assistant': {
        const calls = turn.calls.map(({ id, name, arguments: args }) => ({ id, type: 'function', function: { name, arguments: args } }))
        return [
          {
            role: 'assistant',
            content: turn.text === '' && calls.length > 0 ? null : turn.text,
            ...(turn.reasoning === '' ? {} : { reasoning_content: turn.reasoning }),
            ...(calls.length === 0 ? {} : { tool_calls: calls }),
          },
        ]
      }
    }
  },
  returned: (reply) => [(reply as Reply).choices[0].message],
  fold(stream) {
    const events = eventsOf(stream)
    if (events.at(-1)?.data !== '[DONE]') throw new Error('the stream has no end')
    let content = ''
    let reasoning = ''
    const calls: { id: string; type: 'function'; function: { name: string; arguments: string } }[] = []
    let finish: string | null = null
    let usage: Reply['usage'] | null = null
    for (const { data } of events.slice(0, -1)) {
      const chunk: Chunk = JSON.parse(data)
      usage = chunk.usage ?? usage
      const [choice] = chunk.choices
      if (choice === undefined) continue
      if (finish !== null) throw new Error('something comes after the finish')
      finish = choice.finish_reason
      content += choice.delta.content ?? ''
      reasoning += choice.delta.reasoning_content ?? ''
      for (const { index, id, function: piece } of choice.delta.tool_calls ?? []) {
        calls[index] ??= { id: id ?? '', type: 'function', function: { name: piece.name ?? '', arguments: '' } }
        calls[index].function.arguments += piece.arguments
      }
    }
    const message = {
      role: 'assistant',
      content,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    }
    return { choices: [{ index: 0, message, finish_reason: finish }], usage }
  },
  said(reply): Said {
    const { choices, usage } = reply as Reply
    const [{ message, finish_reason: finish }] = choices
    return {
      reasoning: message.reasoning_content ?? '',
      text: message.content ?? '',
      calls: (message.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) => ({
        id,
        name,
        arguments: canonicalArguments(args),
      })),
      finish: finish === 'length' ? 'length' : finish === 'content_filter' ? 'filtered' : 'done',
      usage: { prompt: usage.prompt_tokens, completion: usage.completion_tokens, cached: usage.prompt_tokens_details.cached_tokens },
    }
  },
  failure(body) {
    const { error } = JSON.parse(body)
    if (typeof error.type !== 'string' || typeof error.code !== 'string') throw new Error(`not OpenAI's envelope: ${body}`)
    return error.message
  },
  streamFailure: null,
}
