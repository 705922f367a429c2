// Valid Anthropic Messages requests: every content block and tool kind, and the histories clients build from answers.
import type { Dice } from '../dice.ts'
import { distinctNames, hexId, imageUrl, jsonObject, modelName, PIXEL, schema, text, textOrEmpty, words } from '../words.ts'
import {
  type Body,
  type Grammar,
  type Kept,
  listOf,
  openRefusable,
  RARE,
  type Refusable,
  type Setting,
  type ValidRequest,
} from './grammar.ts'

export const anthropicGrammar: Grammar = {
  dialect: 'anthropic',
  request(dice, setting) {
    const refusable = openRefusable()
    const body = {
      model: modelName(dice),
      ...conversation(dice, setting, refusable),
      ...toolFields(dice, setting, refusable),
      ...settings(dice, setting, refusable),
    }
    return requestOf(dice, body, refusable.reasons)
  },
  nextTurn(dice, setting, { request, kept }) {
    const messages = [
      ...listOf(request.body, 'messages'),
      { role: 'assistant', content: returned(dice, kept) },
      { role: 'user', content: reactions(dice, kept, setting) },
    ]
    return requestOf(dice, { ...request.body, messages }, request.refusable)
  },
  count(dice, setting) {
    const refusable = openRefusable()
    const body = { model: modelName(dice), ...conversation(dice, setting, refusable), ...toolFields(dice, setting, refusable) }
    return { path: '/v1/messages/count_tokens', body, refusable: refusable.reasons }
  },
}

function requestOf(dice: Dice, body: Body, refusable: readonly string[]): ValidRequest {
  return {
    path: '/v1/messages',
    query: dice.chance(0.3) ? '?beta=true' : '',
    body,
    form: body.stream === true ? 'events' : 'plain',
    refusable,
  }
}

const cached = (dice: Dice): Body =>
  dice.maybe(0.15, 'cache_control', () => dice.pick([{ type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }, null]))

function conversation(dice: Dice, setting: Setting, refusable: Refusable): Body {
  return {
    ...dice.maybe(0.7, 'system', () => system(dice)),
    messages: [...history(dice, refusable), lastMessage(dice, setting, refusable)],
  }
}

function system(dice: Dice): unknown {
  if (dice.chance(0.4)) return text(dice)
  const billing = { type: 'text', text: `x-anthropic-billing-header: cc_version=2.1.332.${words(dice, 1, 1)}; cc_entrypoint=sdk-cli;` }
  return [...(dice.chance(0.4) ? [billing] : []), ...dice.list(1, 3, () => textBlock(dice))]
}

function textBlock(dice: Dice): Body {
  return { type: 'text', text: textOrEmpty(dice), ...cached(dice), ...dice.maybe(0.05, 'citations', () => null) }
}

function imageBlock(dice: Dice): Body {
  const source = { type: 'base64', media_type: dice.pick(['image/png', 'image/jpeg']), data: PIXEL }
  return { type: 'image', source, ...cached(dice) }
}

function documentBlock(dice: Dice, refusable: Refusable): Body {
  const source = dice.weighted<() => unknown>([
    [4, () => ({ type: 'text', media_type: 'text/plain', data: text(dice) })],
    [3, () => ({ type: 'content', content: dice.pick([text(dice), [textBlock(dice), imageBlock(dice)]]) })],
    [RARE, () => refusable.because('document-base64', { type: 'base64', media_type: 'application/pdf', data: PIXEL })],
    [RARE, () => refusable.because('document-url', { type: 'url', url: 'https://documents.example/a.pdf' })],
    [RARE, () => refusable.because('document-file', { type: 'file', file_id: 'file_1' })],
  ])()
  return { type: 'document', source, ...dice.maybe(0.4, 'title', () => words(dice)), ...dice.maybe(0.2, 'context', () => text(dice)) }
}

function searchResult(dice: Dice): Body {
  return { type: 'search_result', source: 'https://pages.example', title: words(dice), content: [textBlock(dice)] }
}

function userBlock(dice: Dice, refusable: Refusable): Body {
  return dice.weighted<() => Body>([
    [12, () => textBlock(dice)],
    [3, () => imageBlock(dice)],
    [2, () => documentBlock(dice, refusable)],
    [1, () => searchResult(dice)],
    [RARE, () => refusable.because('container-upload', { type: 'container_upload', file_id: 'file_1' })],
  ])()
}

function lastMessage(dice: Dice, { mark }: Setting, refusable: Refusable): Body {
  const marked = `${text(dice)} ${mark}`
  if (dice.chance(0.5)) return { role: 'user', content: marked }
  return { role: 'user', content: [...dice.list(0, 2, () => userBlock(dice, refusable)), { type: 'text', text: marked, ...cached(dice) }] }
}

function history(dice: Dice, refusable: Refusable): readonly Body[] {
  return dice
    .list(0, 3, () => [
      { role: 'user', content: dice.chance(0.4) ? text(dice) : dice.list(1, 3, () => userBlock(dice, refusable)) },
      ...(dice.chance(0.08) ? [{ role: 'system', content: dice.chance(0.5) ? text(dice) : [textBlock(dice)] }] : []),
      ...assistantTurn(dice, refusable),
    ])
    .flat()
}

function assistantTurn(dice: Dice, refusable: Refusable): readonly Body[] {
  if (dice.chance(0.2)) return [{ role: 'assistant', content: text(dice) }]
  const uses = dice.list(0, 2, () => ({
    type: 'tool_use',
    id: hexId(dice, 'toolu_'),
    name: dice.pick(['read', 'bash', 'gone_tool']),
    input: jsonObject(dice),
    ...dice.maybe(0.1, 'caller', () => ({ type: 'direct' })),
  }))
  const search = hexId(dice, 'srvtoolu_')
  const blocks = [
    ...(dice.chance(0.4) ? [{ type: 'thinking', thinking: textOrEmpty(dice), signature: hexId(dice, 'sig') }] : []),
    ...(dice.chance(0.1) ? [{ type: 'redacted_thinking', data: hexId(dice, 'data') }] : []),
    ...(dice.chance(0.8) || uses.length === 0 ? [textBlock(dice)] : []),
    ...(dice.chance(0.05)
      ? [
          { type: 'server_tool_use', id: search, name: 'web_search', input: { query: words(dice) } },
          {
            type: 'web_search_tool_result',
            tool_use_id: search,
            content: [{ type: 'web_search_result', title: 'a', url: 'https://b.example', encrypted_content: 'c' }],
          },
        ]
      : []),
    ...uses,
  ]
  const results = uses.map(({ id }) => toolResult(dice, id, refusable))
  if (results.length === 0) return [{ role: 'assistant', content: blocks }]
  const beside = dice.list(0, 1, () => userBlock(dice, refusable))
  return [
    { role: 'assistant', content: blocks },
    { role: 'user', content: dice.chance(0.7) ? [...results, ...beside] : [...beside, ...results] },
  ]
}

function toolResult(dice: Dice, id: string, refusable: Refusable): Body {
  const inner = (): Body =>
    dice.weighted<() => Body>([
      [8, () => textBlock(dice)],
      [2, () => imageBlock(dice)],
      [1, () => documentBlock(dice, refusable)],
      [1, () => searchResult(dice)],
      [1, () => ({ type: 'tool_reference', tool_name: 'read' })],
    ])()
  return {
    type: 'tool_result',
    tool_use_id: id,
    ...dice.weighted<() => Body>([
      [6, () => ({ content: textOrEmpty(dice) })],
      [4, () => ({ content: dice.list(0, 3, inner) })],
      [1, () => ({})],
    ])(),
    ...dice.maybe(0.3, 'is_error', () => dice.chance(0.5)),
    ...cached(dice),
  }
}

/** The answer's blocks as harnesses return them: whole, without the thinking, or with what it was signed for gone. */
function returned(dice: Dice, kept: Kept): readonly Body[] {
  const way = dice.weighted([
    [6, 'whole'],
    [2, 'unthinking'],
    [1, 'omitted'],
  ])
  if (way === 'whole') return kept.items
  // `display: omitted` keeps the signature and empties the text.
  if (way === 'omitted') return kept.items.map((block) => (block.type === 'thinking' ? { ...block, thinking: '' } : block))
  const visible = kept.items.filter((block) => block.type !== 'thinking')
  return visible.length === 0 ? kept.items : visible
}

function reactions(dice: Dice, kept: Kept, { mark }: Setting): readonly Body[] {
  const results = kept.calls.map(({ id }) => ({
    type: 'tool_result',
    tool_use_id: id,
    content: textOrEmpty(dice),
    ...dice.maybe(0.2, 'is_error', () => true),
  }))
  const said = { type: 'text', text: `${text(dice)} ${mark}` }
  const [last] = results.slice(-1)
  if (last === undefined || dice.chance(0.4)) return [...results, said]
  return [...results.slice(0, -1), { ...last, content: [{ type: 'text', text: `${textOrEmpty(dice)}${mark}` }] }]
}

function toolFields(dice: Dice, { tier }: Setting, refusable: Refusable): Body {
  if (dice.chance(0.35)) return dice.chance(0.1) ? { tools: [] } : {}
  const names = distinctNames(dice, 1, 4)
  const constrained = (choice: unknown) => (tier === 'train' ? refusable.because('tool_choice', choice) : choice)
  const parallel = (): Body => dice.maybe(0.3, 'disable_parallel_tool_use', () => dice.chance(0.5))
  return {
    tools: [...names.map((name) => clientTool(dice, name)), ...dice.list(0, 1, () => typedTool(dice)).filter(() => dice.chance(0.4))],
    ...dice.maybe(0.4, 'tool_choice', () =>
      dice.weighted<() => unknown>([
        [6, () => ({ type: 'auto', ...parallel() })],
        [3, () => ({ type: 'none' })],
        [1, () => constrained({ type: 'any', ...parallel() })],
        [1, () => constrained({ type: 'tool', name: names[0], ...parallel() })],
      ])(),
    ),
  }
}

function clientTool(dice: Dice, name: string): Body {
  return {
    name,
    input_schema: schema(dice),
    ...dice.maybe(0.8, 'description', () => text(dice)),
    ...dice.maybe(0.2, 'type', () => dice.pick(['custom', null])),
    ...dice.maybe(0.1, 'defer_loading', () => dice.chance(0.5)),
    ...dice.maybe(0.05, 'eager_input_streaming', () => true),
    ...cached(dice),
  }
}

function typedTool(dice: Dice): Body {
  return dice.pick<Body>([
    { type: 'web_search_20250305', name: 'web_search', max_uses: 5 },
    { type: 'bash_20250124', name: 'bash_typed' },
    { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool' },
    { type: 'code_execution_20260120', name: 'code_execution' },
    { type: 'tool_search_tool_regex_20251119', name: 'tool_search_tool_regex' },
    { type: 'memory_20250818', name: 'memory' },
  ])
}

function settings(dice: Dice, { tier }: Setting, refusable: Refusable): Body {
  const stream = dice.chance(0.5)
  const format = { format: { type: 'json_schema', schema: schema(dice) } }
  return {
    max_tokens: dice.pick([1, 5, 64, 400, 2_000]),
    ...(stream || dice.chance(0.3) ? { stream } : {}),
    ...dice.maybe(0.3, 'temperature', () => dice.pick([0, 0.5, 1])),
    ...dice.maybe(0.1, 'top_p', () => 0.9),
    ...dice.maybe(0.1, 'top_k', () => 5),
    ...dice.maybe(0.2, 'stop_sequences', () => dice.pick([['\n\n'], ['the', 'zzz'], []])),
    ...dice.maybe(0.4, 'thinking', () =>
      dice.pick<Body>([
        { type: 'enabled', budget_tokens: 1024 },
        { type: 'enabled', budget_tokens: 10 },
        { type: 'adaptive', display: 'omitted' },
        { type: 'disabled' },
      ]),
    ),
    ...dice.maybe(0.2, 'output_config', () => ({ effort: dice.pick(['low', 'medium', 'high', 'xhigh', 'max']) })),
    ...dice.maybe(0.03, 'output_config', () => (tier === 'train' ? refusable.because('output_config', format) : format)),
    ...dice.maybe(0.2, 'metadata', () => ({ user_id: '{"device_id":"a","session_id":"b"}' })),
    ...dice.maybe(0.1, 'service_tier', () => 'auto'),
    ...dice.maybe(0.2, 'context_management', () => ({ edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] })),
    ...dice.maybe(0.05, 'mcp_servers', () => []),
    ...dice.maybe(0.05, 'container', () => null),
    ...dice.maybe(0.05, 'some_new_field', () => jsonObject(dice)),
    ...dice.maybe(0.02, 'inference_geo', () => imageUrl(dice)),
  }
}
