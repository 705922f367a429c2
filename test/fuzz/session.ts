// One session of the run: a door, some requests one after another, and at the end the comparison of everybody's books.
import type { DialectName } from '../../src/contract/call.ts'
import { type AuditedAnswer, audit } from './audit.ts'
import type { Access } from './client/request-bytes.ts'
import { within } from './deadline.ts'
import { rollDice } from './dice.ts'
import type { Answered } from './grammar/grammar.ts'
import { DIALECTS } from './grammar/grammars.ts'
import { type Column, judge } from './judge.ts'
import type { FuzzNode } from './node/node.ts'
import { drawPlan, type Plan } from './plan.ts'
import { openSockets, play } from './play.ts'

export const REQUESTS_PER_SESSION = 20
/** Sealing cancels what is under way: it waits for nothing but the machine. */
const SEAL_MS = 20_000
/** Answers that a next turn may follow. */
const REMEMBERED = 6

export type Result = { readonly plan: Plan; readonly column: Column; readonly problem: string | null }

export type PlayedSession = {
  readonly session: number
  readonly results: readonly Result[]
  /** What the books say of the session as a whole. */
  readonly problems: readonly string[]
  readonly generations: number
}

export type SessionOrder = {
  readonly node: FuzzNode
  readonly seed: number
  readonly session: number
  /** How many of its requests are played. */
  readonly requests: number
  readonly other: Access['other']
  readonly onResult?: (result: Result) => void
}

export async function playSession({ node, seed, session, requests, other, onResult }: SessionOrder): Promise<PlayedSession> {
  const dice = rollDice('session', seed, session)
  const tier = dice.chance(0.7) ? 'train' : 'eval'
  const ledger = dice.chance(0.1) ? 'flaky' : 'sound'
  const mainDialect = dice.pick(DIALECTS)
  // The pinned seed is the session's name at the engines: nothing a client sends can change it.
  const pins = { seed: session, ...(dice.chance(0.3) ? { temperature: 1 } : {}) }
  const name = `fuzz-${session}`
  const { key, basePath } = await node.gateway.openDoor({ session: name, tier, pins, ledger })
  const access: Access = { port: node.port, session: basePath.replace('/s/', ''), key, other }
  const sockets = openSockets(node.port)
  const results: Result[] = []
  const answers: AuditedAnswer[] = []
  const answered: (Answered & { readonly dialect: DialectName; readonly id: string })[] = []

  for (let position = 0; position < requests; position += 1) {
    const index = session * REQUESTS_PER_SESSION + position
    const plan = drawPlan(rollDice('request', seed, index), { index, tier, mainDialect, answered })
    const { outcomes, atOnce } = await play(plan, access, sockets)
    const verdicts = outcomes.map((outcome) => judge(plan, outcome, { atOnce, isLedgerFlaky: ledger === 'flaky' }))
    const worst = verdicts.find(({ problem }) => problem !== null) ?? verdicts.at(-1)
    const result: Result = { plan, column: worst?.column ?? 'wrong', problem: worst?.problem ?? null }
    results.push(result)
    onResult?.(result)
    const told = verdicts.flatMap((verdict) => verdict.answers)
    for (const folded of told)
      answers.push({ plan, folded, continues: plan.continues === null ? null : parentOf(answered, plan.continues) })
    const [last] = told.slice(-1)
    if (last !== undefined && plan.request !== null) {
      answered.push({ dialect: plan.dialect, request: plan.request, kept: last.kept, id: last.id })
      answered.splice(0, answered.length - REMEMBERED)
    }
  }

  sockets.closeAll()
  const sealed = await within(node.gateway.seal(name), SEAL_MS, `the sealing of session ${session}`)
  const engineRequests = await node.engines.requestsOf(session)
  const problems = audit({ ...sealed, engineRequests, answers })
  await node.gateway.close(name)
  return { session, results, problems, generations: engineRequests.length }
}

function parentOf(answered: readonly (Answered & { readonly id: string })[], parent: Answered): string | null {
  return answered.find((each) => each.kept === parent.kept)?.id ?? null
}
