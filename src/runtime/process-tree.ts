// Which processes belong to a sandbox, and how to end them: by mark, session, working directory and descent, as far as /proc shows.
import { readFileSync } from 'node:fs'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../kernel/clock.ts'

export type SessionLeader = { readonly pid: number; readonly startTicks: number }

/** A process is chosen when it is not older than `bornTicks` and any one of the rest holds, or when its parent is chosen. */
export type TreeSelector = {
  /** Clock ticks since boot. Spares a look at most processes of a host. */
  readonly bornTicks: number
  /** `NAME=value` in its environment. */
  readonly mark: string
  /** Sessions opened by launched commands. */
  readonly sessions: readonly SessionLeader[]
  /** Its working directory lies in this folder and it has no terminal (a person's shell has one); null to ignore. */
  readonly folder: string | null
  /** Its arguments are those of one of our supervisors. */
  readonly isSupervisor: (args: readonly string[]) => boolean
}

type Seen = {
  readonly pid: number
  readonly parent: number
  readonly session: number
  readonly hasTerminal: boolean
  readonly startTicks: number
}

/** So many `stat` files are read before others get their turn; they never block, and one read is too short to be worth a thread. */
const STAT_BATCH = 64
/** Environments are read so many at a time: a process can hold its own up. */
const LOOK_BATCH = 16
/** A process that survives KILL this long waits in the kernel and cannot be reached. */
const KILL_PATIENCE_MS = 5000

/** Start time in clock ticks since boot, or null when there is no such process or only its zombie. */
export function startTicksOf(pid: number): number | null {
  return readStat(pid)?.startTicks ?? null
}

/** Now, in the unit of start times: Linux reports both in hundredths of a second, whatever its own timer does. */
export function ticksNow(): number {
  return Math.floor(Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]) * 100)
}

/** TERM, then KILL after `graceMs`, until nothing of the tree is seen; false when something could not be ended. */
export async function endTree(selector: TreeSelector, graceMs: number, clock: Clock): Promise<boolean> {
  let victims = await findTree(selector)
  if (victims.length === 0) return true
  const termDeadline = clock.nowMs() + graceMs
  if (graceMs > 0) signalAll(victims, 'SIGTERM')
  for (let pause = 5; victims.length > 0 && clock.nowMs() < termDeadline; pause = Math.min(pause * 2, 100)) {
    await delay(Math.min(pause, Math.max(1, termDeadline - clock.nowMs())))
    victims = await findTree(selector)
  }
  const killDeadline = clock.nowMs() + KILL_PATIENCE_MS
  // Two empty looks in a row: a process may have forked and ended behind the first.
  for (let emptyLooks = victims.length === 0 ? 1 : 0; emptyLooks < 2; ) {
    if (clock.nowMs() > killDeadline) return false
    signalAll(victims, 'SIGKILL')
    await delay(5)
    victims = await findTree(selector)
    emptyLooks = victims.length === 0 ? emptyLooks + 1 : 0
  }
  return true
}

export async function findTree(selector: TreeSelector): Promise<readonly number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const seen: Seen[] = []
  for (const [index, pid] of pids.entries()) {
    if (index % STAT_BATCH === STAT_BATCH - 1) await nextTurn()
    const stat = readStat(pid)
    if (stat !== null) seen.push(stat)
  }
  const candidates = seen.filter((one) => one.startTicks >= selector.bornTicks)
  const chosen = new Set<number>()
  for (let from = 0; from < candidates.length; from += LOOK_BATCH) {
    const batch = candidates.slice(from, from + LOOK_BATCH)
    const verdicts = await Promise.all(batch.map((one) => isOurs(one, selector)))
    for (const [index, one] of batch.entries()) if (verdicts[index] === true) chosen.add(one.pid)
  }
  const byPid = new Map(seen.map((one) => [one.pid, one]))
  const leaders = new Map(selector.sessions.map((leader) => [leader.pid, leader.startTicks]))
  const spared = ownAncestry(byPid)
  for (const one of candidates) {
    const leaderTicks = leaders.get(one.session)
    const leaderNow = byPid.get(one.session)
    const isOurSession = leaderTicks !== undefined && (leaderNow === undefined || leaderNow.startTicks === leaderTicks)
    if (isOurSession) chosen.add(one.pid)
  }
  for (let grew = true; grew; ) {
    grew = false
    for (const one of candidates) {
      if (chosen.has(one.parent) && !chosen.has(one.pid) && !spared.has(one.parent)) {
        chosen.add(one.pid)
        grew = true
      }
    }
  }
  return [...chosen].filter((pid) => !spared.has(pid))
}

/** This process and what it runs under are never ended, whatever their environment says. */
function ownAncestry(byPid: ReadonlyMap<number, Seen>): ReadonlySet<number> {
  const spared = new Set([1, process.pid])
  for (let one = byPid.get(process.pid); one !== undefined && !spared.has(one.parent); one = byPid.get(one.parent)) spared.add(one.parent)
  return spared
}

async function isOurs(one: Seen, selector: TreeSelector): Promise<boolean> {
  const [environment, cwd, commandLine] = await Promise.all([
    readFile(`/proc/${one.pid}/environ`, 'latin1').catch(() => ''),
    selector.folder === null ? '' : readlink(`/proc/${one.pid}/cwd`).catch(() => ''),
    readFile(`/proc/${one.pid}/cmdline`, 'utf8').catch(() => ''),
  ])
  if (`\0${environment}`.includes(`\0${selector.mark}\0`) || selector.isSupervisor(commandLine.split('\0'))) return true
  return selector.folder !== null && !one.hasTerminal && (cwd === selector.folder || cwd.startsWith(`${selector.folder}/`))
}

function readStat(pid: number): Seen | null {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch {
    return null
  }
  // The name in parentheses may hold anything; fields are counted from its last bracket: state is field 3 of proc(5).
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  if (fields[0] === 'Z' || fields[0] === 'X') return null
  return {
    pid,
    parent: Number(fields[1]),
    session: Number(fields[3]),
    hasTerminal: fields[4] !== '0',
    startTicks: Number(fields[19]),
  }
}

function signalAll(pids: readonly number[], signal: 'SIGTERM' | 'SIGKILL'): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal)
    } catch {
      // Gone since it was seen, or not ours to signal: the next look tells.
    }
  }
}
