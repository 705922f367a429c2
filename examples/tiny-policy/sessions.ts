// Sessions of a policy on the demo's task: a node of their own before an engine, one task after another through an agent CLI.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { agentOfHarness, ensureAgent } from '../../scripts/agents.ts'
import { openControlClient } from '../../src/cli/control-client.ts'
import { openListener, type TaskResult } from '../demo/listener.ts'
import { startNode } from '../demo/processes.ts'
import type { AgentName, Task } from './agents.ts'
import type { Span } from './corpus.ts'

export type Session = TaskResult['results'][number]

export type Stage = {
  /** So many sessions of this task, to their end. */
  play(agent: AgentName, task: Task, samples: number): Promise<readonly Session[]>
  close(): Promise<void>
}

/** A node on free ports whose only engine is this one, vLLM's shape. */
export async function openStage(engineUrl: string): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), 'polar-sessions-'))
  const engine = { url: engineUrl, model: 'demo-policy', about: 'of the tiny policy' }
  const node = await startNode(folder, engine, new AbortController().signal)
  const listener = await openListener()
  const client = openControlClient(node.url, node.token)
  let tasks = 0
  return {
    async play(agent, task, samples) {
      await ensureAgent(agentOfHarness(agent))
      tasks += 1
      const task_id = `${agent}-${tasks}`
      const submitted = await client.post('/rollout/task/submit', { ...task, task_id, num_samples: samples, callback_url: listener.url })
      if (submitted.status !== 200) throw new Error(`the task was not accepted: ${submitted.detail}`)
      return (await listener.received(task_id)).result.results
    },
    async close() {
      await listener.close()
      await node.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** The prompt, then what was sampled and what came in between, in turn. */
export function spansOf(session: Session, decode: (ids: readonly number[]) => string): readonly (readonly Span[])[] {
  return session.trajectory.traces.map(({ prompt_ids, response_ids: ids, loss_mask: mask }) => {
    const spans: Span[] = [{ text: decode(prompt_ids), weight: 0 }]
    for (let start = 0; start < ids.length; ) {
      const weight = mask[start] ?? 0
      const change = mask.indexOf(1 - weight, start)
      const end = change === -1 ? ids.length : change
      spans.push({ text: decode(ids.slice(start, end)), weight })
      start = end
    }
    return spans
  })
}
