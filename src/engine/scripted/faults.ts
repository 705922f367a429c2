// The fault menu: everything an engine can do wrong, by name, and which request it happens to.
import { z } from 'zod'
import type { GeneratedChoice, Generation } from '../wire/generation.ts'

/** Where a fault strikes: instead of an answer, in the answer's facts, or in how its bytes leave. */
export type FaultAction =
  | { readonly at: 'request'; readonly does: 'hang' | 'hang-headers' | 'reset' | 'reset-before-body' }
  | {
      readonly at: 'request'
      readonly does: 'refuse'
      readonly status: number
      readonly message: string
      readonly headers: Readonly<Record<string, string>>
    }
  | { readonly at: 'generation'; readonly change: (generation: Generation) => Generation }
  | { readonly at: 'bytes'; readonly does: 'garbage' | 'truncate' | 'reset' | 'drip' }

type Fault = { readonly doc: string; readonly action: FaultAction }

const refuse = (status: number, message: string, headers: Readonly<Record<string, string>> = {}): FaultAction => ({
  at: 'request',
  does: 'refuse',
  status,
  message,
  headers,
})

const changeChoices = (change: (choice: GeneratedChoice) => GeneratedChoice): FaultAction => ({
  at: 'generation',
  change: (generation) => ({ ...generation, choices: generation.choices.map(change) }),
})

/** The middle token's logprob becomes `value`; an answer of no token has none to spoil. */
const spoilLogprob = (value: number | null): FaultAction =>
  changeChoices((choice) => {
    const middle = Math.floor(choice.logprobs.length / 2)
    return { ...choice, logprobs: choice.logprobs.map((logprob, position) => (position === middle ? value : logprob)) }
  })

const MENU = {
  hang: { doc: 'The request is read and nothing is ever answered.', action: { at: 'request', does: 'hang' } },
  'hang-headers': { doc: 'Status 200 and the headers are sent, the body never comes.', action: { at: 'request', does: 'hang-headers' } },
  reset: { doc: 'The connection is reset before anything is answered.', action: { at: 'request', does: 'reset' } },
  'reset-before-body': {
    doc: 'The headers are sent, then the connection is reset.',
    action: { at: 'request', does: 'reset-before-body' },
  },
  'reset-in-body': { doc: 'The connection is reset after the first half of the body.', action: { at: 'bytes', does: 'reset' } },
  'http-400': { doc: 'Status 400 with an error in the shape of the engine.', action: refuse(400, 'scripted fault: bad request') },
  'http-429': { doc: 'Status 429 with Retry-After: 1.', action: refuse(429, 'scripted fault: too many requests', { 'retry-after': '1' }) },
  'http-500': { doc: 'Status 500.', action: refuse(500, 'scripted fault: internal error') },
  'http-503': { doc: 'Status 503.', action: refuse(503, 'scripted fault: unavailable') },
  'garbage-json': { doc: 'Status 200 and a body that is no JSON.', action: { at: 'bytes', does: 'garbage' } },
  'truncated-json': { doc: 'A well-formed HTTP answer whose JSON or stream stops half way.', action: { at: 'bytes', does: 'truncate' } },
  'missing-prompt-ids': {
    doc: 'Prompt ids are left out although they were asked for.',
    action: { at: 'generation', change: (generation) => ({ ...generation, showsPromptIds: false }) },
  },
  'missing-token-ids': {
    doc: 'Sampled ids are left out although they were asked for.',
    action: changeChoices((choice) => ({ ...choice, showsIds: false })),
  },
  'unequal-lengths': {
    doc: 'One logprob fewer than sampled ids.',
    action: changeChoices((choice) => ({ ...choice, logprobs: choice.logprobs.slice(0, -1) })),
  },
  'nan-logprob': { doc: 'One logprob is the bare word NaN, as Python writes it: no valid JSON.', action: spoilLogprob(Number.NaN) },
  'null-logprob': { doc: 'One logprob is null.', action: spoilLogprob(null) },
  'positive-logprob': { doc: 'One logprob is 0.5.', action: spoilLogprob(0.5) },
  abort: {
    doc: 'The first half of the answer with finish_reason "abort", as after a weight update.',
    action: changeChoices((choice) => shortened(choice)),
  },
  'missing-finish-reason': {
    doc: 'finish_reason is null in an answer that is complete.',
    action: changeChoices((choice) => ({ ...choice, finish: null })),
  },
  'slow-bytes': { doc: 'The body leaves a few bytes at a time.', action: { at: 'bytes', does: 'drip' } },
  'empty-choices': {
    doc: 'The answer has no choices.',
    action: { at: 'generation', change: (generation) => ({ ...generation, choices: [] }) },
  },
} as const satisfies Readonly<Record<string, Fault>>

export type FaultName = keyof typeof MENU

export const FAULTS: { readonly [K in FaultName]: Fault } = MENU

// Object.keys forgets which keys an object has.
export const FAULT_NAMES = Object.keys(MENU) as readonly FaultName[]

/** Which chat requests a fault strikes: after `after` spared ones, every `every`th, at most `times` of them. */
export const faultPlanSchema = z.strictObject({
  fault: z.enum(Object.keys(MENU) as [FaultName, ...FaultName[]]),
  times: z.int().min(1).optional(),
  every: z.int().min(1).default(1),
  after: z.int().min(0).default(0),
})

export type FaultPlan = z.input<typeof faultPlanSchema>

export type FaultDesk = {
  /** Adds a plan; null clears all. */
  set(plan: FaultPlan | null): void
  /** The fault of the request that has just arrived. The oldest plan that strikes wins; all plans count the request. */
  next(): FaultName | null
  plans(): readonly FaultPlan[]
}

const MAX_FAULT_PLANS = 64

export function openFaultDesk(initial: readonly FaultPlan[]): FaultDesk {
  type Active = { readonly plan: z.output<typeof faultPlanSchema>; seen: number; struck: number }
  let active: Active[] = []
  const desk: FaultDesk = {
    set(plan) {
      if (plan === null) active = []
      else active = [...active, { plan: faultPlanSchema.parse(plan), seen: 0, struck: 0 }].slice(-MAX_FAULT_PLANS)
    },
    next() {
      let chosen: FaultName | null = null
      for (const each of active) {
        each.seen += 1
        const counted = each.seen - each.plan.after
        if (chosen !== null || counted < 1 || counted % each.plan.every !== 0) continue
        each.struck += 1
        chosen = each.plan.fault
      }
      active = active.filter((each) => each.plan.times === undefined || each.struck < each.plan.times)
      return chosen
    },
    plans: () => active.map((each) => each.plan),
  }
  for (const plan of initial) desk.set(plan)
  return desk
}

/** A generation cut after half of its tokens, as an abort leaves it. */
function shortened(choice: GeneratedChoice): GeneratedChoice {
  return cutGeneration(choice, Math.floor(choice.tokens.length / 2))
}

/** What an aborted choice has after `count` tokens: no tool call that is not complete, no end token. */
export function cutGeneration(choice: GeneratedChoice, count: number): GeneratedChoice {
  const tokens = choice.tokens.slice(0, count)
  const end = tokens.at(-1)?.textEnd ?? 0
  const parts = choice.parts.flatMap((part) => {
    if (part.end <= end) return [part]
    if (part.kind === 'tool-call' || part.start >= end) return []
    return [{ ...part, end, text: part.text.slice(0, end - part.start) }]
  })
  return {
    ...choice,
    tokens,
    text: choice.text.slice(0, end),
    parts,
    logprobs: choice.logprobs.slice(0, count),
    alternatives: choice.alternatives.slice(0, count),
    finish: 'abort',
    matchedStop: null,
  }
}
