// How one agent CLI is installed, configured and run against a model base URL. A harness knows no actor and no runtime backend.
import type { AgentSpec } from '../contract/task.ts'
import type { Command } from '../runtime/runtime.ts'

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
  /** Where the installed CLIs are found: host folder per harness name, or null when not installed. */
  readonly agentFolder: (name: string) => string | null
  readonly sessionId: string
  readonly taskId: string
}

/** Files written before the run (mode 0600), then the commands in order; the first non-zero exit ends the run. */
export type HarnessPlan = {
  readonly files: readonly { readonly path: string; readonly content: string }[]
  readonly setup: readonly Command[]
  readonly run: Command
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
