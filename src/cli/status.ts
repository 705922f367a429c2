// `polar status`: tasks, gateways and replicas of a node, or the sessions of one task.
import { exitOf } from './control-client.ts'
import { counted } from './counted.ts'
import { describeDelivery } from './delivery.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { describeReplica } from './replica-line.ts'
import { openTarget, type TargetOptions } from './target.ts'
import { describeTask } from './task-line.ts'

export type StatusOptions = TargetOptions & { readonly json?: boolean }

type Row = Readonly<Record<string, unknown>>

const MAX_LISTED = 100

export async function runStatus(task: string | undefined, options: StatusOptions): Promise<ExitCode> {
  const target = await openTarget(options)
  if (!target.ok) return endWith(EXIT.usage, target.problem)
  const { client } = target
  const asked =
    task === undefined
      ? [client.get('/rollout/status'), client.get(`/tasks?limit=${MAX_LISTED}`)]
      : [client.get(`/tasks/${encodeURIComponent(task)}/sessions`)]
  const replies = await Promise.all(asked)
  const refusal = replies.find(({ status }) => status !== 200)
  if (refusal !== undefined) return endWith(exitOf(refusal), refusal.detail)
  const [body, listed] = replies.map((reply) => reply.body)
  const tasks = rowsOf(member(listed, 'tasks'))
  if (task === undefined) say(options, { ...(body as Row), latest_tasks: tasks }, describeNode(body, tasks))
  else say(options, body, describeSessions(body))
  return EXIT.ok
}

function say(options: StatusOptions, record: unknown, text: string): void {
  process.stdout.write(options.json === true ? `${JSON.stringify(record)}\n` : text)
}

/** `listed`: the latest tasks, newest first; the status of the node counts them all. */
function describeNode(body: unknown, listed: readonly Row[]): string {
  const lines: string[] = []
  const nodes = rowsOf(member(member(body, 'nodes'), 'nodes'))
  for (const node of nodes) {
    const metrics = member(node, 'metrics')
    const count = (key: string): string => String(member(metrics, key) ?? 0)
    const health = `${node.healthy === true ? 'healthy' : 'NOT HEALTHY'}${node.draining === true ? ', drained: takes no new session' : ''}`
    lines.push(
      `gateway ${node.node_id}  ${health}  model port ${node.model_port}`,
      `  init ${count('init_inflight')}/${node.max_init_workers} (+${count('init_queue_depth')})  ready ${count('ready_depth')}/${node.max_ready_sessions}` +
        `  run ${count('run_inflight')}/${node.max_run_workers}  postrun ${count('postrun_inflight')}/${node.max_postrun_workers} (+${count('postrun_queue_depth')})`,
    )
    const replicas = rowsOf(node.replicas)
    lines.push(...replicas.map((row) => `  ${describeReplica(row)}`))
    if (node.healthy === true && replicas.length === 0) lines.push('  no replicas: sessions wait until one is added')
  }
  if (nodes.length === 0) lines.push('no gateway: each has been drained, and sessions wait until one registers again')
  const earlier = Object.keys(member(body, 'tasks') ?? {}).length - listed.length
  lines.push(listed.length === 0 ? 'no tasks' : 'tasks, the latest first', ...listed.map((row) => `  ${describeTask(row)}`))
  if (earlier > 0) lines.push(`  … and ${earlier} earlier`)
  lines.push(`waiting for dispatch: ${member(member(body, 'pipeline'), 'pending_sessions') ?? 0} sessions`)
  return `${lines.join('\n')}\n`
}

function describeSessions(body: unknown): string {
  const rows = rowsOf(member(body, 'sessions'))
  const lines = rows.map(
    (row) =>
      `${row.session_id}  attempt ${row.attempt}  ${row.outcome ?? row.status}  reward ${row.reward ?? '–'}${row.error === null ? '' : `  (${row.error})`}`,
  )
  const delivery = describeDelivery(member(body, 'delivery'))
  const callback = delivery === null ? '' : `, callback ${delivery}`
  return `${[`task ${member(body, 'task_id')} ${member(body, 'status')}: ${counted(rows.length, 'session')}${callback}`, ...lines].join('\n')}\n`
}

function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined
}

function rowsOf(value: unknown): readonly Row[] {
  return Array.isArray(value) ? value.filter((row): row is Row => typeof row === 'object' && row !== null) : []
}
