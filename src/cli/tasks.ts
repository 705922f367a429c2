// `polar tasks`, `polar sessions`, `polar cancel`: what a node has, and taking a task back.
import { type AskOptions, askNode } from './asking.ts'
import { counted } from './counted.ts'
import type { ExitCode } from './exit.ts'
import { describeTask } from './task-line.ts'

export type TasksOptions = AskOptions & {
  readonly status?: string
  readonly harness?: string
  /** Seconds since 1970. */
  readonly since?: number
  readonly limit: number
}

export type SessionsOptions = AskOptions & { readonly status?: string; readonly gateway?: string; readonly limit: number }

export type CancelOptions = AskOptions & { readonly registerIfMissing?: boolean }

type Row = Readonly<Record<string, unknown>>

export function listTasks({ status, harness, since, limit, ...options }: TasksOptions): Promise<ExitCode> {
  const query = queryOf({ status, harness, since, limit })
  return askNode(
    options,
    (client) => client.get(`/tasks?${query}`),
    ({ tasks }: { readonly tasks: readonly Row[] }) => linesOf(tasks.map(describeTask), 'no tasks'),
  )
}

export function listSessions(task: string | undefined, { status, gateway, limit, ...options }: SessionsOptions): Promise<ExitCode> {
  const place = gateway === undefined ? '' : `/gateways/${encodeURIComponent(gateway)}`
  const query = queryOf({ task_id: task, status, limit })
  return askNode(
    options,
    (client) => client.get(`${place}/sessions?${query}`),
    ({ sessions }: { readonly sessions: readonly Row[] }) => linesOf(sessions.map(describeSession), 'no sessions'),
  )
}

export function cancelTask(task: string, { registerIfMissing, ...options }: CancelOptions): Promise<ExitCode> {
  const query = registerIfMissing === true ? '?register_if_missing=true' : ''
  return askNode(
    options,
    (client) => client.delete(`/rollout/task/${encodeURIComponent(task)}${query}`),
    ({ task_id, status, completed_sessions, total_sessions }: Row) =>
      `task ${task_id} ${status}: ${completed_sessions}/${total_sessions} sessions ended\n`,
  )
}

function describeSession(row: Row): string {
  const model = typeof row.model_used === 'string' ? `  ${row.model_used}` : ''
  return `${row.session_id}  task ${row.task_id}  ${row.status}  ${counted(Number(row.completion_count), 'call')}  ${Math.round(Number(row.age_seconds))} s old${model}  ${row.node_id ?? 'no gateway yet'}`
}

function linesOf(lines: readonly string[], none: string): string {
  return `${lines.length === 0 ? none : lines.join('\n')}\n`
}

function queryOf(members: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams()
  for (const [key, value] of Object.entries(members)) if (value !== undefined) query.set(key, String(value))
  return query.toString()
}
