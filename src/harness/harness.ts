// How one agent CLI is installed, configured and run against a model base URL. A harness knows no actor and no runtime backend.
import type { AgentSpec } from '../contract/task.ts'
import type { Command } from '../runtime/runtime.ts'
import type { AgentPackage } from './agent-folder.ts'

export type HarnessContext = {
  readonly agent: AgentSpec
  readonly instruction: string
  /** `http://host:port/s/<session>`: the model port as seen from inside the sandbox, without a version suffix. */
  readonly modelUrl: string
  /** The attempt's secret. It goes into the environment only, never on a command line. */
  readonly modelKey: string
  /** Paths as seen from inside. */
  readonly home: string
  readonly workdir: string
  /** This node's own copy of a CLI, by the name of its package, or null when it is not installed. */
  readonly installedAgent: (name: string) => AgentPackage | null
  readonly sessionId: string
  readonly taskId: string
}

/** The first step with a non-zero exit ends the session; when the step `isFinal`, another attempt would meet the same and is not made. */
export type SetupStep = Command & { readonly isFinal?: boolean }

/** Uploads and files (mode 0600) are put into the sandbox, then the steps are done in order, then the agent runs. All paths are absolute. */
export type HarnessPlan = {
  readonly files: readonly { readonly path: string; readonly content: string }[]
  /** Folders of the host, each under one of the operator's upload roots, copied into the sandbox. */
  readonly uploads?: readonly { readonly source: string; readonly target: string }[]
  readonly setup: readonly SetupStep[]
  readonly run: Command
  /** Files and folders under the agent's home that are kept with the session's logs when the agent has ended. */
  readonly logs?: readonly string[]
}

export type HarnessVerdict = { readonly failed: false } | { readonly failed: true; readonly reason: string }

export type Harness = {
  readonly name: string
  /** The dialect it speaks, for people and for docs. */
  readonly dialect: string
  /** Checks the agent spec when the task is submitted: a problem in the caller's terms, or null. */
  check(agent: AgentSpec): string | null
  plan(context: HarnessContext): { readonly ok: true; readonly plan: HarnessPlan } | { readonly ok: false; readonly error: string }
  /** Reads the end of the agent's output: some CLIs exit 0 although the model call failed. */
  verdict(output: { readonly exitCode: number; readonly stdoutTail: string; readonly stderrTail: string }): HarnessVerdict
}
