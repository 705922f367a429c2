// The rollout server's step: what each message makes of its tasks, sessions and gateways. Pure; actor.ts runs the effects.
import { unreachable } from '../../kernel/unreachable.ts'
import { admit, cancelTask, stopAdmission, taskRecorded } from './admission.ts'
import {
  addDemand,
  cancelAgain,
  cancelRefused,
  changeStatus,
  dispatch,
  dispatchRefused,
  loseGateway,
  releaseGateway,
  startGateway,
  stopGateway,
} from './dispatch.ts'
import {
  answerIfDelivered,
  awaitDeliveries,
  deliverAgain,
  deliverRefused,
  endRecorded,
  recordEnd,
  sessionFinished,
  settled,
  settleLater,
  stopSessions,
  taskDelivered,
} from './endings.ts'
import type { ServerEffect, ServerMessage, ServerState } from './entries.ts'
import { type Now, reply, type Turn } from './turn.ts'
import { gatewayViews, listTasks, readSession, readTask, serverStatus } from './views.ts'

export function step(state: ServerState, message: ServerMessage, now: Now): readonly [ServerState, readonly ServerEffect[]] {
  const turn: Turn = { state, effects: [], now }
  handle(turn, message)
  dispatch(turn)
  answerIfDelivered(turn)
  return [turn.state, turn.effects]
}

function handle(turn: Turn, message: ServerMessage) {
  switch (message.type) {
    case 'admit':
      return admit(turn, message)
    case 'task-recorded':
      return taskRecorded(turn, message.task, message.answer)
    case 'cancel':
      return cancelTask(turn, message)
    case 'stop-admission':
      return stopAdmission(turn, message.ask)
    case 'stop-sessions':
      return stopSessions(turn, message.ask)
    case 'await-deliveries':
      return awaitDeliveries(turn, message.ask)
    case 'read-task':
      return reply(turn, message.ask, readTask(turn.state, message.task))
    case 'list-tasks':
      return reply(turn, message.ask, listTasks(turn.state, message))
    case 'read-session':
      return reply(turn, message.ask, readSession(turn.state, message.session))
    case 'list-gateways':
      return reply(turn, message.ask, gatewayViews(turn.state))
    case 'read-status':
      return reply(turn, message.ask, serverStatus(turn.state))
    case 'submit-session':
      return reply(turn, message.ask, { type: 'gateway-unknown' })
    case 'cancel-session':
    case 'drain-gateway':
    case 'enrol-gateway':
      return reply(turn, message.ask, null)
    case 'list-sessions':
      return reply(turn, message.ask, [])
    case 'gateway-started':
      return startGateway(turn, message)
    case 'gateway-lost':
      return loseGateway(turn, message.gateway)
    case 'gateway-rested':
      return releaseGateway(turn, message.gateway)
    case 'gateway-stopped':
      return stopGateway(turn, message.gateway, message.incarnation)
    case 'demand':
      return addDemand(turn, message.gateway, message.slots)
    case 'dispatch-refused':
      return dispatchRefused(turn, message)
    case 'cancel-refused':
      return cancelRefused(turn, message)
    case 'cancel-again':
      return cancelAgain(turn, message.session, message.attempt)
    case 'session-changed':
      return changeStatus(turn, message.session, message.attempt, message.status)
    case 'session-finished':
      return sessionFinished(turn, message.session, message.attempt, message.summary)
    case 'settled':
      return settled(turn, message.session, message.attempt, message.answer)
    case 'settle-again':
      return settleLater(turn, [message.session])
    case 'end-recorded':
      return endRecorded(turn, message.task, message.answer)
    case 'end-again':
      return recordEnd(turn, message.task)
    case 'deliver-refused':
      return deliverRefused(turn, message.task)
    case 'deliver-again':
      return deliverAgain(turn, message.task)
    case 'task-delivered':
      return taskDelivered(turn, message.task, message.state)
    default:
      return unreachable(message)
  }
}
