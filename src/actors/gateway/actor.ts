// Runs a gateway's effects: spawns session actors, tells them when a stage has room, announces demand to the rollout server.
import type { GatewayId, SessionId } from '../../contract/ids.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { ActorContext, ActorSpec, Receiver, Settled } from '../../kernel/actor.ts'
import type { Address } from '../../kernel/address.ts'
import type { Answer, Ask } from '../../kernel/ask.ts'
import type { Courier } from '../../kernel/courier.ts'
import { openMailbox } from '../../kernel/mailbox.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { Boundary, Inference, PauseOutcome, ReplicaView } from '../../proxy/boundary.ts'
import type { ResultFacts } from '../../trajectory/facts.ts'
import { emptyResult, type Finished } from '../../trajectory/result.ts'
import type { LedgerCommand, SettledResult } from '../ledger/protocol.ts'
import type { RolloutServerCommand } from '../rollout-server/protocol.ts'
import type { SandboxCommand } from '../sandbox/protocol.ts'
import type { SessionCommand, SessionMessage } from '../session/protocol.ts'
import type { ReadCalls } from './calls.ts'
import type {
  CompletionsReply,
  GatewayCommand,
  GatewayLimits,
  GatewayMetrics,
  GatewaySnapshot,
  InferenceStatus,
  PauseReply,
  SessionSpec,
} from './protocol.ts'
import { callsOf, type GatewayEffect, isCapturing, metricsOf, openGateway, sessionsOf, specOf, step } from './state.ts'

export type GatewayOptions = {
  readonly gateway: GatewayId
  /** To sessions: a command that met a mailbox full of a busy agent's calls must still arrive. */
  readonly courier: Courier
  readonly limits: GatewayLimits
  readonly modelPort: number
  readonly rolloutServer: Address<RolloutServerCommand>
  readonly ledger: Address<LedgerCommand>
  readonly sandboxes: Address<SandboxCommand>
  readonly teardownMs: number
  readonly sessionSpec: (spec: SessionSpec, gateway: Address<GatewayCommand>) => ActorSpec<SessionMessage>
  readonly arena: () => GatewayMetrics['arena']
  readonly readCalls: ReadCalls
  readonly boundary: Pick<Boundary, 'replicas' | 'addReplica' | 'removeReplica' | 'pause' | 'resume' | 'inference'>
}

type Internal =
  | { readonly type: 'reoffer-demand' }
  | {
      readonly type: 'replicas-read'
      readonly read: Extract<GatewayCommand, { type: 'read-gateway' }>
      readonly replicas: readonly ReplicaView[]
    }
  | { readonly type: 'inference-read'; readonly ask: Ask<InferenceStatus>; readonly read: Settled<Inference> }
  | {
      readonly type: 'pause-ended'
      readonly ask: Ask<PauseReply>
      readonly ended: Settled<{ readonly type: PauseOutcome; readonly inference: Inference }>
    }
  | { readonly type: 'calls-read'; readonly ask: Ask<CompletionsReply>; readonly read: Settled<CompletionsReply> }
  | { readonly type: 'settle-crash'; readonly spec: SessionSpec; readonly finished: Finished }
  | { readonly type: 'crash-settled'; readonly spec: SessionSpec; readonly finished: Finished; readonly result: Answer<SettledResult> }
  | { readonly type: 'report-crash'; readonly spec: SessionSpec; readonly summary: SessionSummary }

type Message = GatewayCommand | Internal

const REOFFER_MS = 50

export function gatewayActor(options: GatewayOptions): ActorSpec<Message> {
  // Each session sends at most a handful of facts between two turns of this actor; none of them may be refused.
  const { limits } = options
  const sessions = limits.maxReadySessions + limits.maxRunWorkers + 2 * limits.maxPostrunWorkers + limits.maxCaptures
  let capacity = 4096
  while (capacity < sessions * 16) capacity *= 2
  return { name: `gateway/${options.gateway}`, capacity, create: (context) => createReceiver(context, options) }
}

function createReceiver(context: ActorContext<Message>, options: GatewayOptions): Receiver<Message> {
  const sessions = new Map<SessionId, Address<SessionMessage>>()
  /** Demand that the rollout server does not know of yet, or that its mailbox refused; offered again, never lost. */
  let unannounced = 0
  let isReofferSet = false
  let isKnown = false
  const [opened, first] = openGateway(options.limits, openMailbox<SessionId>(options.limits.maxReadySessions))
  let state = opened
  unannounced = first.reduce((slots, effect) => slots + (effect.type === 'announce-demand' ? effect.slots : 0), 0)

  function announceDemand(slots: number): void {
    unannounced += slots
    if (unannounced === 0 || !isKnown) return
    const offer = context.tell(options.rolloutServer, { type: 'demand', gateway: options.gateway, slots: unannounced })
    if (offer === 'accepted') unannounced = 0
    else if (offer === 'full' && !isReofferSet) {
      isReofferSet = true
      context.after(REOFFER_MS, { type: 'reoffer-demand' })
    }
  }

  function perform(effect: GatewayEffect): void {
    switch (effect.type) {
      case 'spawn-session':
        sessions.set(effect.spec.session, context.spawn(options.sessionSpec(effect.spec, context.self)))
        return
      case 'tell-session': {
        const address = sessions.get(effect.session)
        if (address !== undefined) options.courier(address, effect.message)
        return
      }
      case 'forget-session':
        sessions.delete(effect.session)
        return
      case 'announce-demand':
        announceDemand(effect.slots)
        return
      case 'announce-status':
        // Progress for lists; a refused one is overtaken by the next.
        context.tell(options.rolloutServer, {
          type: 'session-changed',
          session: effect.session,
          attempt: effect.attempt,
          status: effect.status,
        })
        return
      case 'drained':
        for (const ask of effect.asks) context.reply(ask, undefined)
        return
      default:
        unreachable(effect)
    }
  }

  function snapshot(replicas: readonly ReplicaView[]): GatewaySnapshot {
    return {
      gateway: options.gateway,
      modelPort: options.modelPort,
      limits: options.limits,
      metrics: { ...metricsOf(state), arena: options.arena() },
      sessions: sessionsOf(state, context.clock.nowMs()),
      replicas,
    }
  }

  /** Ends a session whose actor threw: a masked result, no sandbox left, its place freed; the trainer sees `interrupted`. */
  function bury(actor: number, error: string): void {
    const session = [...sessions].find(([, address]) => address.actor === actor)?.[0]
    const spec = session === undefined ? null : specOf(state, session)
    if (spec === null) return
    const facts: ResultFacts = {
      session: spec.session,
      task: spec.task,
      attempt: spec.attempt,
      node: options.gateway,
      outcome: 'interrupted',
      error: `the session's actor failed: ${error}`,
      timing: {},
      taskMetadata: spec.request.metadata,
      agentResult: {},
      evaluation: null,
      evaluator: spec.request.evaluator?.strategy ?? null,
      calls: 0,
      model: null,
    }
    sessions.delete(spec.session)
    settleCrash(spec, emptyResult(facts))
  }

  /** The session may have recorded a result before it failed: then that one stands. */
  function settleCrash(spec: SessionSpec, finished: Finished): void {
    const { session, key: task, attempt } = spec
    const { summary, payload } = finished
    context.ask<LedgerCommand, SettledResult>(
      options.ledger,
      (ask) => ({ type: 'settle-result', session, task, attempt, summary, payload: payload.slice(0), ask }),
      options.teardownMs,
      (result) => ({ type: 'crash-settled', spec, finished, result }),
    )
  }

  /** The sandboxes go before the report: a next attempt may be sent here as soon as that is told. */
  function cleanCrash({ spec, finished, result }: Extract<Internal, { type: 'crash-settled' }>): void {
    if (!result.ok || (result.value.type === 'refused' && result.value.reason === 'full')) {
      context.after(REOFFER_MS, { type: 'settle-crash', spec, finished })
      return
    }
    const { session, attempt } = spec
    // A conflict: the task has ended without this session, and whoever is told will not be listening.
    const summary = result.value.type === 'settled' ? result.value.summary : finished.summary
    context.ask<SandboxCommand, void>(
      options.sandboxes,
      (ask) => ({ type: 'stop-attempt', session, attempt, ask }),
      options.teardownMs,
      () => ({ type: 'report-crash', spec, summary }),
    )
  }

  function reportCrash(message: Extract<Internal, { type: 'report-crash' }>): void {
    const { session, attempt } = message.spec
    const { summary } = message
    const offer = context.tell(options.rolloutServer, { type: 'session-finished', session, attempt, summary })
    if (offer === 'full') context.after(REOFFER_MS, message)
    else advance({ type: 'session-closed', session })
  }

  /** False when there is no such capture: then nobody else will answer. */
  function tellCapture(session: SessionId, message: SessionCommand): boolean {
    const address = isCapturing(state, session) ? sessions.get(session) : undefined
    if (address !== undefined) options.courier(address, message)
    return address !== undefined
  }

  function readInference(ask: Ask<InferenceStatus>): void {
    context.pipe(
      () => options.boundary.inference(),
      (read) => ({ type: 'inference-read', ask, read }),
    )
  }

  function advance(message: Parameters<typeof step>[1]): void {
    const [next, effects] = step(state, message, context.clock.nowMs())
    state = next
    for (const effect of effects) perform(effect)
  }

  return {
    receive(message: Message): void {
      switch (message.type) {
        case 'announce-demand':
          isKnown = true
          announceDemand(0)
          return
        case 'session-crashed':
          bury(message.actor, message.error)
          return
        case 'settle-crash':
          settleCrash(message.spec, message.finished)
          return
        case 'crash-settled':
          cleanCrash(message)
          return
        case 'report-crash':
          reportCrash(message)
          return
        case 'add-replica':
          context.reply(message.ask, options.boundary.addReplica(message.replica))
          return
        case 'remove-replica':
          context.reply(message.ask, options.boundary.removeReplica(message.replica))
          return
        case 'read-gateway':
          context.pipe(
            () => options.boundary.replicas(),
            (outcome) => ({ type: 'replicas-read', read: message, replicas: outcome.ok ? outcome.value : [] }),
          )
          return
        case 'replicas-read':
          context.reply(message.read.ask, snapshot(message.replicas))
          return
        case 'read-access': {
          const { session, ask } = message
          if (!tellCapture(session, { type: 'read-access', ask })) context.reply(ask, null)
          return
        }
        case 'finish-capture': {
          const { session, reward, ask } = message
          if (!tellCapture(session, { type: 'finish-capture', reward, ask })) context.reply(ask, false)
          return
        }
        case 'read-completions': {
          const spec = specOf(state, message.session)
          if (spec === null) context.reply(message.ask, { type: 'none' })
          else
            context.pipe(
              () => options.readCalls(spec, message.from, message.limit),
              (read) => ({ type: 'calls-read', ask: message.ask, read }),
            )
          return
        }
        case 'count-calls':
          context.reply(message.ask, callsOf(state, message.session))
          return
        case 'calls-read': {
          const { ask, read } = message
          context.reply(ask, read.ok ? read.value : { type: 'failed', detail: read.error.message })
          return
        }
        case 'read-inference':
          readInference(message.ask)
          return
        case 'pause-inference':
          context.pipe(
            async () => ({ type: await options.boundary.pause(message.timeoutMs), inference: await options.boundary.inference() }),
            (ended) => ({ type: 'pause-ended', ask: message.ask, ended }),
          )
          return
        case 'resume-inference':
          options.boundary.resume()
          readInference(message.ask)
          return
        case 'pause-ended': {
          if (!message.ended.ok) return
          const { type, inference } = message.ended.value
          context.reply(message.ask, { type, status: { gateway: options.gateway, ...inference } })
          return
        }
        case 'inference-read':
          if (message.read.ok) context.reply(message.ask, { gateway: options.gateway, ...message.read.value })
          return
        case 'reoffer-demand':
          isReofferSet = false
          announceDemand(0)
          return
        default:
          advance(message)
      }
    },
  }
}
