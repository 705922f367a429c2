// Which processes belong to a sandbox, and how to end them: by mark, session, working directory and descent, as far as /proc shows.
import { readdir, readFile, readlink } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Clock } from '../kernel/clock.ts'

export type SessionLeader = { readonly pid: number; readonly startTicks: number }

/** A process is chosen when any one of these holds, or when its parent is chosen. */
export type TreeSelector = {
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
  readonly chosen: boolean
}

/** Reads so many processes at once: enough to be quick, too few to run out of file descriptors. */
const BATCH = 32
/** A process that survives KILL this long waits in the kernel and cannot be reached. */
const KILL_PATIENCE_MS = 5000

/** Start time in clock ticks since boot, or null when there is no such process or only its zombie. */
export async function startTicksOf(pid: number): Promise<number | null> {
  return (await readStat(pid))?.startTicks ?? null
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
  for (let from = 0; from < pids.length; from += BATCH) {
    const batch = await Promise.all(pids.slice(from, from + BATCH).map((pid) => look(pid, selector)))
    for (const one of batch) if (one !== null) seen.push(one)
  }
  const byPid = new Map(seen.map((one) => [one.pid, one]))
  const leaders = new Map(selector.sessions.map((leader) => [leader.pid, leader.startTicks]))
  const spared = ownAncestry(byPid)
  const chosen = new Set<number>()
  for (const one of seen) {
    const leaderTicks = leaders.get(one.session)
    const leaderNow = byPid.get(one.session)
    const isOurSession = leaderTicks !== undefined && (leaderNow === undefined || leaderNow.startTicks === leaderTicks)
    if (one.chosen || isOurSession) chosen.add(one.pid)
  }
  for (let grew = true; grew; ) {
    grew = false
    for (const one of seen) {
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

async function look(pid: number, selector: TreeSelector): Promise<Seen | null> {
  const stat = await readStat(pid)
  if (stat === null) return null
  const [environment, cwd, commandLine] = await Promise.all([
    readFile(`/proc/${pid}/environ`, 'latin1').catch(() => ''),
    selector.folder === null ? '' : readlink(`/proc/${pid}/cwd`).catch(() => ''),
    readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''),
  ])
  const isMarked = `\0${environment}`.includes(`\0${selector.mark}\0`)
  const isInside = selector.folder !== null && !stat.hasTerminal && (cwd === selector.folder || cwd.startsWith(`${selector.folder}/`))
  return { pid, ...stat, chosen: isMarked || isInside || selector.isSupervisor(commandLine.split('\0')) }
}

async function readStat(pid: number): Promise<Omit<Seen, 'pid' | 'chosen'> | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => null)
  if (text === null) return null
  // The name in parentheses may hold anything; fields are counted from its last bracket: state is field 3 of proc(5).
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  if (fields[0] === 'Z' || fields[0] === 'X') return null
  return { parent: Number(fields[1]), session: Number(fields[3]), hasTerminal: fields[4] !== '0', startTicks: Number(fields[19]) }
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
