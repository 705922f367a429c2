// Which sandboxes exist, whom they belong to, and which of them are on their way out. Pure; actor.ts talks to the runtimes.
import type { GatewayId, SandboxId, SessionId } from '../../contract/ids.ts'
import { sandboxId } from '../../contract/ids.ts'
import type { Ask } from '../../kernel/ask.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { Fallible, RuntimeError, SandboxRef } from '../../runtime/runtime.ts'
import type { SandboxCommand, SandboxPurpose, StartedSandbox } from './protocol.ts'

type Owner = {
  readonly gateway: GatewayId
  readonly session: SessionId
  readonly attempt: number
  readonly purpose: SandboxPurpose
}

type Sandbox = Owner &
  (
    | { readonly phase: 'starting'; readonly ask: Ask<Fallible<StartedSandbox>>; readonly isUnwanted: boolean }
    | { readonly phase: 'live'; readonly ref: SandboxRef }
    | { readonly phase: 'stopping'; readonly ref: SandboxRef }
  )

type Waiter = { readonly left: ReadonlySet<SandboxId>; readonly ask: Ask<void> }

export type SandboxState = {
  readonly sandboxes: ReadonlyMap<SandboxId, Sandbox>
  readonly waiters: readonly Waiter[]
  readonly nextId: number
  readonly isStopping: boolean
}

export type SandboxSignal =
  | {
      readonly type: 'start-settled'
      readonly sandbox: SandboxId
      readonly result: Fallible<{ readonly ref: SandboxRef; readonly started: StartedSandbox }>
    }
  | { readonly type: 'stop-settled'; readonly sandbox: SandboxId }

/** Commands that use one live sandbox. */
export type Operation = Extract<
  SandboxCommand,
  { type: 'prepare-sandbox' | 'execute' | 'write-file' | 'read-file' | 'locate-model' | 'launch' | 'kill-process' }
>

export type SandboxEffect =
  | { readonly type: 'start'; readonly sandbox: SandboxId; readonly command: Extract<SandboxCommand, { type: 'start-sandbox' }> }
  | { readonly type: 'answer-start'; readonly ask: Ask<Fallible<StartedSandbox>>; readonly result: Fallible<StartedSandbox> }
  | { readonly type: 'operate'; readonly ref: SandboxRef; readonly operation: Operation }
  | { readonly type: 'refuse'; readonly operation: Operation; readonly error: RuntimeError }
  | { readonly type: 'stop'; readonly sandbox: SandboxId; readonly ref: SandboxRef; readonly owner: Owner }
  | { readonly type: 'answer-stopped'; readonly ask: Ask<void> }

type Step = readonly [SandboxState, readonly SandboxEffect[]]

export const noSandboxes: SandboxState = { sandboxes: new Map(), waiters: [], nextId: 1, isStopping: false }

export function step(state: SandboxState, message: SandboxCommand | SandboxSignal): Step {
  switch (message.type) {
    case 'start-sandbox': {
      if (state.isStopping) {
        const error: RuntimeError = { code: 'start-failed', detail: 'the node is stopping' }
        return [state, [{ type: 'answer-start', ask: message.ask, result: { ok: false, error } }]]
      }
      const sandbox = sandboxId(`${message.session}.${message.attempt}.${message.purpose}.${state.nextId}`)
      const { gateway, session, attempt, purpose, ask } = message
      const next = put(state, sandbox, { gateway, session, attempt, purpose, phase: 'starting', ask, isUnwanted: false })
      return [{ ...next, nextId: state.nextId + 1 }, [{ type: 'start', sandbox, command: message }]]
    }
    case 'start-settled':
      return startSettled(state, message)
    case 'stop-settled':
      return gone(state, message.sandbox, [])
    case 'stop-sandbox':
      return stop(state, (_, id) => id === message.sandbox, message.ask)
    case 'stop-attempt': {
      const { session, attempt, purpose, ask } = message
      const isMeant = (sandbox: Sandbox): boolean =>
        sandbox.session === session && sandbox.attempt === attempt && (purpose === undefined || sandbox.purpose === purpose)
      return stop(state, isMeant, ask)
    }
    case 'gateway-lost':
      return stop(state, (sandbox) => sandbox.gateway === message.gateway, null)
    case 'stop-all':
      return stop({ ...state, isStopping: true }, () => true, message.ask)
    case 'prepare-sandbox':
    case 'execute':
    case 'write-file':
    case 'read-file':
    case 'locate-model':
    case 'launch':
    case 'kill-process': {
      const sandbox = state.sandboxes.get(message.sandbox)
      if (sandbox?.phase === 'live') return [state, [{ type: 'operate', ref: sandbox.ref, operation: message }]]
      const error: RuntimeError = { code: 'sandbox-gone', detail: `sandbox ${message.sandbox} does not exist or is being stopped` }
      return [state, [{ type: 'refuse', operation: message, error }]]
    }
    default:
      return unreachable(message)
  }
}

function startSettled(state: SandboxState, message: Extract<SandboxSignal, { type: 'start-settled' }>): Step {
  const sandbox = state.sandboxes.get(message.sandbox)
  if (sandbox?.phase !== 'starting') return [state, []]
  const { ask, isUnwanted, ...owner } = sandbox
  if (!message.result.ok) {
    return gone(state, message.sandbox, [{ type: 'answer-start', ask, result: message.result }])
  }
  const { ref, started } = message.result.value
  const { gateway, session, attempt, purpose } = owner
  if (isUnwanted) {
    const error: RuntimeError = { code: 'sandbox-gone', detail: 'the session ended while its sandbox was starting' }
    return [
      put(state, message.sandbox, { gateway, session, attempt, purpose, phase: 'stopping', ref }),
      [
        { type: 'answer-start', ask, result: { ok: false, error } },
        { type: 'stop', sandbox: message.sandbox, ref, owner: { gateway, session, attempt, purpose } },
      ],
    ]
  }
  return [
    put(state, message.sandbox, { gateway, session, attempt, purpose, phase: 'live', ref }),
    [{ type: 'answer-start', ask, result: { ok: true, value: started } }],
  ]
}

/** Stops what matches; a sandbox that is still starting is stopped as soon as it has started. */
function stop(state: SandboxState, matches: (sandbox: Sandbox, id: SandboxId) => boolean, ask: Ask<void> | null): Step {
  const sandboxes = new Map(state.sandboxes)
  const effects: SandboxEffect[] = []
  const left = new Set<SandboxId>()
  for (const [id, sandbox] of state.sandboxes) {
    if (!matches(sandbox, id)) continue
    left.add(id)
    const { gateway, session, attempt, purpose } = sandbox
    const owner = { gateway, session, attempt, purpose }
    if (sandbox.phase === 'starting') sandboxes.set(id, { ...sandbox, isUnwanted: true })
    if (sandbox.phase === 'live') {
      sandboxes.set(id, { ...owner, phase: 'stopping', ref: sandbox.ref })
      effects.push({ type: 'stop', sandbox: id, ref: sandbox.ref, owner })
    }
  }
  if (ask === null) return [{ ...state, sandboxes }, effects]
  if (left.size === 0) return [state, [{ type: 'answer-stopped', ask }]]
  return [{ ...state, sandboxes, waiters: [...state.waiters, { left, ask }] }, effects]
}

function gone(state: SandboxState, id: SandboxId, before: readonly SandboxEffect[]): Step {
  const sandboxes = new Map(state.sandboxes)
  sandboxes.delete(id)
  const effects = [...before]
  const waiters: Waiter[] = []
  for (const waiter of state.waiters) {
    const left = new Set(waiter.left)
    left.delete(id)
    if (left.size === 0) effects.push({ type: 'answer-stopped', ask: waiter.ask })
    else waiters.push({ left, ask: waiter.ask })
  }
  return [{ ...state, sandboxes, waiters }, effects]
}

function put(state: SandboxState, id: SandboxId, sandbox: Sandbox): SandboxState {
  const sandboxes = new Map(state.sandboxes)
  sandboxes.set(id, sandbox)
  return { ...state, sandboxes }
}
