// `polar callbacks`: what became of callbacks, and driving them again to a trainer that missed them or lives elsewhere now.
import { type ControlClient, exitOf, type Reply } from './control-client.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { openTarget, type TargetOptions } from './target.ts'

export type ListOptions = TargetOptions & { readonly state?: string; readonly limit: number; readonly json?: boolean }

export type RedriveOptions = TargetOptions & {
  readonly url?: string
  readonly state?: string
  readonly session?: readonly string[]
  readonly json?: boolean
}

/** As the node's route gives it. */
type Row = {
  readonly task_id: string | null
  readonly session_id: string | null
  readonly state: string
  readonly origin: string | null
  readonly tries: number
  readonly detail: string | null
}
type Redriven = { readonly redriven: readonly string[]; readonly lost: readonly string[] }

export async function listCallbacks(options: ListOptions): Promise<ExitCode> {
  const query = new URLSearchParams({ limit: String(options.limit), ...(options.state === undefined ? {} : { state: options.state }) })
  const reply = await ask(options, (client) => client.get(`/callbacks?${query}`))
  if (typeof reply === 'number') return reply
  const { callbacks } = reply.body as { readonly callbacks: readonly Row[] }
  const lines = callbacks.length === 0 ? ['no callbacks'] : callbacks.map(describe)
  process.stdout.write(options.json === true ? `${JSON.stringify(reply.body)}\n` : `${lines.join('\n')}\n`)
  return EXIT.ok
}

/** `tasks` empty: what the options name, or else all that are not delivered. */
export async function redriveCallbacks(tasks: readonly string[], options: RedriveOptions): Promise<ExitCode> {
  const { url, state, session } = options
  const wanted = {
    ...(tasks.length === 0 ? {} : { task_ids: tasks }),
    ...(session === undefined ? {} : { session_ids: session }),
    ...(state === undefined ? {} : { state }),
    ...(url === undefined ? {} : { callback_url: url }),
  }
  const reply = await ask(options, (client) => client.post('/callbacks/redrive', wanted))
  if (typeof reply === 'number') return reply
  const { redriven, lost } = reply.body as Redriven
  const text = redriven.length === 0 ? 'nothing to drive again\n' : `driven again: ${redriven.join(', ')}\n`
  process.stdout.write(options.json === true ? `${JSON.stringify(reply.body)}\n` : text)
  return lost.length === 0 ? EXIT.ok : endWith(EXIT.failed, `no longer kept, and lost: ${lost.join(', ')}`)
}

async function ask(options: TargetOptions, send: (client: ControlClient) => Promise<Reply>): Promise<Reply | ExitCode> {
  const target = await openTarget(options)
  if (!target.ok) return endWith(EXIT.usage, target.problem)
  const reply = await send(target.client)
  return reply.status === 200 ? reply : endWith(exitOf(reply), reply.detail)
}

function describe({ task_id, session_id, state, origin, tries, detail }: Row): string {
  const what = task_id === null ? `session ${session_id}` : `task ${task_id}`
  const to = origin === null ? '' : `  to ${origin}  ${tries} ${tries === 1 ? 'try' : 'tries'}`
  return `${what}  ${state}${to}${detail === null ? '' : `  (${detail})`}`
}
