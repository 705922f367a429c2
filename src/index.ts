// What `import … from 'polar-node'` gives: a node in one's own process, the shapes that travel, and what an operator's own modules implement.

export type { Config, ConfigProblem, ConfigResult } from './config.ts'
/** Reads and checks a polar.yaml; null takes all defaults. What is wrong comes back as problems with file, line, column and key. */
export { loadConfig } from './config.ts'
/** One captured model call, without its tokens. */
export type { CallRecord } from './contract/call.ts'
/** How a session ended; everything else about it follows from that. */
export type { Outcome, OutcomeClass, SessionStatus, TerminalStatus } from './contract/outcome.ts'
/** What a trainer gets back per session: Polar's shapes, with typed token arrays as long as they are inside the process. */
export type { SessionResult, SessionSummary, Trace, Trajectory } from './contract/result.ts'

/** What a trainer submits, and the parts that custom code is given of it. */
export type { AgentSpec, EvaluatorSpec, RuntimeSpec, StrategySpec, TaskRequest, TaskStatus } from './contract/task.ts'
/** An evaluator: the module named under `polar_node.evaluators` exports `evaluate`, and `check` if it has something to check. */
export type { Evaluation, EvaluationContext, Evaluator, EvaluatorSandbox } from './evaluators/evaluator.ts'
/** An agent CLI: the module named under `polar_node.harnesses` exports it as `harness`. */
export type { AgentPackage } from './harness/agent-folder.ts'
export type { Harness, HarnessContext, HarnessPlan, HarnessVerdict, SetupStep } from './harness/harness.ts'
/** What a drain reports: each step by number and name, with its time and its error. */
export type { DrainReport } from './kernel/drain.ts'
export type { RunningNode, Started } from './main.ts'
/** Starts a whole node from a configuration and says where it listens, or why it could not; `drain` and `close` end it. */
export { startNode } from './main.ts'
/** Commands in sandboxes, as evaluators and harnesses give them, and what comes of them. */
export type { Command, ExecResult, Fallible, RuntimeError } from './runtime/runtime.ts'
/** A trajectory builder: the module named under `polar_node.builders` exports it as `build`. A pure function of captured calls. */
export type { Builder, BuilderCall, BuilderInput, BuilderOutput } from './trajectory/builder.ts'
