// What is known of a model and what that does to a request: names, thinking, system messages, budgets, stops.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ModelRule } from '../../src/contract/model-profile.ts'
import type { ChatMessage, ChatRequest } from '../../src/proxy/chat.ts'
import { readParameters, WHOLE_DISTRIBUTION } from '../../src/proxy/parameters.ts'
import { freed, prepare } from '../../src/proxy/profiles/preparation.ts'
import { type ModelProfile, openProfiles } from '../../src/proxy/profiles/profile.ts'
import { foldSystemMessages } from '../../src/proxy/profiles/system-fold.ts'

const profileOf = (model: string, ...rules: ModelRule[]): ModelProfile => openProfiles(rules)(model)
const request = (
  parameters: ChatRequest['parameters'] = {},
  messages: readonly ChatMessage[] = [{ role: 'user', content: 'u' }],
): ChatRequest => ({
  messages,
  tools: null,
  parameters,
})

describe('a model’s name', () => {
  it.each([
    ['Qwen3.5-4B', false, 'first', 32_768, 'xml'],
    ['/models/Qwen/Qwen3.5-4B', false, 'first', 32_768, 'xml'],
    ['Qwen/Qwen3.5-122B-A10B-FP8', false, 'first', 32_768, 'xml'],
    ['QWEN3.5', false, 'first', null, 'xml'],
    ['/runs/my-qwen3.5-grpo/step-40', false, 'first', null, 'xml'],
    ['Qwen/Qwen3-8B', null, 'anywhere', null, 'json'],
    ['Qwen/Qwen3-Coder-30B-A3B-Instruct', null, 'anywhere', null, 'xml'],
    ['qwen3-30b-a3b-thinking-2507', null, 'anywhere', null, 'json'],
    ['policy', null, 'anywhere', null, 'json'],
    ['', null, 'anywhere', null, 'json'],
  ])('%j says what is known of it', (model, thinking, systemMessages, maxModelLen, calls) => {
    const profile = profileOf(model)
    expect([profile.thinking, profile.systemMessages, profile.maxModelLen, profile.format.calls]).toEqual([
      thinking,
      systemMessages,
      maxModelLen,
      calls,
    ])
  })

  it('that nobody has said anything about says nothing', () => {
    expect(profileOf('policy')).toEqual({
      thinking: null,
      systemMessages: 'anywhere',
      maxModelLen: null,
      defaultOutputTokens: null,
      maxOutputTokens: null,
      stopStrings: [],
      stopTokenIds: [],
      cutStrings: [],
      format: { reasoning: 'think-tags', opensThinking: false, calls: 'json' },
      printsCallIds: false,
    })
  })

  it.each([
    ['policy', 'policy', true],
    ['policy', 'my-policy', false],
    ['*policy', 'my-policy', true],
    ['POLICY-v?', 'policy-v1', true],
    ['policy-v?', 'policy-v10', false],
    ['Qwen3.5-4B', '/models/Qwen/Qwen3.5-4B', true],
    ['qwen3.5*', '/models/Qwen/Qwen3x5-4B', false],
    ['a+(b)', 'a+(b)', true],
    ['*', '', true],
  ])('is meant by the pattern %j: %j, %s', (pattern, model, isMeant) => {
    expect(profileOf(model, { pattern, profile: { max_model_len: 7 } }).maxModelLen === 7).toBe(isMeant)
  })

  it('is first looked for among the operator’s rules, which say only what differs', () => {
    const rules: ModelRule[] = [
      { pattern: '*grpo*', profile: { thinking: true, max_output_tokens: { limit: 9 } } },
      { pattern: '*', profile: { thinking: false, calls: 'none' } },
    ]
    expect(profileOf('qwen3.5-grpo', ...rules)).toMatchObject({
      thinking: true,
      systemMessages: 'first',
      maxOutputTokens: 9,
      defaultOutputTokens: null,
      format: { opensThinking: true, calls: 'xml' },
    })
    expect(profileOf('other', ...rules)).toMatchObject({ thinking: false, format: { calls: 'none' } })
  })
})

describe('thinking', () => {
  it.each([
    ['qwen3.5-9b', {}, { enable_thinking: false }],
    ['qwen3.5-9b', { chat_template_kwargs: { enable_thinking: true } }, { enable_thinking: true }],
    ['qwen3.5-9b', { chat_template_kwargs: { other: 1 } }, { other: 1, enable_thinking: false }],
    ['qwen3-8b', {}, undefined],
    ['qwen3-8b', { chat_template_kwargs: { enable_thinking: true } }, { enable_thinking: true }],
    ['policy', { chat_template_kwargs: { enable_thinking: false } }, { enable_thinking: false }],
  ])('of %s, asked with %j, is %j', (model, parameters, kwargs) => {
    expect(prepare(request(parameters), profileOf(model), 'eval').request.parameters.chat_template_kwargs).toEqual(kwargs)
  })
})

describe('CP-03 what nobody said of the sampling', () => {
  it.each([
    ['of a training session is the whole distribution', 'train', {}, WHOLE_DISTRIBUTION],
    [
      'beside what was said',
      'train',
      { temperature: 0, top_p: 0.5, seed: 3 },
      { ...WHOLE_DISTRIBUTION, temperature: 0, top_p: 0.5, seed: 3 },
    ],
    ['of an evaluation is left to the engine', 'eval', { top_k: 5 }, { top_k: 5 }],
  ] as const)('%s', (_name, tier, parameters, sent) => {
    const { request: prepared, diagnostics } = prepare(request(parameters), profileOf('m'), tier)
    expect([prepared.parameters, diagnostics]).toEqual([sent, []])
  })

  it('shapes nothing, by the words of whoever flags what does', () => {
    expect(readParameters(WHOLE_DISTRIBUTION, 'train', {})).toEqual({ ok: true, parameters: WHOLE_DISTRIBUTION, diagnostics: [] })
  })
})

describe('a budget', () => {
  const limited = profileOf('m', { pattern: 'm', profile: { max_output_tokens: { default: 50, limit: 100 } } })
  it.each([
    [undefined, 50, []],
    [80, 80, []],
    [100, 100, []],
    [101, 100, [{ code: 'max-tokens-clamped', detail: '101 to 100' }]],
  ])('of %s becomes %i', (asked, sent, diagnostics) => {
    const prepared = prepare(request(asked === undefined ? {} : { max_tokens: asked }), limited, 'eval')
    expect([prepared.request.parameters.max_tokens, prepared.diagnostics]).toEqual([sent, diagnostics])
  })

  it('stays as it is for a model without limits', () => {
    const asked = request({ max_tokens: 10 ** 6 })
    expect(prepare(asked, profileOf('m'), 'eval')).toEqual({ request: asked, diagnostics: [] })
  })
})

describe('stops', () => {
  const stopping = profileOf('m', { pattern: 'm', profile: { stop: ['<e>'], stop_token_ids: [7], cut: ['<e>', '<f>'] } })
  it.each([
    [{}, ['<e>'], [7]],
    [{ stop: 'x' }, ['x', '<e>'], [7]],
    [{ stop: ['x', '<e>'], stop_token_ids: [7, 8] }, ['x', '<e>'], [7, 8]],
  ])('are always sent, beside those of %j', (parameters, stop, ids) => {
    expect(prepare(request(parameters), stopping, 'eval').request.parameters).toEqual({ stop, stop_token_ids: ids })
  })

  const answer = (content: string | null) => ({
    message: { role: 'assistant' as const, content },
    finishReason: 'stop' as const,
    usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null, reasoningTokens: null },
    stopSequence: null,
    logprobs: null,
  })
  it.each([
    ['Hi.<e>', 'Hi.', 1],
    ['Hi.<f>', 'Hi.', 1],
    ['<e>Hi.', '<e>Hi.', 0],
    [null, null, 0],
  ])('that an engine leaves are cut: %j', (content, left, told) => {
    const cut = freed(answer(content), stopping)
    expect([cut.answer.message.content, cut.diagnostics.length]).toEqual([left, told])
  })
})

/** The rules of Qwen3.5's template that matter here: one system message, at the head, and earlier thoughts shown after the last question only. */
function render(messages: readonly ChatMessage[]): string {
  const lastQuestion = messages.findLastIndex((message) => message.role === 'user')
  let text = ''
  for (const [index, message] of messages.entries()) {
    const calls = message.role === 'assistant' ? (message.tool_calls ?? []).map((call) => `<call ${call.id}>`).join('') : ''
    if (message.role === 'system' && index > 0) throw new Error('System message must be at the beginning.')
    if (message.role === 'tool' && !['tool', 'assistant'].includes(messages[index - 1]?.role ?? ''))
      throw new Error('a result without its call')
    const thought = message.role === 'assistant' && index > lastQuestion ? '<think></think>' : ''
    text += `<${message.role}>${thought}${JSON.stringify(message.content)}${calls}<end>`
  }
  return text
}
const prompt = (messages: readonly ChatMessage[]): string => `${render(foldSystemMessages(messages).messages)}<assistant><think></think>`

describe('system messages of a template that takes one', () => {
  const system = (content: string): ChatMessage => ({ role: 'system', content })
  const calls = (...ids: string[]): ChatMessage => ({
    role: 'assistant',
    content: null,
    tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'Bash', arguments: '{}' } })),
  })
  const result = (id: string, content = id): ChatMessage => ({ role: 'tool', tool_call_id: id, content })
  const user: ChatMessage = { role: 'user', content: 'task' }
  const reminder = (text: string) => `<system-reminder>\n${text}\n</system-reminder>`

  it('TI-02 are kept where they stand, in the turn before them, and turn 2 extends turn 1', () => {
    const one = [system('S'), user, system('<total_tokens>1000 left</total_tokens>')]
    const two = [...one, calls('toolu_1'), result('toolu_1', 'a.txt'), system('<total_tokens>900 left</total_tokens>')]
    expect(foldSystemMessages(two)).toEqual({
      folded: 2,
      messages: [
        system('S'),
        { role: 'user', content: `task\n\n${reminder('<total_tokens>1000 left</total_tokens>')}` },
        calls('toolu_1'),
        result('toolu_1', `a.txt\n\n${reminder('<total_tokens>900 left</total_tokens>')}`),
      ],
    })
    expect(prompt(two).startsWith(prompt(one))).toBe(true)
  })

  it('TI-02 between a call and its results go behind the last of them, in their order', () => {
    const between = [user, calls('a', 'b'), system('1'), result('a'), system('2'), system('3'), result('b')]
    expect(foldSystemMessages(between).messages).toEqual([
      user,
      calls('a', 'b'),
      result('a'),
      result('b', `b\n\n${reminder('1')}\n\n${reminder('2')}\n\n${reminder('3')}`),
    ])
  })

  it('after an answer become a turn of their own', () => {
    const answer: ChatMessage = { role: 'assistant', content: 'Done.' }
    expect(foldSystemMessages([user, answer, system('X'), system('Y')]).messages).toEqual([
      user,
      answer,
      { role: 'user', content: `${reminder('X')}\n\n${reminder('Y')}` },
    ])
  })

  it('never get behind a turn that came instead of the results', () => {
    const lost = [user, calls('a', 'b'), result('a'), system('X'), { role: 'user', content: 'stop' } as const]
    expect(foldSystemMessages(lost).messages).toEqual([user, calls('a', 'b'), result('a', `a\n\n${reminder('X')}`), lost[4]])
  })

  it('stay where they were shown when a result comes after all', () => {
    const lost = [user, calls('a', 'b'), result('a'), { role: 'user', content: 'stop' } as const, system('X')]
    const before = foldSystemMessages(lost).messages
    expect(before[3]).toEqual({ role: 'user', content: `stop\n\n${reminder('X')}` })
    expect(foldSystemMessages([...lost, result('b')]).messages).toEqual([...before, result('b')])
  })

  it('between a call and its result are shown also while the result is still to come', () => {
    expect(foldSystemMessages([user, calls('a'), system('X')]).messages).toEqual([
      user,
      calls('a'),
      { role: 'user', content: reminder('X') },
    ])
  })

  it('at the head are one', () => {
    expect(foldSystemMessages([system('A'), system('B'), user, system('C')]).messages[0]).toEqual(system('A\n\nB'))
  })

  it('join images as a part among others', () => {
    const image = { type: 'image_url', image_url: { url: 'data:,x' } }
    expect(foldSystemMessages([{ role: 'user', content: [image] }, system('X')]).messages).toEqual([
      {
        role: 'user',
        content: [image, { type: 'text', text: '\n\n' }, { type: 'text', text: reminder('X') }],
      },
    ])
  })

  it('leave a conversation that has only the first one untouched', () => {
    const plain = [system('S'), user, calls('a'), result('a')]
    expect(foldSystemMessages(plain)).toEqual({ messages: plain, folded: 0 })
    expect(prepare(request({}, plain), profileOf('qwen3.5'), 'eval').diagnostics).toEqual([])
  })

  it('stay where they are for every other model', () => {
    const asked = request({}, [system('S'), user, system('X')])
    expect(prepare(asked, profileOf('qwen3-8b'), 'eval').request.messages).toEqual(asked.messages)
    const folded = prepare(asked, profileOf('qwen3.5-4b'), 'eval')
    expect(folded.diagnostics).toEqual([{ code: 'system-folded', detail: '1 system messages after the first' }])
  })

  /** A session of one agent: what it adds before each call of the model. */
  const told = fc.array(fc.constantFrom('x', 'y'), { maxLength: 2 }).map((texts) => texts.map(system))
  const turn = fc.record({ asks: fc.integer({ min: 0, max: 2 }), between: told, after: told })
  it('let every later prompt extend the one before and its answer, whatever stands between', () => {
    fc.assert(
      fc.property(told, fc.array(turn, { minLength: 1, maxLength: 5 }), (before, turns) => {
        let messages: readonly ChatMessage[] = [system('S'), user, ...before]
        for (const [index, { asks, between, after }] of turns.entries()) {
          const ids = Array.from({ length: asks }, (_, call) => `${index}-${call}`)
          if (ids.length === 0) continue
          const sampled = render([calls(...ids)]).replace('<assistant><think></think>', '')
          const next: readonly ChatMessage[] = [...messages, calls(...ids), ...between, ...ids.map((id) => result(id)), ...after]
          expect(prompt(next).startsWith(prompt(messages) + sampled)).toBe(true)
          messages = next
        }
      }),
    )
  })
})
