// The planted faults: one broken rule each, for every invariant of the design and every promise of the boundary, the node and its surfaces.
import type { PlantedFault } from './fault.ts'
import { AGENT_PROGRAM_FAULTS } from './faults/agent-programs.ts'
import { ANTHROPIC_FAULTS } from './faults/anthropic.ts'
import { BUDGET_FAULTS } from './faults/budgets.ts'
import { CAPTURE_FAULTS } from './faults/captures.ts'
import { CONTRACT_FAULTS } from './faults/contract.ts'
import { DOCTOR_FAULTS } from './faults/doctor.ts'
import { EMBEDDED_FAULTS } from './faults/embedded.ts'
import { EMBEDDED_LLAMA_FAULTS } from './faults/embedded-llama.ts'
import { ENGINE_PROCESS_FAULTS } from './faults/engine-process.ts'
import { ENGINE_FAULTS } from './faults/engines.ts'
import { EVALUATION_FAULTS } from './faults/evaluation.ts'
import { FEED_FAULTS } from './faults/feed.ts'
import { FUZZ_FAULTS } from './faults/fuzz.ts'
import { GEMINI_QWEN_FAULTS } from './faults/gemini-qwen.ts'
import { GOOGLE_FAULTS } from './faults/google.ts'
import { HARNESS_FAULTS } from './faults/harness.ts'
import { INFERENCE_FAULTS } from './faults/inference.ts'
import { KERNEL_FAULTS } from './faults/kernel.ts'
import { LINEAGE_FAULTS } from './faults/lineage.ts'
import { LIVE_FAULTS } from './faults/live-streaming.ts'
import { OPENAPI_FAULTS } from './faults/openapi.ts'
import { OPENCODE_FAULTS } from './faults/opencode.ts'
import { OUTAGE_FAULTS } from './faults/outage.ts'
import { PROXY_FAULTS } from './faults/proxy.ts'
import { REPLICA_FAULTS } from './faults/replicas.ts'
import { RESPONSES_FAULTS } from './faults/responses.ts'
import { RESULT_FAULTS } from './faults/results.ts'
import { RETRY_FAULTS } from './faults/retries.ts'
import { ROLLOUT_FAULTS } from './faults/rollout.ts'
import { SESSION_FAULTS } from './faults/session.ts'
import { SINGLE_FAULTS } from './faults/singles.ts'
import { SURFACE_FAULTS } from './faults/surface.ts'
import { TINY_POLICY_FAULTS } from './faults/tiny-policy.ts'
import { TOKEN_FAULTS } from './faults/tokens.ts'
import { REAL_TOKEN_FAULTS } from './faults/tokens-real.ts'
import { TRAJECTORY_FAULTS } from './faults/trajectory.ts'
import { WEIGHT_UPDATE_FAULTS } from './faults/weight-updates.ts'

export const FAULTS: readonly PlantedFault[] = [
  ...KERNEL_FAULTS,
  ...TOKEN_FAULTS,
  ...REAL_TOKEN_FAULTS,
  ...PROXY_FAULTS,
  ...LIVE_FAULTS,
  ...OUTAGE_FAULTS,
  ...BUDGET_FAULTS,
  ...ENGINE_FAULTS,
  ...EMBEDDED_FAULTS,
  ...ENGINE_PROCESS_FAULTS,
  ...EMBEDDED_LLAMA_FAULTS,
  ...REPLICA_FAULTS,
  ...INFERENCE_FAULTS,
  ...WEIGHT_UPDATE_FAULTS,
  ...ANTHROPIC_FAULTS,
  ...RESPONSES_FAULTS,
  ...GOOGLE_FAULTS,
  ...DOCTOR_FAULTS,
  ...FEED_FAULTS,
  ...FUZZ_FAULTS,
  ...HARNESS_FAULTS,
  ...GEMINI_QWEN_FAULTS,
  ...TRAJECTORY_FAULTS,
  ...LINEAGE_FAULTS,
  ...SESSION_FAULTS,
  ...CAPTURE_FAULTS,
  ...RESULT_FAULTS,
  ...RETRY_FAULTS,
  ...ROLLOUT_FAULTS,
  ...SINGLE_FAULTS,
  ...SURFACE_FAULTS,
  ...CONTRACT_FAULTS,
  ...AGENT_PROGRAM_FAULTS,
  ...OPENCODE_FAULTS,
  ...EVALUATION_FAULTS,
  ...OPENAPI_FAULTS,
  ...TINY_POLICY_FAULTS,
]
