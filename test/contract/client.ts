// A Polar client as trainers have it: written from the wire contract alone, over fetch, strict about every answer.
import * as schemas from './schemas.ts'
import { parse, type Shape } from './shape.ts'

/** How the control token travels. `basic` takes it from the URL, as `http://polar:TOKEN@host:8080`. */
export type Credentials = 'basic' | 'header' | 'bearer' | 'none'

type Method = 'GET' | 'HEAD' | 'POST' | 'DELETE'
type Query = Readonly<Record<string, string | number | boolean>>
type Sent = { readonly query?: Query; readonly body?: unknown }

class PolarError extends Error {
  readonly status: number
  readonly body: unknown

  constructor(status: number, body: unknown) {
    super(`${status}: ${JSON.stringify(body)}`)
    this.status = status
    this.body = body
  }
}

export type PolarClient = ReturnType<typeof openPolarClient>
export type PolarGateway = ReturnType<PolarClient['gateway']>

export function openPolarClient(address: string, credentials: Credentials = 'basic') {
  const { base, token } = splitUserinfo(address)
  const headers = authentication(token, credentials)

  function send(method: Method, url: string, { query = {}, body }: Sent = {}): Promise<Response> {
    const search = new URLSearchParams(Object.entries(query).map(([key, value]): [string, string] => [key, String(value)])).toString()
    return fetch(`${url}${search === '' ? '' : `?${search}`}`, {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
  }

  /** The answer as the shape has it; a PolarError with the status and the checked error body otherwise. */
  async function call<T>(shape: Shape<T>, method: Method, url: string, sent: Sent = {}): Promise<T> {
    const response = await send(method, url, sent)
    const content: unknown = await response.json()
    if (response.status !== 200) throw new PolarError(response.status, parse(schemas.errorBody, content, 'error'))
    return parse(shape, content, new URL(url).pathname)
  }

  const path = (strings: TemplateStringsArray, ...parts: readonly string[]): string =>
    base + String.raw({ raw: strings }, ...parts.map(encodeURIComponent))

  return {
    base,
    send: (method: Method, where: string, sent: Sent = {}) => send(method, base + where, sent),

    health: () => call(schemas.serverHealth, 'GET', path`/health`),
    submit: (task: unknown) => call(schemas.submitted, 'POST', path`/rollout/task/submit`, { body: task }),
    task: (id: string) => call(schemas.taskStatus, 'GET', path`/rollout/task/${id}`),
    cancel: (id: string, query: Query = {}) => call(schemas.taskStatus, 'DELETE', path`/rollout/task/${id}`, { query }),
    status: () => call(schemas.serverStatus, 'GET', path`/rollout/status`),
    tasks: (query: Query = {}) => call(schemas.taskRows, 'GET', path`/tasks`, { query }).then(({ tasks }) => tasks),
    sessions: (task: string) => call(schemas.sessionRows, 'GET', path`/tasks/${task}/sessions`).then(({ sessions }) => sessions),

    register: (node: unknown) => call(schemas.nodeInfo, 'POST', path`/nodes/register`, { body: node }),
    heartbeat: (id: string, body: unknown) => call(schemas.nodeInfo, 'POST', path`/nodes/${id}/heartbeat`, { body }),
    nodes: () => call(listOfNodes, 'GET', path`/nodes`),
    node: (id: string) => call(schemas.nodeInfo, 'GET', path`/nodes/${id}`),
    drain: (id: string) => call(drained, 'DELETE', path`/nodes/${id}`),
    sessionResult: (result: unknown) => call(schemas.accepted, 'POST', path`/callbacks/session_result`, { body: result }),

    /** At the `gateway_url` that a node's registration names. */
    gateway(url: string) {
      const at = (rest: string): string => url.replace(/\/$/, '') + rest
      return {
        url,
        root: () => call(schemas.gatewayRoot, 'GET', at('/')),
        send: (method: Method, where: string, sent: Sent = {}) => send(method, at(where), sent),
        health: () => call(schemas.gatewayHealth, 'GET', at('/health')),
        models: () => call(schemas.modelList, 'GET', at('/v1/models')),
        tokenize: (body: unknown) => call(schemas.tokenized, 'POST', at('/v1/tokenize'), { body }),
        inference: () => call(schemas.inferenceStatus, 'GET', at('/admin/inference/status')),
        pause: (query: Query = {}) => call(schemas.inferenceStatus, 'POST', at('/admin/inference/pause'), { query }),
        resume: () => call(schemas.inferenceStatus, 'POST', at('/admin/inference/resume')),
        sessions: (query: Query = {}) => call(schemas.gatewaySessions, 'GET', at('/sessions'), { query }),
        dispatch: (body: unknown) => call(schemas.dispatched, 'POST', at('/sessions'), { body }),
        capture: (body: unknown) => call(schemas.captureSession, 'POST', at('/sessions'), { body }),
        session: (id: string) => call(schemas.sessionView, 'GET', at(`/sessions/${encodeURIComponent(id)}`)),
        completions: (id: string) => call(schemas.completions, 'GET', at(`/sessions/${encodeURIComponent(id)}/completions`)),
        remove: (id: string) => call(schemas.deletedSession, 'DELETE', at(`/sessions/${encodeURIComponent(id)}`)),
      }
    },
  }
}

const listOfNodes: Shape<readonly schemas.NodeBody[]> = (value, at, problems): value is readonly schemas.NodeBody[] =>
  Array.isArray(value) && value.every((item, index) => schemas.nodeInfo(item, `${at}[${index}]`, problems))
/** The contract says what a drain does, and not what it answers. */
const drained: Shape<unknown> = (_value): _value is unknown => true

/** What `fetch` does not do by itself: it refuses a URL that holds credentials. */
function splitUserinfo(address: string): { readonly base: string; readonly token: string } {
  const url = new URL(address)
  const token = decodeURIComponent(url.password)
  url.username = ''
  url.password = ''
  return { base: url.href.replace(/\/$/, ''), token }
}

export function authentication(token: string, credentials: Credentials): Readonly<Record<string, string>> {
  switch (credentials) {
    case 'basic':
      return { authorization: `Basic ${btoa(`polar:${token}`)}` }
    case 'header':
      return { 'x-polar-control-token': token }
    case 'bearer':
      return { authorization: `Bearer ${token}` }
    case 'none':
      return {}
  }
}
