// What a submit becomes before it is stepped: with the ids of its sessions, and the digest by which the same body is known again.
import { canonicalDigest } from '../../contract/digest.ts'
import { sessionId } from '../../contract/ids.ts'
import type { RolloutServerSignal, ServerMessage } from './entries.ts'
import type { RolloutServerCommand } from './protocol.ts'

export function intake(message: RolloutServerCommand | RolloutServerSignal, drawUuid: () => string): ServerMessage {
  switch (message.type) {
    case 'submit': {
      const { request, ask } = message
      const sessions = Array.from({ length: request.num_samples }, () => sessionId(drawUuid()))
      return { type: 'admit', request, digest: canonicalDigest(request), sessions, ask }
    }
    case 'submit-session': {
      const { kind, gateway, resultUrl, ask } = message
      const single = { kind, gateway }
      const request = { ...message.request, num_samples: 1, early_stop_min_usable_sessions: null, callback_url: resultUrl }
      const session = message.session ?? sessionId(drawUuid())
      return { type: 'admit-session', single, request, digest: canonicalDigest([single, request]), session, ask }
    }
    default:
      return message
  }
}
