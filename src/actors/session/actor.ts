// Runs a session's effects: asks the sandbox host, opens and seals the door to the model, asks builder, evaluator and ledger.
import type { GatewayId } from '../../contract/ids.ts'
import { limitsOf } from '../../contract/session-budget.ts'
import { purposeOf, type RuntimeSpec } from '../../contract/task.ts'
import type { Harness, HarnessContext } from '../../harness/harness.ts'
import type { ActorContext, ActorSpec, Receiver } from '../../kernel/actor.ts'
import type { Address } from '../../kernel/address.ts'
import type { Timer } from '../../kernel/clock.ts'
import type { Courier } from '../../kernel/courier.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { Boundary, SealedCalls, SessionDoor } from '../../proxy/boundary.ts'
import type { Fallible } from '../../runtime/runtime.ts'
import { emptyResult } from '../../trajectory/result.ts'
import type { BuilderCommand, BuildReply } from '../builder/protocol.ts'
import type { EvaluatorCommand, EvaluatorReply } from '../evaluator/protocol.ts'
import type { GatewayCommand, SessionSpec } from '../gateway/protocol.ts'
import type { LedgerCommand, Recorded } from '../ledger/protocol.ts'
import type { RolloutServerCommand } from '../rollout-server/protocol.ts'
import type { AgentEnded, SandboxCommand, StartedSandbox } from '../sandbox/protocol.ts'
import { factsOf } from './facts.ts'
import type { SessionEffect, SessionPolicy, SessionStep } from './phases.ts'
import { pinsOf } from './pins.ts'
import { reported } from './post-run.ts'
import { type AgentRun, prepareSession } from './preparation.ts'
import type { Deadline, Preparation, SessionMessage } from './protocol.ts'
import { openSession, step } from './state.ts'

type SessionPeers = {
  readonly gateway: Address<GatewayCommand>
  readonly rolloutServer: Address<RolloutServerCommand>
  readonly sandboxes: Address<SandboxCommand>
  readonly ledger: Address<LedgerCommand>
  readonly builder: Address<BuilderCommand>
  readonly evaluator: Address<EvaluatorCommand>
}

export type SessionOptions = {
  readonly kernel: Kernel
  /** To the gateway: a fact about a stage that got lost would hold the session, and its place, for ever. */
  readonly courier: Courier
  readonly node: GatewayId
  readonly policy: SessionPolicy
  readonly peers: SessionPeers
  readonly boundary: Boundary
  readonly modelPort: number
  /** Null for a capture: its agent is not run here. */
  readonly harness: Harness | null
  readonly installedAgent: HarnessContext['installedAgent']
  /** How long an evaluation may wait for a grader sandbox on top of its own budget. */
  readonly graderWaitMs: number
}

const REOFFER_MS = 50
const RECORD_RETRY_MS = 250
const MAX_RECORD_DOUBLINGS = 4

export function sessionActor(spec: SessionSpec, options: SessionOptions): ActorSpec<SessionMessage> {
  return {
    name: `session/${spec.session}.${spec.attempt}`,
    capacity: 256,
    create: (context) => createReceiver(context, spec, options),
  }
}

function createReceiver(context: ActorContext<SessionMessage>, spec: SessionSpec, options: SessionOptions): Receiver<SessionMessage> {
  const { peers, policy, harness } = options
  const { budgets } = policy
  let state = openSession(spec, policy, context.clock.nowMs())
  let door: SessionDoor | null = null
  let isSealed = false
  let run: AgentRun | null = null
  /** Beside the steps: they go with whatever result this attempt gets, and decide nothing. */
  let completions: ArrayBuffer | null = null
  let recordRetries = 0
  const timers = new Map<Deadline, Timer>()
  const runtime: RuntimeSpec | null | undefined = spec.request.runtime

  const judge = (ended: AgentEnded): string | null => {
    if (harness === null) return null
    const verdict = harness.verdict({
      exitCode: ended.exit.type === 'exited' ? ended.exit.code : -1,
      stdoutTail: ended.stdoutTail,
      stderrTail: ended.stderrTail,
    })
    return verdict.failed ? verdict.reason : null
  }

  function advance([next, effects]: SessionStep): void {
    state = next
    for (const effect of effects) perform(effect)
  }

  function openDoor(): { readonly ok: true; readonly door: SessionDoor } | { readonly ok: false; readonly error: string } {
    if (isSealed) return { ok: false, error: 'the session ended while it was being prepared' }
    const opened = options.boundary.openDoor({
      session: spec.session,
      attempt: spec.attempt,
      tier: purposeOf(spec.request.metadata) === 'evaluation' ? 'eval' : 'train',
      pins: pinsOf(spec),
      limits: limitsOf(spec.request.metadata, policy.modelBudget),
      notify: (fact) => {
        // Facts are counts for budgets and progress; the records themselves stay with the door. A full mailbox only delays them.
        if (context.tell(context.self, fact) === 'full') context.after(REOFFER_MS, fact)
      },
    })
    if (opened.ok) door = opened.door
    return opened
  }

  function perform(effect: SessionEffect): void {
    switch (effect.type) {
      case 'open-door': {
        const opened = openDoor()
        if (opened.ok) opened.door.beginRun()
        else context.after(0, { type: 'door-refused', error: opened.error })
        return
      }
      case 'answer-finish':
        context.reply(effect.ask, effect.isTaken)
        return
      case 'answer-access': {
        const access = door === null ? null : { key: door.key, basePath: door.basePath, modelPort: options.modelPort }
        context.reply(effect.ask, effect.isOpen ? access : null)
        return
      }
      case 'start-sandbox':
        if (runtime == null) {
          advance(abandonWithoutRuntime())
          return
        }
        context.ask<SandboxCommand, Fallible<StartedSandbox>>(
          peers.sandboxes,
          (ask) => ({
            type: 'start-sandbox',
            gateway: options.node,
            session: spec.session,
            attempt: spec.attempt,
            purpose: 'agent',
            spec: runtime,
            env: { SESSION_ID: spec.session, TASK_ID: spec.task },
            ask,
          }),
          budgets.initMs + budgets.teardownMs,
          (result) => ({ type: 'sandbox-started', result }),
        )
        return
      case 'prepare':
        prepare(effect.sandbox)
        return
      case 'launch':
        door?.beginRun()
        launch(effect.sandbox)
        return
      case 'arm':
        timers.set(effect.deadline, context.after(effect.afterMs, { type: 'deadline-passed', of: effect.deadline }))
        return
      case 'disarm':
        timers.get(effect.deadline)?.cancel()
        timers.delete(effect.deadline)
        return
      case 'kill-agent':
        context.ask<SandboxCommand, Fallible<void>>(
          peers.sandboxes,
          (ask) => ({ type: 'kill-process', sandbox: effect.sandbox.sandbox, graceMs: Math.min(2_000, budgets.teardownMs / 2), ask }),
          budgets.teardownMs,
          (result) => ({ type: 'agent-killed', result }),
        )
        return
      case 'seal':
        isSealed = true
        context.pipe<SealedCalls | null>(
          async () => (door === null ? null : door.seal()),
          (result) => ({ type: 'sealed', result }),
        )
        return
      case 'announce':
        // Progress for lists: the next status says more than a lost one.
        context.tell(peers.gateway, {
          type: 'session-status',
          session: spec.session,
          status: effect.status,
          calls: effect.calls,
          model: effect.model,
        })
        return
      case 'tell-gateway':
        options.courier(peers.gateway, { type: effect.fact, session: spec.session })
        return
      case 'build':
        context.ask<BuilderCommand, BuildReply>(
          peers.builder,
          (ask) => ({
            type: 'build',
            session: spec.session,
            task: spec.task,
            attempt: spec.attempt,
            strategy: spec.request.builder,
            sealed: effect.sealed,
            taskMetadata: spec.request.metadata,
            timeoutMs: budgets.buildMs,
            ask,
          }),
          budgets.buildMs + budgets.teardownMs,
          (result) => ({ type: 'built', result }),
        )
        return
      case 'release-sealed':
        door?.releaseSealed()
        return
      case 'evaluate':
        evaluate(effect)
        return
      case 'withdraw-evaluation':
        context.tell(peers.evaluator, { type: 'withdraw-evaluation', session: spec.session, attempt: spec.attempt })
        return
      case 'finish':
        finish(effect)
        return
      case 'record':
        if (effect.isRetry) {
          // Each try copies the result, on the thread that serves model calls.
          context.after(RECORD_RETRY_MS * 2 ** Math.min(recordRetries, MAX_RECORD_DOUBLINGS), { type: 'record-again' })
          recordRetries += 1
          return
        }
        context.ask<LedgerCommand, Recorded>(
          peers.ledger,
          (ask) => ({
            type: 'record-result',
            task: spec.key,
            session: spec.session,
            attempt: spec.attempt,
            summary: effect.summary,
            // The message takes its bytes with it; the original stays for another try.
            payload: effect.payload.slice(0),
            completions: completions?.slice(0) ?? null,
            ask,
          }),
          budgets.teardownMs,
          (result) => ({ type: 'recorded', result }),
        )
        return
      case 'stop-sandboxes':
        context.ask<SandboxCommand, void>(
          peers.sandboxes,
          (ask) => ({ type: 'stop-attempt', session: spec.session, attempt: spec.attempt, ask }),
          budgets.teardownMs * 2,
          (result) => ({ type: 'sandboxes-stopped', result }),
        )
        return
      case 'report': {
        const offer = context.tell(peers.rolloutServer, {
          type: 'session-finished',
          session: spec.session,
          attempt: spec.attempt,
          summary: effect.summary,
        })
        if (offer === 'full') context.after(REOFFER_MS, { type: 'report-again' })
        else advance(reported(state))
        return
      }
      case 'close':
        door?.close()
        options.courier(peers.gateway, { type: 'session-closed', session: spec.session })
        context.stop()
        return
      default:
        unreachable(effect)
    }
  }

  function abandonWithoutRuntime(): SessionStep {
    const error = { code: 'start-failed' as const, detail: 'the task names no runtime and this node has no default_runtime' }
    return step(state, { type: 'sandbox-started', result: { ok: true, value: { ok: false, error } } }, context.clock.nowMs(), judge)
  }

  function prepare(sandbox: StartedSandbox): void {
    context.pipe<Preparation>(
      async () => {
        if (runtime == null || harness === null) return { ok: false, blame: 'init', isFinal: true, detail: 'nothing to run, or nowhere' }
        const prepared = await prepareSession(spec, sandbox, runtime, {
          kernel: options.kernel,
          sandboxes: peers.sandboxes,
          harness,
          installedAgent: options.installedAgent,
          modelPort: options.modelPort,
          openDoor,
          deadlineMs: context.clock.nowMs() + budgets.initMs,
        })
        run = prepared.run
        return prepared.preparation
      },
      (result) => ({ type: 'prepared', result }),
    )
  }

  function launch(sandbox: StartedSandbox): void {
    const agent = run
    if (agent === null) throw new Error(`session ${spec.session} reached RUNNING without a plan`)
    context.ask<SandboxCommand, Fallible<void>>(
      peers.sandboxes,
      (ask) => ({ type: 'launch', sandbox: sandbox.sandbox, ...agent, notify: context.self, ask }),
      budgets.teardownMs,
      (result) => ({ type: 'launched', result }),
    )
  }

  function evaluate(effect: Extract<SessionEffect, { type: 'evaluate' }>): void {
    const evaluator = spec.request.evaluator
    if (evaluator == null || runtime == null) throw new Error(`session ${spec.session} is to be graded without an evaluator`)
    context.ask<EvaluatorCommand, EvaluatorReply>(
      peers.evaluator,
      (ask) => ({
        type: 'evaluate',
        gateway: options.node,
        session: spec.session,
        task: spec.task,
        attempt: spec.attempt,
        spec: evaluator,
        runtime,
        agentSandbox: effect.sandbox.sandbox,
        outcome: effect.outcome,
        exitCode: effect.exitCode,
        traceCount: effect.traces,
        timeoutMs: budgets.evaluateMs,
        ask,
      }),
      budgets.evaluateMs + budgets.teardownMs + options.graderWaitMs,
      (result) => ({ type: 'evaluated', result }),
    )
  }

  function finish(effect: Extract<SessionEffect, { type: 'finish' }>): void {
    const facts = factsOf(spec, options.node, effect, door?.budget() ?? null)
    const { payload } = effect
    if (payload === null) {
      // Nothing to compute, and nobody to ask: this result must not depend on the part that may have failed.
      context.after(0, { type: 'finished', result: { ok: true, value: { type: 'finished', ...emptyResult(facts) } } })
      return
    }
    context.ask<BuilderCommand, BuildReply>(
      peers.builder,
      (ask) => ({ type: 'finish', payload, facts, timeoutMs: budgets.buildMs, ask }),
      budgets.buildMs + budgets.teardownMs,
      (result) => ({ type: 'finished', result }),
    )
  }

  return {
    receive(message): void {
      if (message.type === 'built' && message.result.ok && message.result.value.type !== 'finished') {
        completions = message.result.value.completions
      }
      advance(step(state, message, context.clock.nowMs(), judge))
    },
    stopped(): void {
      for (const timer of timers.values()) timer.cancel()
      // Ended from outside (the thread is closing): nobody will read the calls, so the door goes with the session.
      door?.close()
    },
  }
}
