// What the rollout server and a session's gateway say of it now.
import type { SessionView } from '../actors/rollout-server/protocol.ts'
import type { SessionId } from '../contract/ids.ts'
import type { RouteContext } from './control-api.ts'

export async function readSession({ askServer }: RouteContext, session: SessionId): Promise<SessionView | null | 'unavailable'> {
  const answer = await askServer<SessionView | null>((ask) => ({ type: 'read-session', session, ask }))
  return answer.ok ? answer.value : 'unavailable'
}

/** The summary's count once the session has ended; before that its gateway knows. */
export async function callCount(view: SessionView, { readGateway }: RouteContext): Promise<number> {
  if (view.summary !== null) return view.summary.calls
  const snapshot = view.gateway === null ? null : await readGateway(view.gateway)
  return snapshot?.sessions.find((session) => session.session === view.session)?.calls ?? 0
}
