// Valid OpenAI chat completions requests: every message, part and tool kind, and the histories clients build from answers.
import type { Dice } from '../dice.ts'
import { argumentsText, distinctNames, hexId, imageUrl, jsonObject, modelName, schema, text, textOrEmpty, words } from '../words.ts'
import { type Body, type Grammar, listOf, openRefusable, type Refusable, type Setting, type ValidRequest } from './grammar.ts'

const PATH = '/v1/chat/completions'

export const chatGrammar: Grammar = {
  dialect: 'openai-chat',
  request(dice, setting) {
    const refusable = openRefusable()
    const body = {
      model: modelName(dice),
      messages: [...dice.list(0, 2, () => systemMessage(dice)), ...history(dice), lastMessage(dice, setting)],
      ...toolFields(dice, setting, refusable),
      ...settings(dice, setting, refusable),
    }
    return requestOf(body, refusable.reasons)
  },
  nextTurn(dice, setting, answered) {
    const { request, kept } = answered
    const messages = [
      ...listOf(request.body, 'messages'),
      ...kept.items.map((item) => returned(dice, item)),
      ...kept.calls.map(({ id }, index) => toolMessage(dice, id, index === kept.calls.length - 1 ? setting.mark : '')),
      ...(kept.calls.length > 0 && dice.chance(0.7) ? [] : [lastMessage(dice, setting)]),
    ]
    return requestOf({ ...request.body, messages }, request.refusable)
  },
  count(dice, setting) {
    const path = '/v1/tokenize'
    if (dice.chance(0.3)) return { path, body: { prompt: `${text(dice)} ${setting.mark}` }, refusable: [] }
    const { messages, tools } = chatGrammar.request(dice, setting).body
    return { path, body: { model: 'any', messages, ...(tools === undefined ? {} : { tools }) }, refusable: [] }
  },
}

function requestOf(body: Body, refusable: readonly string[]): ValidRequest {
  return { path: PATH, query: '', body, form: body.stream === true ? 'events' : 'plain', refusable }
}

function systemMessage(dice: Dice): Body {
  return { role: dice.pick(['system', 'developer']), content: content(dice, () => textPart(dice)) }
}

function lastMessage(dice: Dice, { mark }: Setting): Body {
  const marked = { type: 'text', text: `${text(dice)} ${mark}` }
  return dice.chance(0.6)
    ? { role: 'user', content: marked.text }
    : { role: 'user', content: [...dice.list(0, 2, () => userPart(dice)), marked] }
}

function history(dice: Dice): readonly Body[] {
  return dice
    .list(0, 3, () => [
      { role: 'user', content: content(dice, () => userPart(dice)), ...dice.maybe(0.1, 'name', () => 'ann') },
      ...assistantTurn(dice),
      ...(dice.chance(0.08) ? [systemMessage(dice)] : []),
    ])
    .flat()
}

function assistantTurn(dice: Dice): readonly Body[] {
  const calls = dice.chance(0.5)
    ? dice.list(1, 3, () => ({
        id: hexId(dice, 'call_'),
        type: 'function',
        function: { name: dice.pick(['read', 'bash', 'gone_tool']), arguments: argumentsText(dice) },
      }))
    : []
  const message = {
    role: 'assistant',
    content: dice.pick([() => null, () => '', () => text(dice), () => [textPart(dice), { type: 'refusal', refusal: words(dice) }]])(),
    ...dice.maybe(0.4, dice.pick(['reasoning_content', 'reasoning']), () => textOrEmpty(dice)),
    ...(calls.length === 0 ? dice.maybe(0.1, 'tool_calls', () => null) : { tool_calls: calls }),
    ...dice.maybe(0.1, 'refusal', () => null),
    ...dice.maybe(0.05, 'audio', () => null),
    ...dice.maybe(0.05, 'annotations', () => []),
  }
  return [message, ...calls.map(({ id }) => toolMessage(dice, id, ''))]
}

function toolMessage(dice: Dice, id: string, mark: string): Body {
  const result = `${textOrEmpty(dice)}${mark}`
  return { role: 'tool', tool_call_id: id, content: dice.chance(0.7) ? result : [textPart(dice), { type: 'text', text: result }] }
}

function content(dice: Dice, part: () => Body): unknown {
  return dice.chance(0.6) ? textOrEmpty(dice) : dice.list(1, 3, part)
}

function textPart(dice: Dice): Body {
  return { type: 'text', text: textOrEmpty(dice), ...dice.maybe(0.1, 'cache_control', () => ({ type: 'ephemeral' })) }
}

function userPart(dice: Dice): Body {
  if (dice.chance(0.8)) return textPart(dice)
  return { type: 'image_url', image_url: { url: imageUrl(dice), ...dice.maybe(0.4, 'detail', () => dice.pick(['auto', 'low', 'high'])) } }
}

/** The assistant message as harnesses return it: arguments printed anew, reasoning trimmed or gone, content null, empty or in parts. */
function returned(dice: Dice, message: Body): Body {
  const { reasoning_content: reasoning, content: said, tool_calls: calls, ...rest } = message
  const respelt = Array.isArray(calls) && dice.chance(0.5)
  return {
    ...rest,
    content:
      said === null || said === ''
        ? dice.pick([null, ''])
        : typeof said === 'string' && dice.chance(0.2)
          ? [{ type: 'text', text: said }]
          : said,
    ...(typeof reasoning !== 'string' ? {} : dice.pick([{}, { reasoning_content: reasoning }, { reasoning_content: reasoning.trim() }])),
    ...(Array.isArray(calls) ? { tool_calls: respelt ? calls.map(withArgumentsRespelt) : calls } : {}),
  }
}

function withArgumentsRespelt(call: Body & { readonly function: { readonly name: string; readonly arguments: string } }): Body {
  try {
    return { ...call, function: { ...call.function, arguments: JSON.stringify(JSON.parse(call.function.arguments), null, 1) } }
  } catch {
    return call
  }
}

function toolFields(dice: Dice, { tier }: Setting, refusable: Refusable): Body {
  if (dice.chance(0.35)) return dice.chance(0.1) ? { tools: [], tool_choice: 'auto' } : {}
  const names = distinctNames(dice, 1, 4)
  const constrained = (choice: unknown) => (tier === 'train' ? refusable.because('tool_choice', choice) : choice)
  return {
    tools: [
      ...names.map((name) => functionTool(dice, name)),
      ...(dice.chance(0.1) ? [{ type: 'custom', custom: { name: 'freeform', description: text(dice) } }] : []),
    ],
    ...dice.maybe(0.4, 'tool_choice', () =>
      dice.weighted<() => unknown>([
        [6, () => 'auto'],
        [3, () => 'none'],
        [1, () => constrained('required')],
        [1, () => constrained({ type: 'function', function: { name: names[0] } })],
      ])(),
    ),
    ...dice.maybe(0.2, 'parallel_tool_calls', () => dice.chance(0.5)),
  }
}

function functionTool(dice: Dice, name: string): Body {
  return {
    type: 'function',
    function: {
      name,
      ...dice.maybe(0.8, 'description', () => text(dice)),
      ...dice.maybe(0.9, 'parameters', () => schema(dice)),
      ...dice.maybe(0.2, 'strict', () => dice.chance(0.5)),
    },
  }
}

function settings(dice: Dice, { tier }: Setting, refusable: Refusable): Body {
  const stream = dice.chance(0.5)
  return {
    ...(stream || dice.chance(0.3) ? { stream } : {}),
    ...(stream
      ? dice.maybe(0.5, 'stream_options', () => ({ include_usage: dice.chance(0.7) }))
      : dice.maybe(0.05, 'stream_options', () => null)),
    ...dice.maybe(0.5, dice.pick(['max_tokens', 'max_completion_tokens']), () => dice.pick([1, 5, 40, 400, 2_000])),
    ...dice.maybe(0.4, 'temperature', () => dice.pick([0, 0.2, 1, 2])),
    ...dice.maybe(0.2, 'top_p', () => dice.pick([0.1, 0.95, 1])),
    ...dice.maybe(0.1, 'top_k', () => dice.pick([-1, 20])),
    ...dice.maybe(0.1, 'presence_penalty', () => 0.5),
    ...dice.maybe(0.2, 'seed', () => dice.whole(0, 1e9)),
    ...dice.maybe(0.2, 'stop', () => dice.pick(['\n\n', ['the', 'zzz'], []])),
    ...dice.maybe(0.2, 'n', () => dice.pick([1, null])),
    ...dice.maybe(0.2, 'logprobs', () => dice.chance(0.7)),
    ...dice.maybe(0.1, 'top_logprobs', () => dice.pick([0, 5])),
    ...dice.maybe(0.1, 'user', () => 'someone'),
    ...dice.maybe(0.1, 'metadata', () => jsonObject(dice)),
    ...dice.maybe(0.1, 'store', () => false),
    ...dice.maybe(0.1, 'reasoning_effort', () => dice.pick(['low', 'medium', 'high'])),
    ...dice.maybe(0.1, 'chat_template_kwargs', () => ({ enable_thinking: dice.chance(0.5) })),
    ...dice.maybe(0.1, 'response_format', () => ({ type: 'text' })),
    ...dice.maybe(0.03, 'response_format', () =>
      tier === 'train' ? refusable.because('response_format', { type: 'json_object' }) : { type: 'json_object' },
    ),
    ...dice.maybe(0.1, 'some_new_field', () => jsonObject(dice)),
    ...dice.maybe(0.05, '_proxy_session_id', () => 'x'),
  }
}
