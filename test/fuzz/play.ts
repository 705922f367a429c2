// Sends one planned request the way its client behaves, and gives every outcome that is to be judged.
import type { Access } from './client/request-bytes.ts'
import { writeRequest } from './client/request-bytes.ts'
import { type Connection, type Outcome, openConnection, type Sending } from './client/socket.ts'
import type { Plan } from './plan.ts'

/** The sockets of one session: one that is kept alive between requests, and those that stand idle beside it. */
export type Sockets = {
  /** A fresh connection, or the last one while it can go on. */
  take(reuses: boolean): Connection
  keep(connection: Connection): void
  idle(connection: Connection): void
  closeAll(): void
}

/** Patience with an answer; a hung engine is given up by the gateway long before. */
const DEADLINE_MS = 40_000

export function openSockets(port: number): Sockets {
  let kept: Connection | null = null
  const idle: Connection[] = []
  return {
    take(reuses) {
      const ready = kept
      kept = null
      if (ready?.isOpen() === true && reuses) return ready
      ready?.close()
      return openConnection(port)
    },
    keep(connection) {
      kept?.close()
      kept = connection
    },
    idle: (connection) => void idle.push(connection),
    closeAll() {
      kept?.close()
      for (const each of idle.splice(0)) each.close()
    },
  }
}

export type Played = { readonly outcomes: readonly Outcome[]; readonly atOnce: number }

export async function play(plan: Plan, access: Access, sockets: Sockets): Promise<Played> {
  const { bytes, headBytes } = writeRequest(plan, access)
  const plain: Sending = {
    method: plan.method,
    bytes,
    headBytes,
    reading: { type: 'fast' },
    dribble: null,
    cut: null,
    halfCloses: false,
    replies: 1,
  }
  const { behaviour } = plan
  // After a request whose end was told wrongly nobody knows where the next one begins.
  const isWhole = plan.head?.framing === undefined && behaviour.type !== 'half-closes'
  const once = async (sending: Sending, connection = sockets.take(plan.index % 2 === 0)): Promise<Outcome> => {
    const outcome = await connection.exchange(sending, DEADLINE_MS)
    if (outcome.type === 'answered' && outcome.canGoOn && isWhole) sockets.keep(connection)
    else connection.close()
    return outcome
  }
  switch (behaviour.type) {
    case 'reads':
      return { outcomes: [await once(plain)], atOnce: 1 }
    case 'reads-slowly':
      return { outcomes: [await once({ ...plain, reading: behaviour.reading })], atOnce: 1 }
    case 'dribbles':
      return { outcomes: [await once({ ...plain, dribble: behaviour.bytes })], atOnce: 1 }
    case 'half-closes':
      return { outcomes: [await once({ ...plain, halfCloses: true })], atOnce: 1 }
    case 'cuts':
      return { outcomes: [await once({ ...plain, cut: behaviour })], atOnce: 1 }
    case 'retries': {
      const first = await once({ ...plain, cut: behaviour })
      return { outcomes: [first, await once(plain)], atOnce: 1 }
    }
    case 'pipelines': {
      const { copies } = behaviour
      const all = { ...plain, bytes: Buffer.concat(Array.from({ length: copies }, () => bytes)), replies: copies }
      return { outcomes: [await once(all)], atOnce: copies }
    }
    case 'parallel': {
      const { copies } = behaviour
      const outcomes = await Promise.all(Array.from({ length: copies }, () => once(plain, openConnection(access.port))))
      return { outcomes, atOnce: copies }
    }
    case 'idles': {
      const silent = openConnection(access.port)
      sockets.idle(silent)
      if (behaviour.says !== '') {
        const saying = { ...plain, bytes: Buffer.from(behaviour.says) }
        // Nobody waits for what the other end makes of it.
        void silent.exchange(saying, DEADLINE_MS)
      }
      return { outcomes: [await once(plain)], atOnce: 1 }
    }
  }
}
