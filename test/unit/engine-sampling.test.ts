import { beforeAll, describe, expect, it } from 'vitest'
import type { Answer } from '../../src/engine/scripted/answers.ts'
import { cutGeneration, FAULT_NAMES, openFaultDesk } from '../../src/engine/scripted/faults.ts'
import { loadQwen, type Qwen } from '../../src/engine/scripted/qwen.ts'
import { openRequestLog } from '../../src/engine/scripted/request-log.ts'
import { type SamplingRequest, sampleChoice } from '../../src/engine/scripted/sampling.ts'
import { answerDeltas } from '../../src/engine/wire/deltas.ts'
import { type GeneratedChoice, textOf } from '../../src/engine/wire/generation.ts'

let qwen: Qwen
beforeAll(async () => {
  qwen = await loadQwen()
})

const END = 151_645
const LONG = '<think>\nHm, é 🤗.\n</think>\n\nGo 🤗 on.\n<tool_call>\n{"name": "bash", "arguments": {"command": "echo 日本"}}\n</tool_call>'

function sample(text: string, changes: Partial<SamplingRequest> = {}, finish: Answer['finish'] = 'stop'): GeneratedChoice {
  const request: SamplingRequest = {
    index: 0,
    maxTokens: 1000,
    stops: [],
    stopTokenIds: [],
    temperature: 1,
    topLogprobs: 0,
    parsesTools: true,
    logprobMode: 'raw',
    seed: 's',
    promptSeed: 'p',
    toolCallPrefix: 'call_',
    begun: [],
    ...changes,
  }
  return sampleChoice(qwen, { text, finish, ttftMs: null, msPerToken: null, variant: null }, request)
}
const ids = (choice: GeneratedChoice) => choice.tokens.map((token) => token.id)
const content = (choice: GeneratedChoice) => textOf(choice.parts, 'content')

describe('sampling an answer', () => {
  it('is the encoded text and the end token', () => {
    const choice = sample(LONG)
    expect(ids(choice)).toEqual([...qwen.encode(LONG), END])
    expect([choice.finish, content(choice)]).toEqual(['stop', 'Go 🤗 on.'])
  })

  it.each(['length', 'abort'] as const)('has no end token when it ends by %s', (finish) => {
    const choice = sample('Hello there.', {}, finish)
    expect([ids(choice), choice.finish]).toEqual([qwen.encode('Hello there.'), finish])
  })

  it('is cut at max_tokens: no end token, finish length', () => {
    const whole = qwen.encode('One two three four.')
    const fits = sample('One two three four.', { maxTokens: whole.length + 1 })
    const cut = sample('One two three four.', { maxTokens: whole.length })
    expect([ids(fits), fits.finish]).toEqual([[...whole, END], 'stop'])
    expect([ids(cut), cut.finish, content(cut)]).toEqual([whole, 'length', 'One two three four.'])
    expect(ids(sample('One two three four.', { maxTokens: 2 }))).toEqual(whole.slice(0, 2))
  })

  it('shows no half characters when it is cut inside one', () => {
    const choice = sample(' 🤗', { maxTokens: 1 })
    expect(content(choice)).toBe(' ')
    expect(choice.tokens[0]?.text).toBe(' \uFFFD')
  })

  it('hides a stop string and keeps the ids that spelt it', () => {
    const choice = sample('One two STOP three', { stops: ['never', 'STOP'] })
    expect([content(choice), choice.finish, choice.matchedStop]).toEqual(['One two ', 'stop', 'STOP'])
    expect(qwen.decode(ids(choice))).toBe('One two STOP')
  })
})

describe('a stop token', () => {
  const second = () => qwen.encode('One two three.')[1]!

  it('ends the answer, stays sampled, and is not part of the text', () => {
    const id = second()
    const choice = sample('One two three.', { stopTokenIds: [id] })
    expect([ids(choice), content(choice), choice.finish, choice.matchedStop]).toEqual([
      qwen.encode('One two three.').slice(0, 2),
      'One',
      'stop',
      id,
    ])
  })

  it('is not what the end token matches', () => {
    expect(sample('One.', { stopTokenIds: [END] }).matchedStop).toBeNull()
  })

  it('does not stop an answer that is cut before it', () => {
    expect(sample('One two three.', { stopTokenIds: [second()], maxTokens: 1 }).finish).toBe('length')
  })
})

describe('logprobs', () => {
  const values = (changes: Partial<SamplingRequest>) => sample(LONG.repeat(20), changes).logprobs

  it('are finite float32 numbers below 0, one per token', () => {
    const choice = sample(LONG.repeat(20))
    expect(choice.logprobs).toHaveLength(choice.tokens.length)
    for (const logprob of choice.logprobs) {
      expect(Number.isFinite(logprob)).toBe(true)
      expect(logprob).toBeLessThan(0)
      expect(Math.fround(logprob ?? 0)).toBe(logprob)
    }
  })

  it('are the same under the same seed, others under another', () => {
    expect(values({ seed: 'a' })).toEqual(values({ seed: 'a' }))
    expect(values({ seed: 'a' })).not.toEqual(values({ seed: 'b' }))
  })

  it('ignore temperature when raw', () => {
    expect(values({ temperature: 0.5 })).toEqual(values({ temperature: 1 }))
  })

  it('follow temperature when processed: colder is surer of a likely token, greedy is as at 1', () => {
    const at = (temperature: number) => values({ temperature, logprobMode: 'processed' })
    expect(at(1)).toEqual(values({ temperature: 1 }))
    expect(at(0)).toEqual(at(1))
    const [cold, warm] = [at(0.5), at(1)]
    const likely = warm.flatMap((logprob, position) => {
      const isLikely = (logprob ?? 0) > Math.log(0.5) && (logprob ?? 0) < -1e-3
      return isLikely ? [(cold[position] ?? 0) > (logprob ?? 0)] : []
    })
    expect(likely.length).toBeGreaterThan(100)
    expect(likely.every(Boolean)).toBe(true)
  })

  it('come with as many alternatives as asked, the sampled token first, then others, the likeliest first', () => {
    const choice = sample('Hi there.', { topLogprobs: 4 })
    choice.tokens.forEach((token, position) => {
      const [first, ...others] = choice.alternatives[position] ?? []
      expect(first).toEqual({ id: token.id, text: token.text, logprob: choice.logprobs[position] })
      expect(new Set([token.id, ...others.map((each) => each.id)]).size).toBe(4)
      expect(others.map((each) => each.logprob)).toEqual(others.map((each) => each.logprob).sort((left, right) => right - left))
    })
  })

  it('have alternatives that other answers to the prompt have too, as far apart', () => {
    const first = (text: string) => sample(text, { topLogprobs: 5, seed: text }).alternatives[0]?.slice(1) ?? []
    const [one, other] = [first('Hi there.'), first('No.')]
    const gaps = (list: typeof one) => list.map(({ logprob }) => logprob - (list[0]?.logprob ?? 0))
    expect(one.map(({ id }) => id)).toEqual(other.map(({ id }) => id))
    gaps(one).forEach((gap, rank) => {
      expect(gap).toBeCloseTo(gaps(other)[rank] ?? 0, 4)
    })
  })

  it.each(['raw', 'processed'] as const)('are those of one distribution at any temperature, %s', (logprobMode) => {
    for (const temperature of [0.3, 1, 2]) {
      const choice = sample('Hi there, you.', { temperature, logprobMode, topLogprobs: 60 })
      for (const alternatives of choice.alternatives) {
        expect(alternatives.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)).toBeCloseTo(1, 4)
      }
    }
  })

  it.each([
    ['raw', 1],
    ['processed', 2],
  ] as const)('keep the distance of two tokens times what halving the temperature does to it: %s %i', (logprobMode, times) => {
    const distances = (temperature: number) =>
      sample('Hi there, you.', { temperature, logprobMode, topLogprobs: 2 }).alternatives.map(
        ([a, b]) => (a?.logprob ?? 0) - (b?.logprob ?? 0),
      )
    const [warm, cold] = [distances(1), distances(0.5)]
    warm.forEach((distance, position) => {
      // A sampled token that is nearly sure is shown as -1e-6 at any temperature.
      if (distance < 8) expect(cold[position]).toBeCloseTo(distance * times, 3)
    })
  })
})

describe('deltas of a streamed answer', () => {
  it.each([1, 2, 3, 7, 1000])('add up to the whole answer at %i tokens each', (tokensPerChunk) => {
    const choice = sample(LONG)
    const deltas = [...answerDeltas([choice], tokensPerChunk)].map((each) => each.delta)
    const [call] = choice.parts.filter((part) => part.kind === 'tool-call')
    const calls = deltas.flatMap((delta) => delta.toolCalls)
    expect(deltas.map((delta) => delta.content).join('')).toBe('Go 🤗 on.')
    expect(deltas.map((delta) => delta.reasoning).join('')).toBe('Hm, é 🤗.')
    expect(calls[0]).toMatchObject({ index: 0, id: choice.toolCallIds[0], type: 'function', function: { name: 'bash' } })
    expect(calls.map((delta) => delta.function.arguments).join('')).toBe(call?.arguments)
    expect(deltas.flatMap((delta) => ids(choice).slice(delta.from, delta.to))).toEqual(ids(choice))
    expect(deltas.map((delta) => delta.isLast)).toEqual(deltas.map((_, index) => index === deltas.length - 1))
  })

  it('closes also a choice that has no token', () => {
    const [empty, other] = [cutGeneration(sample(LONG), 0), sample('Hi.')]
    const deltas = [...answerDeltas([empty, other], 1)].filter((each) => each.choice === empty)
    expect(deltas.map((each) => each.delta)).toEqual([
      { from: 0, to: 0, isLast: true, text: '', reasoning: '', content: '', toolCalls: [] },
    ])
  })

  it('gives the whole arguments at the end of a call that was sampled in another spacing', () => {
    const choice = sample('<tool_call>{"name":"bash","arguments":{"a":[1,2]}}</tool_call>')
    const calls = [...answerDeltas([choice], 1)].flatMap((each) => each.delta.toolCalls)
    expect(calls.map((delta) => delta.function.arguments).filter((text) => text !== '')).toEqual(['{"a": [1, 2]}'])
  })
})

describe('a generation cut by an abort', () => {
  it.each([0, 1, 5, 12, 30])('keeps %i tokens and nothing that was not finished by then', (count) => {
    const choice = sample(LONG, { topLogprobs: 1 })
    const cut = cutGeneration(choice, count)
    expect([ids(cut), cut.logprobs, cut.finish]).toEqual([ids(choice).slice(0, count), choice.logprobs.slice(0, count), 'abort'])
    expect(cut.alternatives).toHaveLength(count)
    expect(cut.parts.some((part) => part.kind === 'tool-call')).toBe(false)
    expect('Go 🤗 on.'.startsWith(content(cut) ?? '')).toBe(true)
    expect('Hm, é 🤗.'.startsWith(textOf(cut.parts, 'reasoning') ?? '')).toBe(true)
  })
})

describe('the request log', () => {
  const arrived = (at: number) => ({ at, path: '/', rank: null, body: {}, weightVersion: '1' })
  const fill = (limits: { requests: number; promptTokens: number }, prompts: readonly number[]) => {
    const log = openRequestLog(limits)
    prompts.forEach((length, at) => {
      log.open(arrived(at)).prompted(Array.from({ length }, () => 1))
    })
    return log.list().map((request) => request.at)
  }

  it.each([
    ['the last requests', { requests: 2, promptTokens: 100 }, [1, 1, 1], [1, 2]],
    ['only as many as its tokens allow', { requests: 9, promptTokens: 10 }, [6, 6, 4], [1, 2]],
    ['at least the last one, however long', { requests: 9, promptTokens: 10 }, [6, 50], [1]],
  ])('keeps %s', (_name, limits, prompts, kept) => {
    expect(fill(limits, prompts)).toEqual(kept)
  })

  it('takes no news of a request it no longer keeps', () => {
    const log = openRequestLog({ requests: 2, promptTokens: 3 })
    const [first] = [0, 1, 2].map((at) => log.open(arrived(at)))
    first!.prompted([1, 2, 3, 4])
    expect(log.list()).toMatchObject([
      { at: 1, promptTokens: 0 },
      { at: 2, promptTokens: 0 },
    ])
  })
})

describe('the fault desk', () => {
  const strikes = (plans: Parameters<typeof openFaultDesk>[0], count: number) => {
    const desk = openFaultDesk(plans)
    return Array.from({ length: count }, () => desk.next())
  }

  it.each([
    ['every request', [{ fault: 'hang' }], ['hang', 'hang', 'hang', 'hang']],
    ['a number of times', [{ fault: 'hang', times: 2 }], ['hang', 'hang', null, null]],
    ['every nth', [{ fault: 'hang', every: 2 }], [null, 'hang', null, 'hang']],
    ['after some were spared', [{ fault: 'hang', after: 1, times: 1 }], [null, 'hang', null, null]],
    ['every nth, a number of times', [{ fault: 'hang', every: 2, times: 1 }], [null, 'hang', null, null]],
    [
      'the oldest plan first',
      [
        { fault: 'hang', times: 1 },
        { fault: 'abort', times: 2 },
      ],
      ['hang', 'abort', 'abort', null],
    ],
  ] as const)('strikes %s', (_name, plans, expected) => {
    expect(strikes(plans, 4)).toEqual(expected)
  })

  it('strikes no more once it is cleared', () => {
    const desk = openFaultDesk([{ fault: 'hang' }])
    desk.set(null)
    expect([desk.next(), desk.plans()]).toEqual([null, []])
  })

  it('keeps a bounded number of plans', () => {
    const desk = openFaultDesk([])
    for (let plan = 0; plan < 1000; plan += 1) desk.set({ fault: 'hang', after: plan })
    expect(desk.plans()).toHaveLength(64)
    expect(desk.plans().at(-1)).toMatchObject({ after: 999 })
  })

  it('has a menu without doubles', () => {
    expect(new Set(FAULT_NAMES).size).toBe(FAULT_NAMES.length)
  })
})
