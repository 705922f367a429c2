// What a probe finds out about a replica: whether it serves, what it may be used for, and what its logprobs mean.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { llamacpp } from '../../src/proxy/engines/llamacpp.ts'
import { findLogprobMode } from '../../src/proxy/engines/logprob-mode.ts'
import { probe } from '../../src/proxy/engines/probe.ts'
import type { Connection } from '../../src/proxy/engines/transport.ts'
import { vllm } from '../../src/proxy/engines/vllm.ts'
import { WHOLE_DISTRIBUTION } from '../../src/proxy/parameters.ts'
import { openProfiles } from '../../src/proxy/profiles/profile.ts'
import { type Completion, completionBody, PROBED } from '../lib/proxy-fixture.ts'

const respond = (body: unknown, status = 200) => ({
  status,
  headers: {},
  body: new TextEncoder().encode(typeof body === 'string' ? body : JSON.stringify(body)),
})

describe('a probe', () => {
  const chat = '/v1/chat/completions'
  const completion = (changes: Completion = {}) => respond(completionBody({ ...PROBED, ...changes }))
  const connection = (routes: Record<string, ReturnType<typeof respond> | 'refused'>, asked: unknown[] = []): Connection => ({
    async send({ path, body }) {
      if (body !== null) asked.push(JSON.parse(body))
      const response = routes[path] ?? respond('', 404)
      return response === 'refused' ? { ok: false, error: 'refused', detail: 'ECONNREFUSED' } : { ok: true, response }
    },
    close: async () => {},
  })
  const models = respond({
    data: [
      { id: 'other', max_model_len: 1 },
      { id: 'policy', max_model_len: 8_192 },
    ],
  })
  const never = new AbortController().signal
  const POLICY = { model: 'policy', profileOf: openProfiles([]) }
  const ANY = { ...POLICY, model: '' }
  const NO_IDS = 'ids-missing: token_ids: not an array of token ids; is it a vllm server, and one that gives back token ids?'

  it.each([
    {
      given: 'ids and logprobs',
      routes: { '/health': respond(''), '/v1/models': models, [chat]: completion() },
      found: { type: 'serving', tier: 'train', maxModelLen: 8_192, logprobMode: 'raw', detail: null },
    },
    { given: 'a router without /health', routes: { [chat]: completion() }, found: { type: 'serving', tier: 'train', maxModelLen: null } },
    {
      given: 'a context that is none',
      routes: { '/v1/models': respond({ data: [{ id: 'policy', max_model_len: 0 }] }), [chat]: completion() },
      found: { type: 'serving', maxModelLen: null },
    },
    {
      given: 'the context of a llama.cpp slot',
      routes: { '/v1/models': respond({ data: [{ id: 'policy', meta: { n_ctx: 512, n_ctx_train: 9_999 } }] }), [chat]: completion() },
      found: { type: 'serving', maxModelLen: 512 },
    },
    {
      given: 'no ids',
      routes: { [chat]: completion({ ids: undefined }) },
      found: { type: 'serving', tier: 'eval', logprobMode: 'unknown', detail: NO_IDS },
    },
    { given: 'no logprobs', routes: { [chat]: completion({ logprobs: null }) }, found: { type: 'serving', tier: 'eval' } },
    {
      given: 'a budget that is not kept',
      routes: { [chat]: completion({ ids: [1, 2, 3], logprobs: [-1, -1, -1], usage: {} }) },
      found: { type: 'serving', tier: 'eval', detail: 'max_tokens 2 gave 3 tokens' },
    },
    {
      given: 'no alternatives',
      routes: { [chat]: completion({ alternatives: [] }) },
      found: { type: 'serving', tier: 'train', logprobMode: 'unknown' },
    },
    { given: 'nobody there', routes: { '/health': 'refused' as const }, found: { type: 'unusable', detail: '/health: ECONNREFUSED' } },
    {
      given: 'a server that breaks before it names its model',
      routes: { '/v1/models': 'refused' as const, [chat]: completion() },
      found: { type: 'unusable', detail: '/v1/models: ECONNREFUSED' },
    },
    {
      given: 'a model still loading',
      routes: { '/health': respond('', 503), [chat]: completion() },
      found: { type: 'unusable', detail: '/health answered 503' },
    },
    {
      given: 'another model',
      routes: { '/health': respond(''), [chat]: respond({ message: 'no such model' }, 404) },
      found: { type: 'unusable', detail: 'probe generation: 404 no such model; is it a vllm server?' },
    },
    {
      given: 'one that sleeps',
      routes: { '/is_sleeping': respond({ is_sleeping: true }), [chat]: completion() },
      found: { type: 'unusable', detail: 'the engine sleeps' },
    },
    {
      given: 'one that is awake',
      routes: { '/is_sleeping': respond({ is_sleeping: false }), [chat]: completion() },
      found: { type: 'serving', tier: 'train' },
    },
    { given: 'an engine that aborts', routes: { [chat]: completion({ finish: 'abort' }) }, found: { type: 'unusable' } },
  ])('finds $given', async ({ routes, found }) => {
    expect(await probe(vllm, connection(routes), POLICY, never)).toMatchObject(found)
  })

  it('asks as calls are asked, then at two temperatures for alternatives, and for few tokens', async () => {
    const asked: { max_tokens: number; temperature: number; top_logprobs: number }[] = []
    await probe(vllm, connection({ [chat]: completion() }, asked), POLICY, never)
    // What the engine would fill in by itself could cut off the alternatives that are compared.
    for (const body of asked) expect(body).toMatchObject({ ...WHOLE_DISTRIBUTION, temperature: body.temperature })
    expect(asked.map(({ max_tokens, temperature, top_logprobs }) => [max_tokens, temperature, top_logprobs])).toEqual([
      [2, 1, 0],
      [1, 1, 5],
      [1, 0.5, 5],
    ])
  })

  it('asks nothing of one that sleeps: a generation could be its end', async () => {
    const asked: unknown[] = []
    const routes = { '/is_sleeping': respond({ is_sleeping: true }), [chat]: completion() }
    await probe(vllm, connection(routes, asked), POLICY, never)
    expect(asked).toEqual([])
  })

  it('sends what is sent with every call to such a model', async () => {
    const asked: object[] = []
    const profileOf = openProfiles([{ pattern: 'policy', profile: { thinking: false, stop: ['<e>'], stop_token_ids: [7] } }])
    await probe(vllm, connection({ [chat]: completion() }, asked), { model: 'policy', profileOf }, never)
    expect(asked).toHaveLength(3)
    for (const body of asked)
      expect(body).toMatchObject({ chat_template_kwargs: { enable_thinking: false }, stop: ['<e>'], stop_token_ids: [7] })
  })

  it('finds out what an engine does not take of its model’s profile, before any call does', async () => {
    const profileOf = openProfiles([{ pattern: 'policy', profile: { stop_token_ids: [7] } }])
    const routes = { '/apply-template': respond({ prompt: 'P' }), '/tokenize': respond({ tokens: [1] }) }
    expect(await probe(llamacpp, connection(routes), { model: 'policy', profileOf }, never)).toEqual({
      type: 'unusable',
      detail: 'probe generation: 400 stop_token_ids: cannot be served by this inference server',
    })
  })

  it('takes the engine’s first model when the configuration names none', async () => {
    const asked: { model: string }[] = []
    const routes = connection({ '/v1/models': models, [chat]: completion() }, asked)
    expect(await probe(vllm, routes, ANY, never)).toMatchObject({ type: 'serving', model: 'other', maxModelLen: 1 })
    expect(new Set(asked.map(({ model }) => model))).toEqual(new Set(['other']))
  })

  it.each([
    [respond({ data: [] }), 'lists no model'],
    [respond({ error: 'Unauthorized' }, 401), 'answered 401'],
  ])('says what the list of models was when it is what counts: %#', async (list, found) => {
    expect(await probe(vllm, connection({ '/v1/models': list, [chat]: completion() }), ANY, never)).toEqual({
      type: 'unusable',
      detail: `/v1/models ${found}, and the configuration names none (model_served)`,
    })
    expect(await probe(vllm, connection({ '/v1/models': list, [chat]: completion() }), POLICY, never)).toMatchObject({ type: 'serving' })
  })
})

describe('the meaning of logprobs', () => {
  type Logits = Readonly<Record<string, number>>

  /** `logprobs.content` of one position, as an engine with these logits would give it, its normaliser and all. */
  const content = (logits: Logits, temperature: number, shown = 5): readonly unknown[] => {
    const scaled = Object.entries(logits).map(([token, logit]) => [token, logit / temperature] as const)
    const sum = Math.log(scaled.reduce((total, [, logit]) => total + Math.exp(logit), 0))
    const top = scaled.map(([token, logit]) => ({ token, logprob: logit - sum })).sort((a, b) => b.logprob - a.logprob)
    return [{ ...top[0], top_logprobs: top.slice(0, shown) }]
  }
  const engine = (mode: 'raw' | 'processed', prompts: readonly Logits[], asked: string[] = []) => {
    const seen: string[] = []
    return async (prompt: string, temperature: number) => {
      asked.push(prompt)
      if (!seen.includes(prompt)) seen.push(prompt)
      return content(prompts[seen.length - 1] ?? {}, mode === 'raw' ? 1 : temperature)
    }
  }

  it.each(['raw', 'processed'] as const)('is %s for every distribution with tokens apart', async (mode) => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.double({ min: -12, max: 12, noNaN: true }), { minLength: 2, maxLength: 30 }), async (drawn) => {
        const logits = Object.fromEntries([...drawn, 13, 12].map((logit, index) => [`t${index}`, logit]))
        expect(await findLogprobMode(engine(mode, [logits]))).toBe(mode)
      }),
    )
  })

  it.each(['raw', 'processed'] as const)('is asked with another prompt while tokens are too close (%s)', async (mode) => {
    const asked: string[] = []
    const even = { a: 1, b: 0.9, c: 1.1 }
    expect(await findLogprobMode(engine(mode, [even, even, { a: 3, b: 1 }], asked))).toBe(mode)
    expect(new Set(asked).size).toBe(3)
  })

  it('stays unknown when no prompt tells, and is not asked for ever', async () => {
    const asked: string[] = []
    expect(
      await findLogprobMode(
        engine(
          'raw',
          [
            { a: 1, b: 1 },
            { a: 1, b: 1 },
            { a: 1, b: 1 },
          ],
          asked,
        ),
      ),
    ).toBe('unknown')
    expect(asked).toHaveLength(6)
  })

  it.each([
    ['nothing comes back', async () => null],
    ['nothing is in it', async () => []],
    ['the tokens are not the same', async (_: string, t: number) => (t === 1 ? content({ a: 3, b: 1 }, t) : content({ c: 3, d: 1 }, t))],
    ['temperature does something else', async (_: string, t: number) => content(t === 1 ? { a: 3, b: 1 } : { a: 9, b: 1 }, 1)],
    ['temperature turns them round', async (_: string, t: number) => content(t === 1 ? { a: 3, b: 1 } : { a: 1, b: 3 }, 1)],
  ])('is unknown when %s', async (_given, ask) => {
    expect(await findLogprobMode(ask)).toBe('unknown')
  })

  it.each([
    ['raw', 1],
    ['processed', 2],
  ] as const)('is told by tokens that are shown at both temperatures (%s)', async (mode, scale) => {
    const entry = (token: string, logprob: number) => ({ token, bytes: null, logprob })
    const position = (of: number, rarest: string) => [
      { ...entry('a', -0.5 * of), top_logprobs: [entry('a', -0.5 * of), entry('b', -2.5 * of), entry(rarest, -9 * of)] },
    ]
    expect(await findLogprobMode(async (_, temperature) => (temperature === 1 ? position(1, 'c') : position(scale, 'd')))).toBe(mode)
  })

  it('looks past tokens that are shown alike and past the logarithm of nothing', async () => {
    const entry = (token: string, logprob: number, top: object[] = []) => ({ token, bytes: null, logprob, top_logprobs: top })
    const position = (scale: number) => [
      entry('a', -0.5 * scale, [
        entry('a', -0.5 * scale),
        entry('\uFFFD', -1 - scale),
        entry('\uFFFD', -7),
        entry('b', -2 * scale),
        entry('z', -9999),
      ]),
    ]
    expect(await findLogprobMode(async (_, temperature) => position(1 / temperature))).toBe('processed')
    expect(await findLogprobMode(async () => position(1))).toBe('raw')
  })
})
