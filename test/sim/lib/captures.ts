// Agents that were started elsewhere, on a simulated day: each is given a door, acts, and is finished, deleted or forgotten.
import type { GatewayCommand, SessionAccess } from '../../../src/actors/gateway/protocol.ts'
import type { RolloutServerCommand, SessionView, SubmitSessionReply } from '../../../src/actors/rollout-server/protocol.ts'
import type { GatewayId, SessionId } from '../../../src/contract/ids.ts'
import type { TaskRequest } from '../../../src/contract/task.ts'
import type { Answer, Ask } from '../../../src/kernel/ask.ts'
import type { World } from '../../../src/kernel/world.ts'
import type { Agents } from './agent.ts'
import { sleep } from './time.ts'

export type CapturePlan = {
  readonly session: SessionId
  readonly request: TaskRequest
  /** Null: the least loaded. */
  readonly gateway: GatewayId | null
  readonly openAtMs: number
  readonly resultUrl: string | null
  /** What its owner does when the agent is done, or when this long has passed, whatever comes first. */
  readonly end: 'finish' | 'delete' | 'forget'
  readonly patienceMs: number
  readonly reward: number | null
}

export type CaptureWorld = {
  readonly world: World
  readonly agents: Agents
  readonly ask: <R>(make: (ask: Ask<R>) => RolloutServerCommand) => Promise<R>
  readonly askGateway: <R>(gateway: GatewayId, make: (ask: Ask<R>) => GatewayCommand) => Promise<Answer<R>>
}

const AGAIN_MS = 1_000

/** Resolves when its owner has done with it; its end may still be to come. */
export async function captureElsewhere(plan: CapturePlan, { world, agents, ask, askGateway }: CaptureWorld): Promise<void> {
  const { session, request, gateway, resultUrl } = plan
  const read = (): Promise<SessionView | null> => ask((reply) => ({ type: 'read-session', session, ask: reply }))

  async function open(): Promise<SessionView> {
    for (;;) {
      const opened = await ask<SubmitSessionReply>((reply) => ({
        type: 'submit-session',
        kind: 'capture',
        gateway,
        session,
        request,
        resultUrl,
        ask: reply,
      }))
      if (opened.type === 'opened') return opened.view
      if (opened.type === 'conflict') throw new Error(`capture ${session}: ${opened.detail}`)
      await sleep(world, AGAIN_MS)
    }
  }

  /** Null when it has ended before anybody could use it. */
  async function accessTo(view: SessionView): Promise<SessionAccess | null> {
    for (let now: SessionView | null = view; now !== null && now.summary === null; now = await read()) {
      const answer =
        now.gateway === null
          ? null
          : await askGateway<SessionAccess | null>(now.gateway, (reply) => ({ type: 'read-access', session, ask: reply }))
      if (answer?.ok === true && answer.value !== null) return answer.value
      await sleep(world, AGAIN_MS)
    }
    return null
  }

  await sleep(world, plan.openAtMs)
  const view = await open()
  const access = await accessTo(view)
  if (access === null || view.gateway === null) return
  const gone = new AbortController()
  const env = {
    OPENAI_BASE_URL: `http://elsewhere:${access.modelPort}${access.basePath}/v1`,
    OPENAI_API_KEY: access.key,
    SESSION_ID: session,
  }
  const acting = agents.run({ command: 'simulated-agent', label: 'elsewhere', env }, '1', gone.signal)
  await Promise.race([acting, sleep(world, plan.patienceMs, gone.signal)])
  if (plan.end === 'finish') {
    await askGateway<boolean>(view.gateway, (reply) => ({ type: 'finish-capture', session, reward: plan.reward, ask: reply }))
  }
  if (plan.end === 'delete') await ask<SessionView | null>((reply) => ({ type: 'cancel-session', session, ask: reply }))
  gone.abort()
  await acting
}
