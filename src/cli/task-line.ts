// One task of a node, as a row of the control API, in the words of a person.
import { describeDelivery } from './delivery.ts'

export function describeTask(row: Readonly<Record<string, unknown>>): string {
  const reward = typeof row.mean_reward === 'number' ? `  mean reward ${Math.round(row.mean_reward * 1_000) / 1_000}` : ''
  const delivery = describeDelivery(row.delivery)
  const callback = delivery === null ? '' : `  callback ${delivery}`
  return `${row.task_id}  ${row.status}  ${row.completed_sessions}/${row.num_samples} sessions ended${reward}${callback}`
}
