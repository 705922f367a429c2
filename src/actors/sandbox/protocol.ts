// Sandboxes on the control thread: started, used and stopped for session actors on any gateway thread.
// One sandbox host owns every sandbox, so that a gateway thread's death leaves no process behind.
import type { GatewayId, SandboxId, SessionId } from '../../contract/ids.ts'
import type { PrepareAction, RuntimeSpec } from '../../contract/task.ts'
import type { Address } from '../../kernel/address.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { Command, ExecResult, Fallible, Isolation, ProcessExit } from '../../runtime/runtime.ts'

export type SandboxPurpose = 'agent' | 'grader'

export type StartedSandbox = {
  readonly sandbox: SandboxId
  readonly workdir: string
  readonly home: string
  readonly isolation: Isolation
  readonly notes: readonly string[]
}

export type AgentEnded = {
  readonly exit: ProcessExit
  readonly stdoutTail: string
  readonly stderrTail: string
}

/** Sent to the address named in `launch`, once. */
export type SandboxFact = { readonly type: 'process-ended'; readonly sandbox: SandboxId; readonly ended: AgentEnded }

export type SandboxCommand =
  | {
      readonly type: 'start-sandbox'
      readonly gateway: GatewayId
      readonly session: SessionId
      readonly attempt: number
      readonly purpose: SandboxPurpose
      readonly spec: RuntimeSpec
      readonly env: Readonly<Record<string, string>>
      readonly ask: Ask<Fallible<StartedSandbox>>
    }
  | {
      readonly type: 'prepare-sandbox'
      readonly sandbox: SandboxId
      readonly action: PrepareAction
      readonly timeoutMs: number
      readonly ask: Ask<Fallible<ExecResult | null>>
    }
  | {
      readonly type: 'execute'
      readonly sandbox: SandboxId
      readonly command: Command
      readonly timeoutMs: number
      readonly ask: Ask<Fallible<ExecResult>>
    }
  | {
      readonly type: 'write-file'
      readonly sandbox: SandboxId
      readonly path: string
      readonly content: string | ArrayBuffer
      readonly mode: number
      readonly ask: Ask<Fallible<void>>
    }
  | {
      readonly type: 'read-file'
      readonly sandbox: SandboxId
      readonly path: string
      readonly maxBytes: number
      readonly ask: Ask<Fallible<ArrayBuffer>>
    }
  | { readonly type: 'locate-model'; readonly sandbox: SandboxId; readonly port: number; readonly ask: Ask<Fallible<string>> }
  | {
      readonly type: 'launch'
      readonly sandbox: SandboxId
      readonly command: Command
      /** What of the agent's home is kept with its logs when the sandbox is stopped. */
      readonly logs: readonly string[]
      readonly notify: Address<SandboxFact>
      readonly ask: Ask<Fallible<void>>
    }
  /** Answered when the launched tree is gone (or as gone as the backend's isolation can make it). */
  | { readonly type: 'kill-process'; readonly sandbox: SandboxId; readonly graceMs: number; readonly ask: Ask<Fallible<void>> }
  | { readonly type: 'stop-sandbox'; readonly sandbox: SandboxId; readonly ask: Ask<void> }
  /** Stops every sandbox of that attempt, or those of one purpose, also one that is still starting. Answered when they are gone. */
  | {
      readonly type: 'stop-attempt'
      readonly session: SessionId
      readonly attempt: number
      readonly purpose?: SandboxPurpose
      readonly ask: Ask<void>
    }
  /** Stops every sandbox started for that gateway. */
  | { readonly type: 'gateway-lost'; readonly gateway: GatewayId }
  /** The node is stopping: nothing is started any more. */
  | { readonly type: 'stop-all'; readonly ask: Ask<void> }
