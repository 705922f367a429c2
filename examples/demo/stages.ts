// The sessions of a group as they go through their stages: one column per session, one line per change.
import type { ControlEvent } from '../../src/cli/control-client.ts'

/** Until `stopped`. Sessions of other tasks than the one that runs take columns of their own, from the left again. */
export async function showStages(events: AsyncIterable<ControlEvent>, stopped: AbortSignal, say: (line: string) => void): Promise<void> {
  let task = ''
  let columns = new Map<string, number>()
  let current: string[] = []
  try {
    for await (const { type, data } of events) {
      if (type !== 'session.state_changed' || typeof data !== 'object' || data === null) continue
      const change = data as { readonly task_id: string; readonly session_id: string; readonly status: string } // the feed's own shape
      if (change.task_id !== task) {
        task = change.task_id
        columns = new Map()
        current = []
      }
      const column = columns.get(change.session_id) ?? columns.size
      columns.set(change.session_id, column)
      current[column] = change.status
      say(`  ${Array.from(current, (text) => (text ?? '').padEnd(12)).join(' ')}`)
    }
  } catch (error) {
    if (!stopped.aborted) say(`  (no more stages to show: ${error instanceof Error ? error.message : String(error)})`)
  }
}
