// What passes between the evaluator's thread and the worker that runs an operator's evaluator.
import type { MessagePort } from 'node:worker_threads'
import type { Command, ExecResult, Fallible } from '../runtime/runtime.ts'
import type { EvaluationContext } from './evaluator.ts'

/** The part of the context that is data. */
export type CustomFacts = Omit<EvaluationContext, 'agentSandbox' | 'freshSandbox'>

export type WhichSandbox = 'agent' | 'fresh'

/** The sandboxes, as the worker reaches them over its port. */
export type SandboxDesk = {
  /** Starts the fresh sandbox, unless it is there. */
  open(): Promise<Fallible<null>>
  exec(which: WhichSandbox, command: Command, timeoutMs: number): Promise<Fallible<ExecResult>>
  writeFile(which: WhichSandbox, path: string, content: string | Uint8Array): Promise<Fallible<void>>
  readFile(which: WhichSandbox, path: string, maxBytes: number): Promise<Fallible<Uint8Array>>
}

/** What the worker is started with, beside its port. */
export type CustomBirth = { readonly modulePath: string; readonly facts: CustomFacts; readonly desk: MessagePort }
