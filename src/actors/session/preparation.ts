// INIT after the sandbox is up: the task's prepare actions, the door to the model, the harness's files and its set-up commands.
import type { RuntimeSpec } from '../../contract/task.ts'
import { logsFolder } from '../../harness/environment.ts'
import type { Harness, HarnessContext, HarnessPlan } from '../../harness/harness.ts'
import type { Address } from '../../kernel/address.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { SessionDoor } from '../../proxy/boundary.ts'
import { hostAnswer } from '../../runtime/host-answer.ts'
import type { ExecResult, Fallible } from '../../runtime/runtime.ts'
import type { SessionSpec } from '../gateway/protocol.ts'
import type { SandboxCommand, StartedSandbox } from '../sandbox/protocol.ts'
import type { Preparation } from './protocol.ts'

export type PreparationDeps = {
  readonly kernel: Kernel
  readonly sandboxes: Address<SandboxCommand>
  readonly harness: Harness
  readonly installedAgent: HarnessContext['installedAgent']
  readonly modelPort: number
  /** Refused when the session ended meanwhile: then nothing more is done. */
  readonly openDoor: () => { readonly ok: true; readonly door: SessionDoor } | { readonly ok: false; readonly error: string }
  readonly deadlineMs: number
}

/** The agent's command, and what it leaves to be kept. */
export type AgentRun = { readonly command: HarnessPlan['run']; readonly logs: readonly string[] }

export type Prepared = { readonly preparation: Preparation; readonly run: AgentRun | null }

/** How much of a failed command's output goes into the session's error. */
const OUTPUT_SHOWN = 800

export async function prepareSession(
  spec: SessionSpec,
  sandbox: StartedSandbox,
  runtime: RuntimeSpec,
  deps: PreparationDeps,
): Promise<Prepared> {
  const { kernel } = deps
  const leftMs = (): number => Math.max(1, deps.deadlineMs - kernel.clock.nowMs())
  const askHost = async <R>(make: (ask: Ask<Fallible<R>>) => SandboxCommand): Promise<Fallible<R>> =>
    hostAnswer(await kernel.ask(deps.sandboxes, make, leftMs()))

  const began = kernel.clock.nowMs()
  for (const [index, action] of runtime.prepare.entries()) {
    const result = await askHost<ExecResult | null>((ask) => ({
      type: 'prepare-sandbox',
      sandbox: sandbox.sandbox,
      action,
      timeoutMs: leftMs(),
      ask,
    }))
    const problem = problemOf(result)
    // What the operator's rules refuse they refuse every time.
    const isFinal = !result.ok && result.error.code === 'upload-refused'
    if (problem !== null) return failed('init', `prepare action ${index} (${action.type}) failed: ${problem}`, isFinal)
  }
  const prepareMs = kernel.clock.nowMs() - began

  const opened = deps.openDoor()
  if (!opened.ok) return failed('init', opened.error)
  const { door } = opened
  const located = await askHost<string>((ask) => ({ type: 'locate-model', sandbox: sandbox.sandbox, port: deps.modelPort, ask }))
  if (!located.ok) return failed('init', located.error.detail)

  const planned = deps.harness.plan({
    agent: spec.request.agent,
    instruction: spec.request.instruction,
    modelUrl: located.value + door.basePath,
    modelKey: door.key,
    home: sandbox.home,
    workdir: sandbox.workdir,
    installedAgent: deps.installedAgent,
    sessionId: spec.session,
    taskId: spec.task,
  })
  // A plan is made from the task and this node's set-up alone.
  if (!planned.ok) return failed('harness', planned.error, true)

  for (const { source, target } of planned.plan.uploads ?? []) {
    const action = { type: 'upload_dir', source, target, max_attempts: 1, retry_backoff_seconds: 0 } as const
    const uploaded = await askHost<ExecResult | null>((ask) => ({
      type: 'prepare-sandbox',
      sandbox: sandbox.sandbox,
      action,
      timeoutMs: leftMs(),
      ask,
    }))
    if (!uploaded.ok)
      return failed('init', `could not upload to ${target}: ${uploaded.error.detail}`, uploaded.error.code === 'upload-refused')
  }
  for (const file of planned.plan.files) {
    const written = await askHost<void>((ask) => ({
      type: 'write-file',
      sandbox: sandbox.sandbox,
      path: file.path,
      content: file.content,
      mode: 0o600,
      ask,
    }))
    if (!written.ok) return failed('init', `could not write ${file.path}: ${written.error.detail}`)
  }
  const setupBegan = kernel.clock.nowMs()
  for (const command of planned.plan.setup) {
    const result = await askHost<ExecResult>((ask) => ({ type: 'execute', sandbox: sandbox.sandbox, command, timeoutMs: leftMs(), ask }))
    const problem = problemOf(result)
    if (problem === null) continue
    // What never ran to its end would end otherwise another time.
    const isFinal = command.isFinal === true && result.ok && result.value.exit.type === 'exited'
    return failed('harness', `set-up step '${command.label}' of ${deps.harness.name} failed: ${problem}`, isFinal)
  }
  return {
    preparation: { ok: true, prepareMs, setupMs: kernel.clock.nowMs() - setupBegan },
    run: { command: planned.plan.run, logs: [logsFolder(sandbox.home), ...(planned.plan.logs ?? [])] },
  }
}

function failed(blame: 'init' | 'harness', detail: string, isFinal = false): Prepared {
  return { preparation: { ok: false, blame, isFinal, detail }, run: null }
}

function problemOf(result: Fallible<ExecResult | null>): string | null {
  if (!result.ok) return result.error.detail
  if (result.value === null) return null
  const { exit, stdout, stderr } = result.value
  if (exit.type === 'exited' && exit.code === 0) return null
  const how = exit.type === 'exited' ? `exit code ${exit.code}` : exit.type === 'signalled' ? `signal ${exit.signal}` : exit.type
  const output = (stderr.trim() || stdout.trim()).slice(-OUTPUT_SHOWN)
  return output === '' ? how : `${how}: ${output}`
}
