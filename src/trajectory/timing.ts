// The timing keys that a Polar peer knows: it rejects a whole result for one key it does not.

const STAGES = [
  'register_to_init_queue',
  'rollout_dispatch',
  'rollout_result_wait',
  'rollout_pipeline_e2e',
  'init',
  'ready_queue',
  'run',
  'postrun_queue',
  'postrun',
  'container_start',
  'eval_container_start',
  'runtime_validation',
  'eval_runtime_validation',
  'prepare',
  'eval_prepare',
  'agent_setup',
  'agent_exec',
  'agent_postprocess',
  'build',
  'eval',
  'postrun_exec',
  'runtime_stop',
  'e2e',
  'runtime_exec',
  'mini_swe_command',
] as const
const COUNTERS = ['count', 'timeout', 'failure', 'exception', 'cancelled'] as const

const KNOWN: ReadonlySet<string> = new Set([
  ...STAGES.map((stage) => `${stage}_ms`),
  ...COUNTERS.flatMap((counter) => [`runtime_exec_${counter}`, `mini_swe_command_${counter}`]),
])

/** Splits timings into those for the wire and those that only our own readers know. */
export function splitTiming(timing: Readonly<Record<string, number>>) {
  const entries = Object.entries(timing).filter(([, value]) => Number.isFinite(value))
  return {
    polar: Object.fromEntries(entries.filter(([key]) => KNOWN.has(key))),
    own: Object.fromEntries(entries.filter(([key]) => !KNOWN.has(key))),
  }
}
