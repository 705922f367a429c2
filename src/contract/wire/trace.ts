// One training row, and what it says of its own making.
import { z } from 'zod'
import { count, jsonObject, reward } from './words.ts'

const tokenIds = z.array(count)
const span = { start: count.describe('a position in response_ids'), end: count.describe('one past the last position') }

const turn = z.object({
  call_id: z.string(),
  sequence: count.describe('the place of the call among all calls of its session'),
  ...span,
  trained: z.boolean(),
  reason: z.string().optional().describe('why it is not trained here; `shared`: it is trained in another row'),
  weight_version: z
    .string()
    .nullish()
    .describe('of the weights that sampled it, as the inference server names them; null: unknown, or several, as weight_versions tells'),
  logprob_mode: z.string().optional().describe('raw: before temperature; processed: as sampled; unknown'),
  temperature: z.number().nullish(),
  finish_reason: z.string().nullish(),
  spliced_context: z.literal(true).optional().describe('the context before it is not, token for token, what the engine reported'),
})

export const traceMetadata = z
  .object({
    row_id: z.string(),
    session_id: z.string(),
    task_id: z.string(),
    attempt: count,
    trace_index: count.describe('its place in the trajectory'),
    trace_count: count,
    parent_row_id: z.string().nullable(),
    edge: z.string().nullable().describe('why the row begins: extends, rewrites, compaction_of, subagent_of, retry_of or aux'),
    drift: jsonObject.nullable().describe('how its prompt differs from what the call before had sampled'),
    segment_role: z.string().describe('main, subagent, aux, or discarded'),
    last_sequence: count.describe('sequence of its last call'),
    turns: z.array(turn).describe('sampled turns in order; a token outside a trained turn is context'),
    weight_versions: z
      .array(z.object({ ...span, version: z.string().nullable() }))
      .describe('which weights sampled what, also inside a turn; version null: unknown'),
    synthetic_logprob_spans: z.array(z.object(span)).describe('where response_logprobs holds 0 since nothing was sampled'),
    tool_schema_digest: z.string().nullable().describe('SHA-256 of the tool list'),
    truncated_turns: z.array(z.string()).describe('calls that ended at their token limit'),
    unparsed_tool_call: z.boolean(),
    unreported_context_tokens: count,
    unreported_context_share: z.number(),
    segment_count: count.describe("rows of the session that train; the reciprocal is a row's share"),
    rollout_weight: z.number().describe('weight of this row; those of a session sum to 1'),
    reward_index: count.nullable().describe('last trained position of response_ids, where PPO puts the reward'),
    turn_rewards: z.array(z.unknown()),
    discarded_reason: z.string().describe('why the whole row was taken out of training'),
    discarded_trained_tokens: count,
    training_filter: jsonObject.describe('a rule that changed the reward, and the original'),
    group_id: z.unknown(),
    policy_version: z.unknown(),
    rollout_step: z.unknown(),
  })
  .partial()
  .meta({ id: 'TraceMetadata', description: "What a row says of itself. A builder of one's own may leave out any of it, or add to it." })

export const trace = z
  .object({
    prompt_ids: tokenIds,
    response_ids: tokenIds.describe('sampled turns, and the context between them'),
    loss_mask: z.array(z.int().min(0).max(1)).describe('1 exactly where a token was sampled and is to be trained; as long as response_ids'),
    prompt_messages: z.array(z.unknown()).describe('chat messages'),
    response_messages: z.array(z.unknown()).describe('chat messages'),
    tools: z.array(z.unknown()).nullable(),
    finish_reason: z.string().nullable().describe("of the row's last call"),
    response_logprobs: z
      .array(z.number())
      .nullable()
      .describe('natural logarithms, as long as response_ids; 0 where nothing was sampled; null: unusable'),
    reward: reward.nullable().describe('null: not graded, or not to be trained'),
    metadata: traceMetadata,
  })
  .refine(({ response_ids, loss_mask }) => loss_mask.length === response_ids.length, {
    message: 'must be as long as response_ids',
    path: ['loss_mask'],
  })
  .refine(({ response_ids, response_logprobs }) => response_logprobs === null || response_logprobs.length === response_ids.length, {
    message: 'must be as long as response_ids',
    path: ['response_logprobs'],
  })
  .meta({ id: 'Trace', description: 'One training row.' })
