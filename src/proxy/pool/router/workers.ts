// Reading which workers a router of SGLang's has: the newer list with kinds and connections, or the older one of URLs.
import type { HttpResponse } from '../../engines/engine.ts'
import type { Connection } from '../../engines/transport.ts'
import { isObject, parseJson } from '../../json.ts'

export type Worker = {
  /** Of the server, without a trailing slash. */
  readonly url: string
  /** Data-parallel rank, when the router lists ranks: it writes `url@rank`. */
  readonly rank: number | null
}

export type WorkerList =
  /** `passed`: listed, and not to be called directly, with the reason. */
  | { readonly type: 'listed'; readonly workers: readonly Worker[]; readonly passed: readonly string[] }
  | { readonly type: 'unread'; readonly detail: string }

/** The newer first: sgl-model-gateway and later sgl-routers have `/workers`; early sgl-routers, and slime's router, `/list_workers` only. */
const LISTS: readonly { readonly path: string; readonly read: (body: unknown) => WorkerList | null }[] = [
  { path: '/workers', read: readDescribed },
  { path: '/list_workers', read: readUrls },
]

export function workerKey({ url, rank }: Worker): string {
  return rank === null ? url : `${url}@${rank}`
}

/** Never rejects. */
export async function readWorkers(connection: Connection, signal: AbortSignal): Promise<WorkerList> {
  const problems: string[] = []
  for (const { path, read } of LISTS) {
    const reply = await connection.send({ method: 'GET', path, headers: {}, body: null }, signal)
    // A router that cannot be reached has no other list either.
    if (!reply.ok) return { type: 'unread', detail: `${path}: ${reply.detail}` }
    const list = readReply(reply.response, read)
    if (typeof list !== 'string') return list
    problems.push(`${path} ${list}`)
  }
  return { type: 'unread', detail: problems.join('; ') }
}

function readReply({ status, body }: HttpResponse, read: (body: unknown) => WorkerList | null): WorkerList | string {
  if (status !== 200) return `answered ${status}`
  const parsed = parseJson(body)
  return (parsed.ok ? read(parsed.value) : null) ?? 'is no list of workers'
}

/** `{workers: [{url, worker_type, connection_mode, …}]}` */
function readDescribed(body: unknown): WorkerList | null {
  if (!isObject(body) || !Array.isArray(body.workers)) return null
  const workers: Worker[] = []
  const passed: string[] = []
  for (const entry of body.workers as readonly unknown[]) {
    const worker = isObject(entry) && typeof entry.url === 'string' ? workerOf(entry.url) : null
    if (!isObject(entry) || worker === null) {
      passed.push(`${isObject(entry) ? shown(entry.url) : 'an entry'} is no HTTP address`)
    } else if (entry.worker_type !== undefined && entry.worker_type !== 'regular') {
      passed.push(`${worker.url} is of type ${shown(entry.worker_type)}`)
    } else if (typeof entry.connection_mode === 'string' && entry.connection_mode.toLowerCase() !== 'http') {
      passed.push(`${worker.url} speaks ${shown(entry.connection_mode)}`)
    } else workers.push(worker)
  }
  return { type: 'listed', workers: distinct(workers), passed }
}

/** `{urls: [url, …]}` */
function readUrls(body: unknown): WorkerList | null {
  if (!isObject(body) || !Array.isArray(body.urls)) return null
  const urls: readonly unknown[] = body.urls
  const workers = urls.map((url) => (typeof url === 'string' ? workerOf(url) : null))
  const passed = urls.flatMap((url, index) => (workers[index] === null ? [`${shown(url)} is no HTTP address`] : []))
  return { type: 'listed', workers: distinct(workers.filter((worker) => worker !== null)), passed }
}

function workerOf(text: string): Worker | null {
  const [, url = text, rank] = /^(.*)@(\d{1,4})$/.exec(text) ?? []
  if (text.length > MAX_URL_CHARS || !/^https?:\/\//.test(url) || !URL.canParse(url)) return null
  // What stands in it beside them is never sent, and would be shown.
  const { origin, pathname } = new URL(url)
  return { url: (origin + pathname).replace(/\/+$/, ''), rank: rank === undefined ? null : Number(rank) }
}

const MAX_URL_CHARS = 2_048
const MAX_SHOWN_CHARS = 100

/** For people, without the credentials that a URL may hold. */
function shown(value: unknown): string {
  const text = String(value).slice(0, MAX_URL_CHARS)
  return text.replace(/\/\/[^/]*@/, '//').slice(0, MAX_SHOWN_CHARS)
}

function distinct(workers: readonly Worker[]): readonly Worker[] {
  return [...new Map(workers.map((worker) => [workerKey(worker), worker])).values()]
}
