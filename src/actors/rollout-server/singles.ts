// How a session by itself comes in: as a task of one that only this server, the ledger and the outbox know to be a task.
import { soleTaskId } from '../../contract/ids.ts'
import { hasRoom, OVERLOADED, record, waitForRecord } from './admission.ts'
import { roomForCapture } from './captures.ts'
import type { RolloutServerSignal, ServerState, Single } from './entries.ts'
import type { SubmitSessionReply } from './protocol.ts'
import { findSession, reply, type Turn } from './turn.ts'
import { sessionView } from './views.ts'

export function admitSession(turn: Turn, message: Extract<RolloutServerSignal, { readonly type: 'admit-session' }>) {
  const { single, request, digest, session, ask } = message
  const known = findSession(turn.state, session)
  if (known !== null) {
    const { task, entry } = known
    if (task.single === null || task.digest !== digest) {
      return reply(turn, ask, { type: 'conflict', detail: `session ${session} was opened before with a different body` })
    }
    if (task.phase === 'recording') return waitForRecord(turn, task, { of: 'session', ask })
    return reply(turn, ask, { type: 'opened', view: sessionView(task, entry) })
  }
  if (turn.state.admission === 'stopped') return reply(turn, ask, { type: 'not-recorded', detail: 'the node is stopping' })
  if (!hasRoom(turn.state, 1)) return reply(turn, ask, OVERLOADED)
  const place = placeFor(turn.state, single)
  if ('type' in place) return reply(turn, ask, place)
  record(turn, { task: soleTaskId(session), single: place, request, digest, sessions: [session], submitter: { of: 'session', ask } })
}

/** A capture is given its gateway at once: what was started elsewhere must be told where to call. */
function placeFor(
  state: ServerState,
  { kind, gateway }: Single,
): Single | Extract<SubmitSessionReply, { readonly type: 'gateway-unknown' | 'overloaded' }> {
  const wanted = gateway === null ? null : state.gateways.get(gateway)
  if (wanted === undefined || wanted?.draining === true) return { type: 'gateway-unknown' }
  if (kind === 'agent') return { kind, gateway }
  const room = roomForCapture(state, gateway)
  return room === null ? OVERLOADED : { kind, gateway: room }
}
