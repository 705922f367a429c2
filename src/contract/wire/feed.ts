// The feed of results: what ended, in the order in which it became final.
import { z } from 'zod'
import { count, deliveryState, outcome, reward, taskState, terminalStatus } from './words.ts'

const cursor = z.string().describe('opaque; as `after` it means: what came later than this')

const sessionEntry = z.object({
  type: z.literal('session'),
  cursor,
  session_id: z.string(),
  task_id: z.string(),
  status: terminalStatus,
  outcome,
  reward: reward.nullable(),
  attempt: count.describe('the one whose result stands'),
  traces: count,
  bytes: count.describe('of the result as it is kept'),
  href: z.string().describe('of the result, relative to this node'),
})

const taskEntry = z.object({
  type: z.literal('task'),
  cursor,
  task_id: z.string(),
  status: taskState,
  delivery: deliveryState,
  href: z.string().describe('of the task with all its results, relative to this node'),
})

export const feedEntry = z
  .union([sessionEntry, taskEntry])
  .meta({ id: 'FeedEntry', description: 'A result that is final, or the end of a task: once each, a task after its sessions.' })

export const feedPage = z
  .object({
    entries: z.array(feedEntry),
    next: cursor.describe('where to go on: the `after` of the next read'),
    missed: z.boolean().describe('something that came later than `after` is no longer kept'),
    start_over: z.boolean().describe('`after` is of an earlier process of the node: the entries begin with the oldest that is kept'),
  })
  .meta({ id: 'FeedPage' })
