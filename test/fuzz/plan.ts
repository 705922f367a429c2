// One request of a session before it is sent: what it says, where it goes, how its client behaves, and what may come back.
import type { DialectName } from '../../src/contract/call.ts'
import { type Behaviour, drawBehaviour } from './behaviour.ts'
import type { Dice } from './dice.ts'
import type { Answered, ValidRequest } from './grammar/grammar.ts'
import { DIALECTS, GRAMMARS } from './grammar/grammars.ts'
import { NO_WISH, type Wish, writeMark } from './marker.ts'
import { ENGINE_FAULTS } from './node/settings.ts'
import { type BodyBytes, encodedBytes, malformedBytes } from './spoil/bytes.ts'
import { type OddHead, oddHead } from './spoil/heads.ts'
import { mutate } from './spoil/mutate.ts'
import { type Credential, misrouted, type Prefix } from './spoil/routes.ts'

type Kind = 'valid' | 'next-turn' | 'mutated' | 'malformed' | 'encoded' | 'odd-head' | 'misrouted' | 'count' | 'lookup'

/** What the server may answer. Engine faults that the request wished for widen it. */
type Expectation =
  /** An answer in this form; or a 4xx when the request has a feature that may be refused. */
  | { readonly type: 'answer'; readonly isRefusable: boolean }
  /** Whatever the body turns out to be: an answer, or a 4xx. */
  | { readonly type: 'either' }
  | { readonly type: 'status'; readonly statuses: readonly number[] }
  | { readonly type: 'count'; readonly isRefusable: boolean }
  | { readonly type: 'lookup'; readonly what: 'models' | 'model' | 'greeting' | 'health' }

export type Plan = {
  readonly index: number
  readonly tier: 'train' | 'eval'
  readonly dialect: DialectName
  readonly kind: Kind
  /** What is odd about it, for people. */
  readonly note: string
  readonly method: string
  readonly path: string
  readonly query: string
  readonly prefix: Prefix
  readonly credential: Credential
  readonly head: OddHead | null
  readonly body: Buffer | null
  readonly coding: string | null
  /** The JSON text that the server is to see, when it is to see one. */
  readonly json: string | null
  readonly wish: Wish
  readonly behaviour: Behaviour
  readonly expectation: Expectation
  /** Of a request that a next turn may follow. */
  readonly request: ValidRequest | null
  /** The answer that this one returns in its history. */
  readonly continues: Answered | null
}

export type PlanContext = {
  readonly index: number
  readonly tier: 'train' | 'eval'
  /** Most of a session speaks one dialect, as agents do. */
  readonly mainDialect: DialectName
  readonly answered: readonly (Answered & { readonly dialect: DialectName })[]
}

export function drawPlan(dice: Dice, context: PlanContext): Plan {
  const dialect = dice.chance(0.75) ? context.mainDialect : dice.pick(DIALECTS)
  const continuable = context.answered.filter((each) => each.dialect === dialect)
  const kind = dice.weighted<Kind>([
    [22, 'valid'],
    [continuable.length > 0 ? 22 : 0, 'next-turn'],
    [28, 'mutated'],
    [5, 'malformed'],
    [6, 'encoded'],
    [6, 'odd-head'],
    [5, 'misrouted'],
    [4, 'count'],
    [2, 'lookup'],
  ])
  const wish = drawWish(dice)
  const setting = { tier: context.tier, mark: writeMark({ index: context.index, ...wish }) }
  const grammar = GRAMMARS[dialect]
  const continues = kind === 'next-turn' ? dice.pick(continuable.slice(-3)) : null
  const request = continues === null ? grammar.request(dice, setting) : grammar.nextTurn(dice, setting, continues)
  const json = JSON.stringify(request.body)
  const isRefusable = request.refusable.length > 0
  const base: Plan = {
    index: context.index,
    tier: context.tier,
    dialect,
    kind,
    note: request.refusable.join(' '),
    method: 'POST',
    path: request.path,
    query: request.query,
    prefix: dice.pick(['own', 'own', 'none', 'encoded']),
    credential: dice.chance(0.1) ? 'own-and-wrong' : 'own',
    head: null,
    body: Buffer.from(json),
    coding: null,
    json,
    wish,
    behaviour: drawBehaviour(dice),
    expectation: { type: 'answer', isRefusable },
    request,
    continues,
  }
  switch (kind) {
    case 'mutated': {
      const { text, notes } = mutate(dice, request.body)
      return { ...base, note: notes.join(', '), json: text, body: Buffer.from(text), expectation: { type: 'either' }, request: null }
    }
    case 'malformed':
      return withBytes(base, malformedBytes(dice, json))
    case 'encoded':
      return withBytes(base, encodedBytes(dice, json))
    case 'odd-head':
      return withOddHead(base, oddHead(dice))
    case 'misrouted': {
      const { note, statuses, path, ...routed } = misrouted(dice, { dialect, path: request.path })
      const expectation: Expectation = statuses === null ? { type: 'either' } : { type: 'status', statuses }
      // A head that is refused for its length is the last of its connection.
      const behaviour: Behaviour = statuses?.includes(431) === true ? { type: 'reads' } : base.behaviour
      const query = path === request.path ? request.query : ''
      return { ...base, ...routed, path, query, note, json: null, expectation, behaviour, request: null }
    }
    case 'count':
      return withCount(base, grammar.count(dice, { ...setting, mark: '' }))
    case 'lookup':
      return withLookup(dice, base)
    default:
      return base
  }
}

function withBytes(base: Plan, { bytes, coding, note, meaning }: BodyBytes): Plan {
  const sent = { ...base, note, body: bytes, coding }
  if (meaning === 'same') return sent
  const expectation: Expectation = meaning === 'unclear' ? { type: 'either' } : { type: 'status', statuses: [meaning] }
  return { ...sent, json: null, expectation, request: null }
}

function withCount(base: Plan, { path, body, refusable }: Pick<ValidRequest, 'path' | 'body' | 'refusable'>): Plan {
  const json = JSON.stringify(body)
  return {
    ...base,
    path,
    query: '',
    json,
    body: Buffer.from(json),
    wish: NO_WISH,
    expectation: { type: 'count', isRefusable: refusable.length > 0 },
    request: null,
  }
}

function withOddHead(base: Plan, head: OddHead): Plan {
  // Whoever says that it closes, or does not say that it stays, asks one thing only.
  const behaviour: Behaviour = base.behaviour.type === 'pipelines' ? { type: 'reads' } : base.behaviour
  const plan: Plan = { ...base, head, note: head.note, method: head.method ?? 'POST', behaviour }
  if (head.statuses === null) return plan
  // What is no request at all cannot be cut or repeated in interesting ways.
  return {
    ...plan,
    ...(head.method === undefined ? {} : { body: null }),
    behaviour: { type: 'reads' },
    expectation: { type: 'status', statuses: head.statuses },
    request: null,
  }
}

const LOOKUPS = [
  { path: '/v1/models', what: 'models' },
  { path: '/v1beta/models', what: 'models' },
  { path: '/v1/models/any%2Fmodel', what: 'model' },
  { path: '/v1/models/org/model', what: 'model' },
  { path: '/v1beta/models/gemini-any', what: 'model' },
  { path: '/health', what: 'health' },
  { path: '/', what: 'greeting' },
] as const

function withLookup(dice: Dice, base: Plan): Plan {
  const { path, what } = dice.pick(LOOKUPS)
  const dialect = path.startsWith('/v1beta') ? 'google' : base.dialect === 'anthropic' ? 'anthropic' : 'openai-chat'
  return {
    ...base,
    dialect,
    method: dice.chance(0.8) ? 'GET' : 'HEAD',
    path,
    query: dice.pick(['', '?limit=1000', '?client_version=0.171.0']),
    body: null,
    json: null,
    wish: NO_WISH,
    expectation: { type: 'lookup', what },
    request: null,
  }
}

function drawWish(dice: Dice): Wish {
  const answer = dice.weighted<Wish['answer']>([
    [84, 'any'],
    [12, 'late'],
    [3, 'short'],
    [1, 'long'],
  ])
  if (!dice.chance(0.16)) return { fault: null, answer }
  const name = dice.weighted(
    ENGINE_FAULTS.map((fault) => [fault.startsWith('hang') ? 0.15 : fault === 'slow-bytes' ? 0.4 : 1, fault] as const),
  )
  const times = dice.pick([1, 1, 1, 2, 99])
  return { fault: { name, times }, answer: name === 'slow-bytes' ? 'short' : answer }
}
