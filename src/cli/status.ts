// `polar status`: tasks, gateways and replicas of a node, or the sessions of one task.
import type { Reply } from './control-client.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { openTarget, type TargetOptions } from './target.ts'

export type StatusOptions = TargetOptions & { readonly json?: boolean }

type Row = Readonly<Record<string, unknown>>

export async function runStatus(task: string | undefined, options: StatusOptions): Promise<ExitCode> {
  const target = await openTarget(options)
  if (!target.ok) return endWith(EXIT.usage, target.problem)
  const path = task === undefined ? '/rollout/status' : `/tasks/${encodeURIComponent(task)}/sessions`
  const reply = await target.client.get(path)
  if (reply.status === 0) return endWith(EXIT.unreachable, reply.detail)
  if (reply.status !== 200) return endWith(exitOf(reply), reply.detail)
  if (options.json === true) process.stdout.write(`${JSON.stringify(reply.body)}\n`)
  else process.stdout.write(task === undefined ? describeNode(reply.body) : describeSessions(reply.body))
  return EXIT.ok
}

function exitOf({ status, body }: Reply): ExitCode {
  if (status === 401) return EXIT.usage
  return status === 404 && member(body, 'detail') !== undefined ? EXIT.failed : EXIT.unreachable
}

function describeNode(body: unknown): string {
  const lines: string[] = []
  for (const node of rowsOf(member(member(body, 'nodes'), 'nodes'))) {
    const metrics = member(node, 'metrics')
    const count = (key: string): string => String(member(metrics, key) ?? 0)
    const health = node.healthy === true ? 'healthy' : 'NOT HEALTHY'
    lines.push(
      `gateway ${node.node_id}  ${health}  model port ${node.model_port}`,
      `  init ${count('init_inflight')}/${node.max_init_workers} (+${count('init_queue_depth')})  ready ${count('ready_depth')}/${node.max_ready_sessions}` +
        `  run ${count('run_inflight')}/${node.max_run_workers}  postrun ${count('postrun_inflight')}/${node.max_postrun_workers} (+${count('postrun_queue_depth')})`,
    )
    for (const replica of rowsOf(node.replicas)) {
      lines.push(
        `  replica ${replica.id}  ${replica.url}  ${replica.state}, ${replica.tier}  in flight ${replica.in_flight}, waiting ${replica.waiting}`,
      )
    }
  }
  const tasks = Object.entries(member(body, 'tasks') ?? {})
  lines.push(tasks.length === 0 ? 'no tasks' : 'tasks', ...tasks.map(([id, status]) => `  ${id}  ${status}`))
  lines.push(`waiting for dispatch: ${member(member(body, 'pipeline'), 'pending_sessions') ?? 0} sessions`)
  return `${lines.join('\n')}\n`
}

function describeSessions(body: unknown): string {
  const rows = rowsOf(member(body, 'sessions'))
  const lines = rows.map(
    (row) =>
      `${row.session_id}  attempt ${row.attempt}  ${row.outcome ?? row.status}  reward ${row.reward ?? '–'}${row.error === null ? '' : `  (${row.error})`}`,
  )
  return `${[`task ${member(body, 'task_id')}: ${rows.length} sessions`, ...lines].join('\n')}\n`
}

function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined
}

function rowsOf(value: unknown): readonly Row[] {
  return Array.isArray(value) ? value.filter((row): row is Row => typeof row === 'object' && row !== null) : []
}
