// A dumb oracle for prefix merging: pairwise comparisons of plain arrays, written without a look at the builder's structures.
import type { BuilderCall } from '../../src/trajectory/builder.ts'

export type OracleRow = { readonly prompt: readonly number[]; readonly resp: readonly number[]; readonly mask: readonly number[] }

type Plain = {
  readonly at: number
  readonly prompt: readonly number[]
  readonly sampled: readonly number[]
  readonly whole: readonly number[]
  readonly isOk: boolean
  readonly delivery: string
  readonly digest: string
  /** Its client's name for who made it, and the same where that is a sub-agent. */
  readonly agent: string | null
  readonly subagent: string | null
  readonly hasLogprobs: boolean
}

const startsWith = (whole: readonly number[], prefix: readonly number[]): boolean =>
  prefix.length <= whole.length && prefix.every((id, at) => whole[at] === id)
const isSame = (a: readonly number[], b: readonly number[]): boolean => a.length === b.length && startsWith(a, b)
const deliveryOrder = ['yes', 'partial', 'no']

function plain(calls: readonly BuilderCall[]): readonly Plain[] {
  return calls
    .toSorted((a, b) => a.record.sequence - b.record.sequence)
    .map(({ record, promptIds, sampledIds, logprobs }, at) => ({
      at,
      prompt: [...promptIds],
      sampled: [...sampledIds],
      whole: [...promptIds, ...sampledIds],
      isOk: record.status === 'ok',
      delivery: record.delivery,
      digest: record.digest,
      agent: record.lineage?.agent ?? null,
      subagent: record.lineage?.parent == null ? null : record.lineage.agent,
      hasLogprobs: logprobs !== null,
    }))
}

function parentOf(call: Plain, calls: readonly Plain[]): Plain | null {
  if (call.prompt.length === 0) return null
  const candidates = calls.filter(
    (other) =>
      other !== call &&
      other.subagent === call.subagent &&
      other.isOk &&
      other.prompt.length > 0 &&
      other.sampled.length > 0 &&
      startsWith(call.prompt, other.whole),
  )
  candidates.sort(
    (a, b) =>
      b.whole.length - a.whole.length ||
      deliveryOrder.indexOf(a.delivery) - deliveryOrder.indexOf(b.delivery) ||
      b.sampled.length - a.sampled.length ||
      a.at - b.at,
  )
  return candidates[0] ?? null
}

/** The rows that strict prefix merging must give, in order. */
export function oracleRows(input: readonly BuilderCall[]): readonly OracleRow[] {
  const calls = plain(input)
  const parents = new Map(calls.map((call) => [call, parentOf(call, calls)]))
  const childrenOf = (call: Plain): readonly Plain[] => calls.filter((other) => parents.get(other) === call)
  const isTrained = (call: Plain): boolean => trains(call, calls, (other) => childrenOf(other).length > 0)
  const isShown = (call: Plain): boolean => call.prompt.length > 0 && call.sampled.length > 0
  const trainedBelow = (call: Plain): number =>
    (isTrained(call) ? 1 : 0) + childrenOf(call).reduce((sum, child) => sum + trainedBelow(child), 0)
  const heirOf = (call: Plain): Plain | undefined => {
    const shown = childrenOf(call).filter(isShown)
    return shown.toSorted((a, b) => trainedBelow(b) - trainedBelow(a) || a.at - b.at)[0]
  }

  const rows: { readonly order: number; readonly row: OracleRow }[] = []
  for (const leaf of calls) {
    if (!isShown(leaf) || childrenOf(leaf).some(isShown)) continue
    const line = [leaf]
    for (let above = parents.get(leaf) ?? null; above !== null; above = parents.get(above) ?? null) line.unshift(above)
    let own = line.length - 1
    while (own > 0 && heirOf(line[own - 1]!) === line[own]) own--
    const resp: number[] = []
    const mask: number[] = []
    for (const [position, call] of line.entries()) {
      const told = position === 0 ? call.prompt.length : line[position - 1]!.whole.length
      for (const id of call.prompt.slice(told)) {
        resp.push(id)
        mask.push(0)
      }
      for (const id of call.sampled) {
        resp.push(id)
        mask.push(position >= own && isTrained(call) ? 1 : 0)
      }
    }
    rows.push({ order: line[own]!.at, row: { prompt: line[0]!.prompt, resp, mask } })
  }
  return rows.toSorted((a, b) => a.order - b.order).map(({ row }) => row)
}

function trains(call: Plain, calls: readonly Plain[], isContinued: (call: Plain) => boolean): boolean {
  const isUsable = (other: Plain) => other.isOk && other.prompt.length > 0 && other.sampled.length > 0 && other.hasLogprobs
  if (!isUsable(call)) return false
  if (isContinued(call)) return true
  const attempts = attemptsAt(call, calls).filter(isUsable)
  if (attempts.length === 1) return call.delivery === 'yes'
  if (attempts.some(isContinued)) return false
  return attempts.findLast((other) => other.delivery === 'yes') === call
}

/** All calls that are one request with this one, directly or through others. */
function attemptsAt(call: Plain, calls: readonly Plain[]): readonly Plain[] {
  const group = new Set([call])
  const isRelated = (a: Plain, b: Plain) =>
    (a.prompt.length > 0 && a.agent === b.agent && isSame(a.prompt, b.prompt)) || a.digest === b.digest
  for (let size = 0; size !== group.size; ) {
    size = group.size
    for (const other of calls) if ([...group].some((member) => isRelated(member, other))) group.add(other)
  }
  return calls.filter((other) => group.has(other))
}
