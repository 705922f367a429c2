import { copyFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LlamaContextSequence } from 'node-llama-cpp'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { makeModel } from '../../examples/tiny-policy/make.ts'
import { openModel } from '../../src/engine/embedded/llama.ts'
import { ContextFullError, ModelClosedError, SequencesTakenError } from '../../src/engine/embedded/llama-errors.ts'
import type { GenerationEvent, GenerationOrder, LoadedModel, Sampling } from '../../src/engine/embedded/model.ts'

const NEVER = new AbortController().signal
const UNTOUCHED: Sampling = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 11 }
const SEQUENCES = 8
const CONTEXT_TOKENS = 1024
/** A prompt that takes several steps. */
const LONG = Array.from({ length: 700 }, (_, at) => (at * 37 + 5) % 500)

type Token = Extract<GenerationEvent, { type: 'drawn' }>
type Generated = { readonly cachedTokens: number; readonly tokens: readonly Token[]; readonly ids: readonly number[] }

let folder = ''
let path = ''
let model: LoadedModel

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'polar-llama-'))
  path = join(folder, 'random.gguf')
  writeFileSync(path, makeModel({ seed: 5, merges: 256, width: 32, layers: 2, heads: 2, keyHeads: 1, headWidth: 16, feedForward: 64 }))
  model = await open()
})
afterAll(async () => {
  await model.close()
  rmSync(folder, { recursive: true, force: true })
})

async function open(sequences = SEQUENCES): Promise<LoadedModel> {
  const result = await openModel({ path, contextTokens: CONTEXT_TOKENS, sequences, threads: 1 })
  if (!result.ok) throw new Error(result.error)
  return result.model
}

function order(promptIds: readonly number[], change: Partial<Omit<GenerationOrder, 'sampling'>> & Partial<Sampling> = {}): GenerationOrder {
  const { logprobMode = 'raw', alternatives = 0, promptIds: _, ...sampling } = change
  return { promptIds, sampling: { ...UNTOUCHED, ...sampling }, logprobMode, alternatives }
}

async function generate(asked: GenerationOrder, count: number, from = model): Promise<Generated> {
  let cachedTokens = -1
  const tokens: Token[] = []
  for await (const event of from.generate(asked, NEVER)) {
    if (event.type === 'started') cachedTokens = event.cachedTokens
    else if (tokens.push(event) === count) break
  }
  return { cachedTokens, tokens, ids: tokens.map(({ id }) => id) }
}

/** What is held grows with each piece of a prompt; before that it may shrink, as what another prompt left is erased. */
async function pieceRead(from: LoadedModel): Promise<void> {
  for (let least = from.usedTokens(); from.usedTokens() <= least; least = Math.min(least, from.usedTokens())) {
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** No two prompts of the suite begin alike unless they mean to. */
let prompts = 0
function freshPrompt(length: number): readonly number[] {
  prompts += 1
  return Array.from({ length }, (_, at) => (at * 13 + prompts * 29) % 500)
}

/** The model's own logprob of each of these after what stands before it: one token at a time, each in the state that the last one left. */
async function rescore(prompt: readonly number[], ids: readonly number[]): Promise<readonly number[]> {
  const logprobs: number[] = []
  for (const [at, id] of ids.entries()) {
    const { tokens } = await generate(order([...prompt, ...ids.slice(0, at)], { alternatives: model.vocabulary.size }), 1)
    logprobs.push(tokens[0]?.alternatives.find((each) => each.id === id)?.logprob ?? Number.NaN)
  }
  return logprobs
}

function expectClose(actual: readonly number[], wanted: readonly number[]): void {
  expect(actual).toHaveLength(wanted.length)
  for (const [at, logprob] of actual.entries()) expect(Math.abs(logprob - (wanted[at] ?? Number.NaN))).toBeLessThanOrEqual(1e-4)
}

const SAMPLINGS: readonly (readonly [string, Partial<Sampling>])[] = [
  ['untouched', {}],
  ['greedy', { temperature: 0 }],
  ['at temperature 1.6', { temperature: 1.6 }],
  ['truncated', { temperature: 0.8, topK: 40, topP: 0.9, minP: 0.01 }],
]

describe('what a model draws', () => {
  it.each(SAMPLINGS)('is the same for the same seed, %s', async (_, sampling) => {
    const prompt = freshPrompt(20)
    const first = await generate(order(prompt, sampling), 24)
    const again = await generate(order(prompt, sampling), 24)
    expect(again.ids).toEqual(first.ids)
    if (sampling.temperature !== 0) expect((await generate(order(prompt, { ...sampling, seed: 12 }), 24)).ids).not.toEqual(first.ids)
  })

  it.each(SAMPLINGS)('does not change with what is shown beside it, %s', async (_, sampling) => {
    const prompt = freshPrompt(20)
    const bare = await generate(order(prompt, sampling), 16)
    const shown = await generate(order(prompt, { ...sampling, alternatives: 3, logprobMode: 'processed' }), 16)
    expect(shown.ids).toEqual(bare.ids)
    expect(shown.tokens.every(({ alternatives }) => alternatives.length > 0)).toBe(true)
  })

  it.each(SAMPLINGS)('has the raw logprob that a second pass over the same tokens finds, %s', async (_, sampling) => {
    const prompt = freshPrompt(20)
    const { tokens, ids } = await generate(order(prompt, sampling), 12)
    expectClose(
      tokens.map(({ logprob }) => logprob),
      await rescore(prompt, ids),
    )
  })

  it('has processed logprobs of the distribution it was drawn from', async () => {
    const { tokens } = await generate(order(freshPrompt(20), { topK: 2, alternatives: 10, logprobMode: 'processed' }), 8)
    for (const token of tokens) {
      expect(token.alternatives).toHaveLength(2)
      expect(token.alternatives.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)).toBeCloseTo(1, 9)
      expect(token.alternatives.find(({ id }) => id === token.id)?.logprob).toBe(token.logprob)
    }
  })

  it('goes on after an end token', async () => {
    const end = model.vocabulary.endTokenId
    const { ids } = await generate(order([...freshPrompt(5), end, end]), 40)
    expect(ids).toHaveLength(40)
  })
})

describe('what is kept of a generation', () => {
  it.each(SAMPLINGS)('makes a prompt that begins alike neither other ids nor other logprobs, %s', async (_, sampling) => {
    const fresh = await open()
    const start = freshPrompt(40)
    const first = await generate(order(start, sampling), 20)
    // It parts from what is held before that ends.
    const prompt = [...start, ...first.ids.slice(0, 10), 7, 8, 9]
    const reused = await generate(order(prompt, sampling), 20)
    const anew = await generate(order(prompt, sampling), 20, fresh)
    await fresh.close()
    expect([reused.cachedTokens, anew.cachedTokens]).toEqual([start.length + 10, 0])
    expect(reused.ids).toEqual(anew.ids)
    expectClose(
      reused.tokens.map(({ logprob }) => logprob),
      anew.tokens.map(({ logprob }) => logprob),
    )
  })

  it('is all but the last token of a prompt that is held whole', async () => {
    const prompt = freshPrompt(30)
    await generate(order(prompt), 10)
    expect((await generate(order(prompt), 1)).cachedTokens).toBe(29)
    expect((await generate(order(prompt.slice(0, 25)), 1)).cachedTokens).toBe(24)
  })

  it('is counted while the generation goes on', async () => {
    const alone = await open()
    const events = alone.generate(order(freshPrompt(30)), NEVER)
    for (let event = 0; event < 11; event += 1) await events.next()
    // The last token was drawn, and never read.
    expect(alone.usedTokens()).toBe(39)
    await events.return()
    expect(alone.usedTokens()).toBe(0)
    await alone.close()
  })
})

describe('generations that go on at once', () => {
  // The library samples on several threads: without an order of ours they exchange sequences' logits in about every tenth of these rounds.
  it.each([1, 2, 3, 4, 5, 6, 7, 8])('draw what each would draw alone, round %d', async () => {
    const orders = Array.from({ length: SEQUENCES }, (_, at) =>
      order(freshPrompt(at % 2 === 0 ? 10 + at * 40 : 15), { ...SAMPLINGS[at % SAMPLINGS.length]?.[1], seed: at }),
    )
    const together = await Promise.all(orders.map((each) => generate(each, 24)))
    for (const [at, each] of orders.entries()) {
      const alone = await generate(each, 24)
      expect(together[at]?.ids).toEqual(alone.ids)
      expectClose(
        together[at]?.tokens.map(({ logprob }) => logprob) ?? [],
        alone.tokens.map(({ logprob }) => logprob),
      )
    }
  })

  it('all go on while a long prompt is read', async () => {
    const running = model.generate(order(freshPrompt(5)), NEVER)
    await running.next()
    const reading = generate(order(LONG), 1)
    let drawn = 0
    let isRead = false
    void reading.then(() => {
      isRead = true
    })
    while (!isRead) {
      await running.next()
      drawn += 1
    }
    await running.return()
    // A token with each piece of the prompt.
    expect(drawn).toBeGreaterThanOrEqual(3)
  })

  it('are as many as there are sequences', async () => {
    const all = Array.from({ length: SEQUENCES }, () => model.generate(order(freshPrompt(5)), NEVER))
    await Promise.all(all.map((each) => each.next()))
    await expect(model.generate(order(freshPrompt(5)), NEVER).next()).rejects.toThrow(SequencesTakenError)
    await Promise.all(all.map((each) => each.return()))
    expect((await generate(order(freshPrompt(5)), 1)).ids).toHaveLength(1)
  })
})

describe('a generation that is ended', () => {
  type Events = AsyncGenerator<GenerationEvent, void, void>
  /** Leads a generation of a long prompt there; what is pending then must settle when it is ended. */
  type Phase = (events: Events) => Promise<{ readonly pending: Promise<IteratorResult<GenerationEvent, void>> | null }>

  const drawing = async (events: Events): Promise<void> => {
    await events.next()
    await events.next()
  }
  const PHASES: readonly (readonly [string, Phase])[] = [
    ['before it began', async () => ({ pending: null })],
    ['while it waits for its first step', async (events) => ({ pending: events.next() })],
    [
      'while its prompt is read',
      async (events) => {
        const pending = events.next()
        await pieceRead(model)
        return { pending }
      },
    ],
    [
      'while nobody asks for a token',
      async (events) => {
        await drawing(events)
        return { pending: null }
      },
    ],
    [
      'while a token is drawn',
      async (events) => {
        await drawing(events)
        return { pending: events.next() }
      },
    ],
  ]

  /** As many as there are places begin: one that was kept would be missed. */
  async function expectEveryPlaceFree(): Promise<void> {
    const all = Array.from({ length: SEQUENCES }, () => model.generate(order(freshPrompt(5)), NEVER))
    const first = await Promise.all(all.map((each) => each.next()))
    expect(first.every(({ value }) => value?.type === 'started')).toBe(true)
    await Promise.all(all.map((each) => each.return()))
  }

  it.each(PHASES)('by its caller %s gives its place back, and what was pending is done', async (_, lead) => {
    const events = model.generate(order([prompts++ % 500, ...LONG]), NEVER)
    const { pending } = await lead(events)
    const returned = events.return()
    expect(await pending).toEqual(pending === null ? null : { done: true, value: undefined })
    expect(await returned).toEqual({ done: true, value: undefined })
    expect(await events.next()).toEqual({ done: true, value: undefined })
    await expectEveryPlaceFree()
  })

  it.each(PHASES)('by its signal %s gives its place back, and throws the reason', async (_, lead) => {
    const [leaver, reason] = [new AbortController(), new Error('left')]
    const events = model.generate(order([prompts++ % 500, ...LONG]), leaver.signal)
    const { pending } = await lead(events)
    leaver.abort(reason)
    if (pending !== null) await expect(pending).rejects.toBe(reason)
    await expectEveryPlaceFree()
    await expect(events.next()).rejects.toBe(reason)
  })

  it('while its prompt is read is ended before the rest of it is read', async () => {
    const fresh = await open()
    const leaver = new AbortController()
    const pending = fresh.generate(order(LONG), leaver.signal).next()
    await pieceRead(fresh)
    leaver.abort(new Error('left'))
    await expect(pending).rejects.toThrow('left')
    expect((await generate(order(LONG), 1, fresh)).cachedTokens).toBeLessThan(LONG.length - 1)
    await fresh.close()
  })

  it('leaves a state that later prompts may use', async () => {
    const prompt = [prompts++ % 500, ...LONG]
    const leaver = new AbortController()
    const events = model.generate(order(prompt), leaver.signal)
    const pending = events.next()
    await pieceRead(model)
    leaver.abort(new Error('left'))
    await expect(pending).rejects.toThrow('left')
    const after = await generate(order(prompt), 8)
    const fresh = await open()
    expect(after.cachedTokens).toBeGreaterThan(0)
    expect(after.ids).toEqual((await generate(order(prompt), 8, fresh)).ids)
    await fresh.close()
  })
})

describe('a generation that breaks', () => {
  const sequences = LlamaContextSequence.prototype
  const { eraseContextTokenRanges: erase, evaluateWithoutGeneratingNewTokens: evaluate } = sequences

  it.each<[string, () => void]>([
    [
      'when its prompt has been read in part',
      () =>
        vi.spyOn(sequences, 'evaluateWithoutGeneratingNewTokens').mockImplementationOnce(async function (
          this: LlamaContextSequence,
          tokens,
        ) {
          await evaluate.call(this, tokens)
          throw new Error('the library broke')
        }),
    ],
    [
      'when what another left has been erased',
      () =>
        vi.spyOn(sequences, 'eraseContextTokenRanges').mockImplementationOnce(async function (this: LlamaContextSequence, ranges) {
          await erase.call(this, ranges)
          throw new Error('the library broke')
        }),
    ],
  ])('%s leaves nothing that a later one would take for its own', async (_, breakIt) => {
    const alone = await open(1)
    const prompt = freshPrompt(40)
    const before = await generate(order(prompt), 8, alone)
    breakIt()
    await expect(generate(order(LONG), 1, alone)).rejects.toThrow('the library broke')
    const after = await generate(order(prompt), 8, alone)
    expect([after.cachedTokens, after.ids]).toEqual([0, before.ids])
    await alone.close()
  })
})

describe('a context', () => {
  it('that is full throws after the last token there is room for', async () => {
    const events = model.generate(order(freshPrompt(CONTEXT_TOKENS - 3)), NEVER)
    const types: (string | undefined)[] = []
    for (let step = 0; step < 4; step += 1) types.push((await events.next()).value?.type)
    expect(types).toEqual(['started', 'drawn', 'drawn', 'drawn'])
    await expect(events.next()).rejects.toThrow(ContextFullError)
    expect((await generate(order(freshPrompt(5)), 1)).ids).toHaveLength(1)
  })

  it.each([
    ['fills it', CONTEXT_TOKENS, ContextFullError],
    ['is longer than it', CONTEXT_TOKENS + 500, ContextFullError],
    ['is empty', 0, RangeError],
  ])('refuses a prompt that %s', async (_, length, error) => {
    await expect(model.generate(order(freshPrompt(length)), NEVER).next()).rejects.toThrow(error)
  })

  it.each([-1, 0.5, 1e9, Number.NaN])('refuses the token %d', async (id) => {
    await expect(model.generate(order([1, id]), NEVER).next()).rejects.toThrow(RangeError)
  })
})

describe('a vocabulary', () => {
  it.each([
    ['', 0],
    ['<|im_end|>', 1],
    ['<|im_start|>user\nHi<|im_end|>\n', null],
    [' a space, Zürich, \u{1F600} and <tool_call>', null],
  ])('writes %j as ids and back, with nothing added', (text, count) => {
    const ids = model.vocabulary.encode(text)
    if (count !== null) expect(ids).toHaveLength(count)
    expect(model.vocabulary.decode(ids)).toBe(text)
  })

  it('tells control tokens, ends and text apart', () => {
    const one = (text: string): number => model.vocabulary.encode(text)[0] ?? -1
    const facts = ['<|im_end|>', '<|im_start|>', '<tool_call>', '<think>', 'a'].map((text) => [
      text,
      model.vocabulary.isSpecial(one(text)),
      model.vocabulary.isEnd(one(text)),
    ])
    expect(facts).toEqual([
      ['<|im_end|>', true, true],
      ['<|im_start|>', true, false],
      ['<tool_call>', false, false],
      ['<think>', false, false],
      ['a', false, false],
    ])
    expect([model.vocabulary.endTokenId, model.vocabulary.startTokenId]).toEqual([one('<|im_end|>'), one('<|endoftext|>')])
  })

  it('writes bytes that are no whole character as U+FFFD', () => {
    const ids = model.vocabulary.encode('\u{1F600}')
    expect(model.vocabulary.decode(ids.slice(0, 1))).toBe('\uFFFD')
  })
})

describe('a model whose file is written over', () => {
  it('goes on with the weights it has', async () => {
    const copy = join(folder, 'copy.gguf')
    copyFileSync(path, copy)
    const result = await openModel({ path: copy, contextTokens: CONTEXT_TOKENS, sequences: 1, threads: 1 })
    if (!result.ok) throw new Error(result.error)
    const [first, second] = [freshPrompt(20), freshPrompt(20)]
    const before = await generate(order(first), 10, result.model)
    truncateSync(copy, 0)
    expect((await generate(order(first), 10, result.model)).ids).toEqual(before.ids)
    expect((await generate(order(second), 10, result.model)).ids).toEqual((await generate(order(second), 10)).ids)
    await result.model.close()
  })
})

describe('a model that is closed', () => {
  it('ends what goes on, in every phase, and can be closed again', async () => {
    const closing = await open()
    const all = Array.from({ length: 3 }, () => closing.generate(order(LONG), NEVER))
    const [idle, drawing, reading] = all
    await idle?.next()
    await drawing?.next()
    const pending = [drawing?.next(), reading?.next()].map((each) => expect(each).rejects.toThrow(ModelClosedError))
    const closed = closing.close()
    expect(closing.close()).toBe(closed)
    await Promise.all([...pending, closed])
    await expect(idle?.next()).rejects.toThrow(ModelClosedError)
    await expect(closing.generate(order([1]), NEVER).next()).rejects.toThrow(ModelClosedError)
  })

  it('while another one loads, and one that generates, disturbs neither', async () => {
    const [first, running] = [await open(), model.generate(order(freshPrompt(9)), NEVER)]
    const [second] = await Promise.all([open(), first.close(), running.next()])
    expect((await generate(order(freshPrompt(5)), 3, second)).ids).toHaveLength(3)
    expect((await running.next()).value?.type).toBe('drawn')
    await running.return()
    await second.close()
  })
})
