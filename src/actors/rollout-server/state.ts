// The rollout server's step: what each message makes of its tasks, sessions and gateways. Pure; actor.ts runs the effects.
import { unreachable } from '../../kernel/unreachable.ts'
import { admit, cancelTask, taskRecorded } from './admission.ts'
import { cancelAgain, cancelRefused, changeStatus, dispatch, dispatchRefused } from './dispatch.ts'
import { deliverAgain, deliverRefused, endRecorded, recordEnd, reopenDelivery, sessionFinished, settled, taskDelivered } from './endings.ts'
import type { ServerEffect, ServerMessage, ServerState } from './entries.ts'
import { addDemand, drainGateway, enrolGateway, loseGateway, releaseGateway, startGateway, stopGateway } from './gateways.ts'
import { answerIfDelivered, awaitDeliveries } from './retention.ts'
import { settleLater } from './settling.ts'
import { admitSession } from './singles.ts'
import { cancelSession, stopAdmission, stopSessions } from './stops.ts'
import { type Now, reply, type Turn } from './turn.ts'
import { gatewayViews, listSessions, listTasks, readSession, readTask, serverStatus } from './views.ts'

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
    case 'admit-session':
      return admitSession(turn, message)
    case 'task-recorded':
      return taskRecorded(turn, message.task, message.answer)
    case 'cancel':
      return cancelTask(turn, message)
    case 'cancel-session':
      return cancelSession(turn, message)
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
    case 'list-sessions':
      return reply(turn, message.ask, listSessions(turn.state, message))
    case 'drain-gateway':
      return drainGateway(turn, message)
    case 'enrol-gateway':
      return enrolGateway(turn, message)
    case 'gateway-started':
      return startGateway(turn, message)
    case 'gateway-lost':
      return loseGateway(turn, message.gateway)
    case 'gateway-rested':
      return releaseGateway(turn, message.gateway)
    case 'gateway-stopped':
      return stopGateway(turn, message)
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
    case 'delivery-reopened':
      return reopenDelivery(turn, message.task)
    default:
      return unreachable(message)
  }
}
