// SessionTiming: the keys that a Polar peer knows. It rejects a whole result for one key that it does not.
import { z } from 'zod'
import { count, milliseconds } from './words.ts'

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
const COUNTED = ['runtime_exec', 'mini_swe_command'] as const
const COUNTERS = ['count', 'timeout', 'failure', 'exception', 'cancelled'] as const

export const sessionTiming = z
  .object({
    ...Object.fromEntries(STAGES.map((stage) => [`${stage}_ms`, milliseconds.optional()])),
    ...Object.fromEntries(COUNTED.flatMap((what) => COUNTERS.map((counter) => [`${what}_${counter}`, count.optional()]))),
  })
  .meta({ id: 'SessionTiming', description: 'Milliseconds by stage, and counts; a stage that was not passed is left out.' })
