// What the rollout server and a session's gateway say of it now.
import type { SessionView } from '../actors/rollout-server/protocol.ts'
import type { SessionId } from '../contract/ids.ts'
import type { RouteContext } from './control-api.ts'

export async function readSession({ askServer }: RouteContext, session: SessionId): Promise<SessionView | null | 'unavailable'> {
  const answer = await askServer<SessionView | null>((ask) => ({ type: 'read-session', session, ask }))
  return answer.ok ? answer.value : 'unavailable'
}

/** The summary's count once the session has ended; before that its gateway knows, and is asked for no more: sessions are polled. */
export async function callCount({ session, gateway, summary }: SessionView, { askGateway }: RouteContext): Promise<number> {
  if (summary !== null) return summary.calls
  if (gateway === null) return 0
  const answer = await askGateway<number>(gateway, (ask) => ({ type: 'count-calls', session, ask }))
  return answer.ok ? answer.value : 0
}
