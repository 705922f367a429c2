// The smallest form of a request that breaks: alone in a fresh session, with every field taken away that does not matter.
import { audit } from './audit.ts'
import type { Access } from './client/request-bytes.ts'
import type { Body } from './grammar/grammar.ts'
import { judge } from './judge.ts'
import type { FuzzNode } from './node/node.ts'
import type { Plan } from './plan.ts'
import { openSockets, play } from './play.ts'
import { writeJson } from './spoil/json-text.ts'
import { GONE, pathsOf, replaceAt } from './spoil/mutate.ts'

/** Requests spent on one problem. */
const MAX_TRIALS = 400
/** Beyond every session of a run, and below every other seed in use. */
const FIRST_SEED = 500_000_000

let trials = 0

/** Null when the request breaks only in its session. */
export async function shrink(node: FuzzNode, other: Access['other'], plan: Plan, problem: string): Promise<string | null> {
  const wanted = signatureOf(problem)
  const breaks = async (json: string): Promise<boolean> =>
    (await problemsOf(node, other, plan, json)).some((each) => signatureOf(each) === wanted)
  if (plan.json === null || !(await breaks(plan.json))) return null
  let smallest: Body = JSON.parse(plan.json)
  // A second field of the same name, or a number no double can hold, does not outlive the parse.
  if (!(await breaks(writeJson(smallest)))) return plan.json
  const last = trials + MAX_TRIALS
  for (let hasShrunk = true; hasShrunk; ) {
    hasShrunk = false
    for (const path of pathsOf(smallest)) {
      for (const value of [GONE, 'a']) {
        if (trials >= last) return writeJson(smallest)
        const candidate = replaceAt(smallest, path, value)
        const json = writeJson(candidate)
        if (json.length >= writeJson(smallest).length || !(await breaks(json))) continue
        smallest = candidate
        hasShrunk = true
        break
      }
      // The paths behind the first change are no longer those of the body.
      if (hasShrunk) break
    }
  }
  return writeJson(smallest)
}

async function problemsOf(node: FuzzNode, other: Access['other'], plan: Plan, json: string): Promise<readonly string[]> {
  trials += 1
  const seed = FIRST_SEED + trials
  const session = `shrink-${trials}`
  const { key, basePath } = await node.gateway.openDoor({ session, tier: plan.tier, pins: { seed }, ledger: 'sound' })
  const sockets = openSockets(node.port)
  const alone: Plan = { ...plan, json, body: Buffer.from(json), coding: null, continues: null, behaviour: { type: 'reads' } }
  const { outcomes, atOnce } = await play(alone, { port: node.port, session: basePath.replace('/s/', ''), key, other }, sockets)
  const verdicts = outcomes.map((outcome) => judge(alone, outcome, { atOnce, isLedgerFlaky: false }))
  sockets.closeAll()
  const sealed = await node.gateway.seal(session)
  const engineRequests = await node.engines.requestsOf(seed)
  const answers = verdicts.flatMap((verdict) => verdict.answers.map((folded) => ({ plan: alone, folded, continues: null })))
  const problems = audit({ ...sealed, engineRequests, answers })
  await node.gateway.close(session)
  return [...verdicts.flatMap(({ problem }) => problem ?? []), ...problems]
}

/** What stays the same of a problem when its request shrinks. */
function signatureOf(problem: string): string {
  return problem
    .replaceAll(/"(?:[^"\\]|\\.)*"/g, '"…"')
    .replaceAll(/[0-9a-f]{8,}|\d+/g, '#')
    .slice(0, 90)
}
