// The control API as a command sees it: one base URL, one token, errors in the user's terms.
import { readFile } from 'node:fs/promises'
import { EXIT, type ExitCode } from './exit.ts'

export type ControlClient = {
  readonly url: string
  get(path: string): Promise<Reply>
  post(path: string, body: unknown): Promise<Reply>
  delete(path: string): Promise<Reply>
  /** Resolves once the node sends what happens from now on, until `signal` aborts or the node ends the stream; null when it does not. */
  openEvents(signal: AbortSignal): Promise<AsyncIterable<ControlEvent> | null>
}

export type ControlEvent = { readonly type: string; readonly data: unknown }

/** `status` 0: no answer; then `detail` says why. */
export type Reply = { readonly status: number; readonly body: unknown; readonly detail: string }

/** How a command ends that got this instead of what it asked for. */
export function exitOf({ status, body }: Reply): ExitCode {
  switch (status) {
    case 400:
    case 401:
    case 422:
      return EXIT.usage
    case 404:
    case 409:
    case 504:
      // Something else than a node may stand there.
      return typeof body === 'object' && body !== null && 'detail' in body ? EXIT.failed : EXIT.unreachable
    default:
      return EXIT.unreachable
  }
}

/** A token may stand in the URL, as Polar clients have it: http://polar:TOKEN@host:8080. */
export function openControlClient(address: string, token: string | null): ControlClient {
  const url = new URL(address)
  const secret = token ?? (url.password === '' ? null : decodeURIComponent(url.password))
  url.username = ''
  url.password = ''
  const base = url.href.replace(/\/$/, '')
  const headers: Record<string, string> = secret === null ? {} : { authorization: `Bearer ${secret}` }

  async function call(method: string, path: string, body?: unknown): Promise<Reply> {
    let response: Response
    try {
      response = await fetch(base + path, {
        method,
        headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
    } catch (error) {
      return { status: 0, body: null, detail: `no answer from ${base}: ${causeOf(error)}; is 'polar serve' running there?` }
    }
    const text = await response.text()
    const parsed = parseJson(text)
    return { status: response.status, body: parsed, detail: response.ok ? '' : complaintOf(base, response.status, parsed) }
  }

  return {
    url: base,
    get: (path) => call('GET', path),
    post: (path, body) => call('POST', path, body),
    delete: (path) => call('DELETE', path),
    async openEvents(signal) {
      const connected = fetch(`${base}/events`, { headers: { ...headers, accept: 'text/event-stream' }, signal })
      const response = await connected.catch(() => null)
      return response?.ok === true && response.body !== null ? readEvents(response.body) : null
    },
  }
}

async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ControlEvent> {
  const decoder = new TextDecoder()
  let pending = ''
  for await (const chunk of body) {
    pending += decoder.decode(chunk, { stream: true })
    const frames = pending.split('\n\n')
    pending = frames.pop() ?? ''
    for (const frame of frames) {
      const fields = new Map(frame.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]))
      const data = fields.get('data')
      if (data !== undefined) yield { type: fields.get('event') ?? 'message', data: parseJson(data) }
    }
  }
}

/** The token that a node wrote at its first start; null when it has not been started yet. */
export async function readControlToken(file: string): Promise<string | null> {
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch {
    return null
  }
}

/** A node says in `detail` what it has against a request; anything else that answers is no control API. */
function complaintOf(base: string, status: number, body: unknown): string {
  if (typeof body !== 'object' || body === null || !('detail' in body))
    return `${status}: what answers at ${base} is not the control API of a node`
  const complaint = `${status}: ${detailOf(body.detail)}`
  return status === 401
    ? `${complaint}; give it with --token, in --rollout-url as http://polar:TOKEN@host:port, or in POLAR_CONTROL_PLANE_TOKEN, or name the node's polar.yaml with --config`
    : complaint
}

function detailOf(detail: unknown): string {
  if (!Array.isArray(detail)) return String(detail)
  return detail
    .map((item: unknown) => {
      const problem = typeof item === 'object' && item !== null ? item : {}
      const loc = 'loc' in problem && Array.isArray(problem.loc) ? problem.loc.join('.') : ''
      return `${loc}: ${'msg' in problem ? String(problem.msg) : ''}`
    })
    .join('; ')
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? error.cause.message : error.message
}
