// What turning a session into rows costs: building, packing, finishing, rendering.
import { bench, do_not_optimize, group } from 'mitata'
import type { CallRecord } from '../../src/contract/call.ts'
import { callId, sessionId, taskId } from '../../src/contract/ids.ts'
import { assemble } from '../../src/trajectory/assemble.ts'
import type { BuilderCall, BuilderInput } from '../../src/trajectory/builder.ts'
import type { ResultFacts } from '../../src/trajectory/facts.ts'
import { packTrajectory } from '../../src/trajectory/pack.ts'
import { buildPerRequest } from '../../src/trajectory/per-request.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { renderSession, toBytes } from '../../src/trajectory/render.ts'
import { finishResult } from '../../src/trajectory/result.ts'

const TURNS = 100
/** A session that ends at 64 k tokens. */
const ADDED_TOKENS = 440
const SAMPLED_TOKENS = 200
const SESSION = sessionId('00000000-0000-4000-8000-000000000001')

export function registerTrajectoryBenches(): void {
  const merged = growingSession((turn) => turn * (ADDED_TOKENS + SAMPLED_TOKENS))
  // Every prompt leaves its predecessor at the last sampled turn, as with stripped reasoning: one row per call.
  const broken = growingSession((turn) => turn * (ADDED_TOKENS + SAMPLED_TOKENS) - (turn > 0 ? SAMPLED_TOKENS - 1 : 0))

  group(`${TURNS} turns to 64 k tokens`, () => {
    bench('prefix_merging, all merge', () => do_not_optimize(build(merged)))
    bench('prefix_merging, none merge', () => do_not_optimize(build(broken)))
    bench('prefix_merging splice, none exact', () => do_not_optimize(build(broken, { splice: true, end_of_turn_token_id: 9 })))
    bench('per_request', () => do_not_optimize(assemble(merged, { strategy: 'per_request', config: {} }, buildPerRequest)))
  })

  group('after the build of one 64 k row', () => {
    const { trajectory } = build(merged)
    const packed = packTrajectory(trajectory)
    const { payload } = finishResult(packed, FACTS)
    bench('pack', () => do_not_optimize(packTrajectory(trajectory)))
    bench('finish', () => do_not_optimize(finishResult(packed, FACTS)))
    bench('render', () => do_not_optimize(toBytes(renderSession(payload))))
  })
}

const FACTS: ResultFacts = {
  session: SESSION,
  task: taskId('task'),
  attempt: 1,
  node: 'gw',
  outcome: 'completed',
  error: null,
  timing: {},
  taskMetadata: {},
  agentResult: {},
  evaluation: { type: 'graded', outcomeReward: 1, traceRewards: null, metadata: {} },
  evaluator: 'session_completed',
  calls: TURNS,
  model: null,
}

function build(input: BuilderInput, config: Readonly<Record<string, unknown>> = {}) {
  const built = assemble(input, { strategy: 'prefix_merging', config }, buildPrefixMerging)
  if (!built.ok) throw new Error(built.error)
  return built
}

/** `keptAt` says how many tokens of the line so far the prompt of a turn repeats. */
function growingSession(keptAt: (turn: number) => number): BuilderInput {
  let line = new Int32Array(0)
  const calls: BuilderCall[] = []
  for (let turn = 0; turn < TURNS; turn++) {
    const kept = Math.max(0, keptAt(turn))
    const promptIds = new Int32Array(kept + ADDED_TOKENS).map((_, at) => line[at] ?? 1_000 + turn * 7 + at)
    const sampledIds = new Int32Array(SAMPLED_TOKENS).map((_, at) => (at === SAMPLED_TOKENS - 1 ? 9 : 2_000 + turn * 11 + at))
    const logprobs = new Float32Array(SAMPLED_TOKENS).map((_, at) => -1 / (at + 1))
    const promptMessages = Array.from({ length: 2 * turn + 1 }, (_, at) => at)
    calls.push({ record: record(turn, promptMessages), promptIds, sampledIds, logprobs })
    line = new Int32Array(promptIds.length + SAMPLED_TOKENS)
    line.set(promptIds)
    line.set(sampledIds, promptIds.length)
  }
  const messages = Array.from({ length: 2 * TURNS }, (_, at) =>
    JSON.stringify({ role: at % 2 === 0 ? 'user' : 'assistant', content: `${at} `.repeat(200) }),
  )
  return { sessionId: SESSION, taskId: 'task', attempt: 1, calls, messages, taskMetadata: {} }
}

function record(turn: number, promptMessages: readonly number[]): CallRecord {
  return {
    id: callId(String(turn)),
    session: SESSION,
    attempt: 1,
    sequence: turn,
    dialect: 'openai-chat',
    lineage: null,
    modelRequested: 'm',
    modelServed: 'm',
    engine: 'vllm',
    replica: null,
    streamed: false,
    status: 'ok',
    httpStatus: 200,
    finishReason: 'stop',
    delivery: 'yes',
    digest: String(turn),
    retryOf: null,
    promptMessages,
    responseMessage: promptMessages.length,
    tools: null,
    toolCount: 0,
    maxTokensRequested: null,
    sampling: { temperature: 1, topP: null, topK: null, seed: null, maxTokens: null },
    parameters: 0,
    logprobMode: 'raw',
    weightVersion: null,
    weightSpans: [],
    usage: null,
    captureError: null,
    diagnostics: [],
    startedAtMs: 0,
    durationMs: 0,
    error: null,
  }
}
