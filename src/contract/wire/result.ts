// What a session and a task gave, as they are read and called back.
import { z } from 'zod'
import { RESULTS_TOLD } from '../result-form.ts'
import { SPENDABLE } from '../session-budget.ts'
import { sessionTiming } from './timing.ts'
import { trace } from './trace.ts'
import { trajectory } from './trajectory.ts'
import { count, milliseconds, outcome, reward, taskState, terminalStatus } from './words.ts'

const resultReference = z
  .object({
    href: z.string().describe("a path of the node's own address"),
    etag: z.string().describe('of the MessagePack form'),
    bytes: count.describe('kept by the node; the MessagePack form has about as many'),
    traces: count,
  })
  .describe('where the traces are, of a result that is told by reference')

const spent = z.object({ limit: z.number(), used: z.number() }).optional()
const budgetUse = z.object({
  calls: spent,
  sampled_tokens: spent.describe('of all calls'),
  context_tokens: spent.describe('of the longest call, prompt and answer'),
  seconds: spent.describe('of the run, without pauses of inference'),
  used_up: z
    .enum(SPENDABLE)
    .nullable()
    .describe("the first of them, after which its agent was only told so; text_bytes: the node's memory for the texts of its calls"),
})

/** Ours, where Polar's model allows more keys; what a peer did not send is absent. */
const ownMetadata = z.object({
  schema_version: z.string().describe('of the messages, `major.minor`'),
  purpose: z.literal('evaluation').optional().describe('it was judged, and nothing of it is to be trained'),
  attempt: count,
  results: z.enum(RESULTS_TOLD).optional().describe('how the task asked its results to be told'),
  result: resultReference.optional(),
  outcome,
  outcome_class: z.string().describe('who is to blame: policy, harness, infra, evaluator or cancelled'),
  reward: reward.nullable(),
  calls: count.describe('model calls of the attempt'),
  budget: budgetUse.optional().describe('of its model calls; absent where nothing was limited'),
  trained_tokens: count,
  isolation: z.string().optional().describe('how the agent was kept apart, where the runtime says'),
  timing: z.record(z.string(), milliseconds).optional().describe("milliseconds by stages that are not Polar's"),
})

export const sessionResult = z
  .object({
    session_id: z.string(),
    task_id: z.string(),
    status: terminalStatus.describe('ERROR with the error `session cancelled` where it was cancelled'),
    trajectory,
    timing: sessionTiming,
    node_id: z.string().optional(),
    error: z.string().optional(),
    metadata: z.looseObject({ polar_node: ownMetadata }).describe("a copy of the task's metadata, and `polar_node`"),
  })
  .meta({ id: 'SessionResult', description: 'What one session gave.' })

const results = {
  task_id: z.string(),
  status: taskState,
  results: z.array(sessionResult).describe('in sample order; while the task runs, those that there are'),
  result_paths: z.array(z.string()).describe('always empty'),
}

export const taskResult = z.object(results).meta({ id: 'TaskResult', description: 'What a task gave: the body of its callback.' })

export const taskStatus = z
  .object({ ...results, total_sessions: count, completed_sessions: count.describe('with a terminal result, whatever it is') })
  .meta({ id: 'TaskStatus', description: 'A task with the results that it has so far.' })

export const tracesPage = z
  .object({
    session_id: z.string(),
    task_id: z.string(),
    attempt: count,
    total: count.describe('traces of the result'),
    offset: count,
    next_offset: count.nullable().describe('of the next page; null behind the last trace'),
    traces: z.array(trace),
  })
  .meta({ id: 'TracesPage', description: 'Some traces of a result; a page may hold fewer than its limit.' })
