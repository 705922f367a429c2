// Valid OpenAI Responses requests: fields, messages and the shape of a conversation; items and tools stand in files of their own.
import type { Dice } from '../dice.ts'
import { jsonObject, modelName, schema, text, textOrEmpty, words } from '../words.ts'
import { type Body, type Grammar, type Kept, listOf, openRefusable, type Refusable, type Setting, type ValidRequest } from './grammar.ts'
import { callItems, inputPart, looseItem, outputOf } from './responses-items.ts'
import { toolFields } from './responses-tools.ts'

export const responsesGrammar: Grammar = {
  dialect: 'openai-responses',
  request(dice, setting) {
    const refusable = openRefusable()
    const body = {
      model: modelName(dice),
      ...dice.maybe(0.5, 'instructions', () => dice.pick([text(dice), null])),
      input: input(dice, setting, refusable),
      ...toolFields(dice, setting, refusable),
      ...settings(dice, setting, refusable),
    }
    return requestOf(body, refusable.reasons)
  },
  nextTurn(dice, setting, { request, kept }) {
    const before = typeof request.body.input === 'string' ? [{ role: 'user', content: request.body.input }] : listOf(request.body, 'input')
    const said = { type: 'message', role: 'user', content: [{ type: 'input_text', text: `${text(dice)} ${setting.mark}` }] }
    const last = kept.calls.length - 1
    const outputs = kept.calls.map((call, index) => outputOf(dice, call.kind, call.id, index === last ? setting.mark : ''))
    const fresh = [...outputs, ...(outputs.length > 0 && dice.chance(0.6) ? [] : [said])]
    // The service's own way of going on, where the client sends only what is new.
    if (kept.responseId !== null && dice.chance(0.15)) {
      return requestOf({ ...request.body, previous_response_id: kept.responseId, input: fresh }, [
        ...request.refusable,
        'previous_response_id',
      ])
    }
    return requestOf({ ...request.body, input: [...before, ...returned(dice, kept), ...fresh] }, request.refusable)
  },
  count(dice, setting) {
    const refusable = openRefusable()
    const body = { model: 'any', input: input(dice, setting, refusable), ...toolFields(dice, setting, refusable) }
    return { path: '/v1/responses/input_tokens', body, refusable: refusable.reasons }
  },
}

function requestOf(body: Body, refusable: readonly string[]): ValidRequest {
  return { path: '/v1/responses', query: '', body, form: body.stream === true ? 'events' : 'plain', refusable }
}

function input(dice: Dice, { mark }: Setting, refusable: Refusable): unknown {
  const marked = `${text(dice)} ${mark}`
  if (dice.chance(0.15)) return marked
  const last: Body = dice.chance(0.5)
    ? { role: 'user', content: marked }
    : {
        type: 'message',
        role: 'user',
        content: [...dice.list(0, 2, () => inputPart(dice, refusable)), { type: 'input_text', text: marked }],
      }
  return [
    ...dice.list(0, 2, () => ({ ...typed(dice), role: dice.pick(['system', 'developer']), content: content(dice, refusable) })),
    ...dice.list(0, 3, () => [userItem(dice, refusable), ...assistantItems(dice, refusable)]).flat(),
    ...(dice.chance(0.15) ? [looseItem(dice, refusable)] : []),
    last,
  ]
}

const typed = (dice: Dice): Body => dice.maybe(0.7, 'type', () => 'message')

function content(dice: Dice, refusable: Refusable): unknown {
  return dice.chance(0.4) ? textOrEmpty(dice) : dice.list(1, 3, () => inputPart(dice, refusable))
}

function userItem(dice: Dice, refusable: Refusable): Body {
  return {
    ...typed(dice),
    role: 'user',
    content: content(dice, refusable),
    ...dice.maybe(0.2, 'id', () => 'msg_client'),
    ...dice.maybe(0.1, 'status', () => 'completed'),
  }
}

function assistantItems(dice: Dice, refusable: Refusable): readonly Body[] {
  const said = {
    type: 'message',
    role: 'assistant',
    content: dice.pick<() => unknown>([
      () => text(dice),
      () => [{ type: 'output_text', text: text(dice), annotations: [], ...dice.maybe(0.2, 'logprobs', () => []) }],
      () => [{ type: 'refusal', refusal: words(dice) }],
    ])(),
    ...dice.maybe(0.5, 'id', () => 'msg_1'),
    ...dice.maybe(0.2, 'phase', () => 'commentary'),
  }
  return [
    ...(dice.chance(0.3) ? [reasoning(dice)] : []),
    ...(dice.chance(0.7) ? [said] : []),
    ...dice.list(0, 2, () => callItems(dice, refusable)).flat(),
  ]
}

function reasoning(dice: Dice): Body {
  return {
    type: 'reasoning',
    ...dice.maybe(0.7, 'id', () => 'rs_1'),
    summary: dice.list(0, 2, () => ({ type: 'summary_text', text: textOrEmpty(dice) })),
    ...dice.maybe(0.3, 'content', () => dice.pick([null, [{ type: 'reasoning_text', text: text(dice) }]])),
    ...dice.maybe(0.5, 'encrypted_content', () => dice.pick([null, 'Zm9yZWlnbg=='])),
  }
}

/** The answer's items as harnesses return them: whole, without ids, without reasoning, or with only its signature left. */
function returned(dice: Dice, kept: Kept): readonly Body[] {
  const way = dice.weighted([
    [5, 'whole'],
    [2, 'nameless'],
    [2, 'unthinking'],
    [1, 'sealed'],
  ])
  switch (way) {
    case 'nameless':
      return kept.items.map(({ id: _id, status: _status, ...item }) => item)
    case 'unthinking':
      return kept.items.some((item) => item.type !== 'reasoning') ? kept.items.filter((item) => item.type !== 'reasoning') : kept.items
    case 'sealed':
      return kept.items.map((item) => (item.type === 'reasoning' ? { ...item, summary: [], content: null } : item))
    default:
      return kept.items
  }
}

function settings(dice: Dice, { tier }: Setting, refusable: Refusable): Body {
  const stream = dice.chance(0.5)
  const format = { format: { type: 'json_schema', name: 'out', strict: true, schema: schema(dice) } }
  return {
    ...(stream || dice.chance(0.3) ? { stream } : {}),
    ...dice.maybe(0.4, 'max_output_tokens', () => dice.pick([1, 16, 64, 400, 2_000])),
    ...dice.maybe(0.3, 'temperature', () => dice.pick([0, 1])),
    ...dice.maybe(0.1, 'top_p', () => 0.9),
    ...dice.maybe(0.05, 'top_logprobs', () => 3),
    ...dice.maybe(0.4, 'reasoning', () => ({
      effort: dice.pick(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', null]),
      ...dice.maybe(0.5, 'summary', () => 'auto'),
    })),
    ...dice.maybe(0.2, 'text', () => dice.pick<Body>([{ verbosity: 'low' }, { format: { type: 'text' } }])),
    ...dice.maybe(0.03, 'text', () => (tier === 'train' ? refusable.because('text.format', format) : format)),
    ...dice.maybe(0.3, 'parallel_tool_calls', () => dice.chance(0.5)),
    ...dice.maybe(0.5, 'store', () => dice.chance(0.3)),
    ...dice.maybe(0.5, 'include', () => ['reasoning.encrypted_content']),
    ...dice.maybe(0.3, 'prompt_cache_key', () => words(dice)),
    ...dice.maybe(0.2, 'metadata', () => ({ a: 'b' })),
    ...dice.maybe(0.2, 'client_metadata', () => jsonObject(dice)),
    ...dice.maybe(0.1, 'truncation', () => 'auto'),
    ...dice.maybe(0.1, 'service_tier', () => 'auto'),
    ...dice.maybe(0.05, 'user', () => 'someone'),
    ...dice.maybe(0.05, 'background', () => false),
    ...dice.maybe(0.02, 'background', () => refusable.because('background', true)),
    ...dice.maybe(0.02, 'previous_response_id', () => refusable.because('previous_response_id', 'resp_unknown')),
    ...dice.maybe(0.03, 'conversation', () => refusable.because('conversation', 'conv_1')),
    ...dice.maybe(0.03, 'stream_options', () => (stream ? { include_obfuscation: false } : null)),
    ...dice.maybe(0.05, 'some_new_field', () => jsonObject(dice)),
  }
}
