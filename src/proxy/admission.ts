// How many generations run at once, per session and on this thread, and the bounded line of those that wait.
import type { SessionId } from '../contract/ids.ts'

export type AdmissionLimits = {
  readonly perSession: number
  readonly perThread: number
  /** How many may wait, of one session and of all. */
  readonly linePerSession: number
  readonly linePerThread: number
}

/** A place, or a place in the line for one. */
export type Ticket = {
  readonly admitted: Promise<void>
  /** Gives back the place, or leaves the line. Idempotent. */
  leave(): void
}

export type Admission = {
  /** Null when the line is full too: the caller must be told at once. */
  enter(session: SessionId): Ticket | null
  running(): number
  waiting(): number
}

type Waiter = { readonly session: SessionId; readonly admit: () => void }

export function openAdmission(limits: AdmissionLimits): Admission {
  const running = new Map<SessionId, number>()
  let total = 0
  let line: readonly Waiter[] = []

  const count = (session: SessionId): number => running.get(session) ?? 0
  const hasRoom = (session: SessionId): boolean => total < limits.perThread && count(session) < limits.perSession

  function take(session: SessionId): void {
    total += 1
    running.set(session, count(session) + 1)
  }

  function giveBack(session: SessionId): void {
    total -= 1
    const left = count(session) - 1
    if (left === 0) running.delete(session)
    else running.set(session, left)
    // The first whose session has room; one busy session must not hold up the others.
    const next = line.find((waiter) => hasRoom(waiter.session))
    if (next === undefined) return
    line = line.filter((waiter) => waiter !== next)
    next.admit()
  }

  return {
    enter(session) {
      let phase: 'waiting' | 'running' | 'left' = 'waiting'
      let resolve = (): void => {}
      const admitted = new Promise<void>((settle) => {
        resolve = settle
      })
      const waiter: Waiter = {
        session,
        admit() {
          phase = 'running'
          take(session)
          resolve()
        },
      }
      if (hasRoom(session)) waiter.admit()
      else {
        if (line.length >= limits.linePerThread) return null
        if (line.filter((other) => other.session === session).length >= limits.linePerSession) return null
        line = [...line, waiter]
      }
      return {
        admitted,
        leave() {
          const was = phase
          phase = 'left'
          if (was === 'running') giveBack(session)
          else if (was === 'waiting') line = line.filter((other) => other !== waiter)
        },
      }
    },
    running: () => total,
    waiting: () => line.length,
  }
}
