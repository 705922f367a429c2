// The control plane's HTTP server: who may ask, how errors look, and which routes there are.
import swagger from '@fastify/swagger'
import { type FastifyBaseLogger, type FastifyError, type FastifyInstance, fastify, LogController } from 'fastify'
import type { CallbackCommand } from '../actors/callback/protocol.ts'
import type { AskGateway, GatewaySnapshot, InferenceStatus } from '../actors/gateway/protocol.ts'
import type { LedgerCommand } from '../actors/ledger/protocol.ts'
import type { RolloutServerCommand } from '../actors/rollout-server/protocol.ts'
import type { GatewayId, ReplicaId } from '../contract/ids.ts'
import type { GatewayChange, ReplicaSpec } from '../contract/replica.ts'
import type { TaskRequest } from '../contract/task.ts'
import type { Address } from '../kernel/address.ts'
import type { Answer, Ask } from '../kernel/ask.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { refuse } from './errors.ts'
import type { EventFeed } from './events.ts'
import type { FeedWaiters } from './feed-waiters.ts'
import type { ReadCompletions } from './kept-completions.ts'
import type { KeptResults } from './kept-results.ts'
import { OPENAPI } from './openapi.ts'
import { callbackRoutes } from './routes/callbacks.ts'
import { completionRoutes } from './routes/completions.ts'
import { eventRoutes } from './routes/events.ts'
import { feedRoutes } from './routes/feed.ts'
import { gatewayRootRoutes } from './routes/gateway-root.ts'
import { inferenceRoutes } from './routes/inference.ts'
import { nodeRoutes } from './routes/nodes.ts'
import { registryRoutes } from './routes/registry.ts'
import { replicaRoutes } from './routes/replicas.ts'
import { resultRoutes } from './routes/results.ts'
import { serviceRoutes } from './routes/service.ts'
import { sessionRoutes } from './routes/sessions.ts'
import { taskRoutes } from './routes/tasks.ts'
import { serverUrl } from './server-url.ts'
import type { ReadResult } from './task-result.ts'
import { isAuthorized } from './token.ts'

/** A reason why a well-formed task cannot run on this node; `path` leads to the field. */
export type TaskProblem = { readonly path: readonly (string | number)[]; readonly message: string }

export type ControlApiOptions = {
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  readonly token: string
  readonly kernel: Pick<Kernel, 'ask' | 'clock' | 'random' | 'scheduler'>
  readonly rolloutServer: Address<RolloutServerCommand>
  readonly ledger: Address<LedgerCommand>
  readonly callback: Address<CallbackCommand>
  /** Null when that gateway does not answer. */
  readonly readGateway: (gateway: GatewayId) => Promise<GatewaySnapshot | null>
  readonly askGateway: AskGateway
  /** Where agents that run elsewhere reach the model port of a gateway. */
  readonly modelUrl: (gateway: GatewayId, modelPort: number) => string
  readonly replicas: ReplicaControl
  readonly inference: InferenceControl
  readonly upstream: Upstream
  /** Under which clients find this server; null: as it is bound. */
  readonly publicUrl: string | null
  readonly readResult: ReadResult
  readonly results: KeptResults
  readonly readCompletions: ReadCompletions
  /** Unknown harness, evaluator, builder or backend, and what those find wrong with their part. */
  readonly checkTask: (request: TaskRequest) => readonly TaskProblem[]
  /** The replica at this address is the embedded engine; null: there is none. */
  readonly embeddedUrl: string | null
  readonly events: EventFeed
  readonly feedWaiters: FeedWaiters
  readonly limits: { readonly bodyBytes: number; readonly admittedSessions: number }
  readonly log: FastifyBaseLogger | null
}

/** Changes what gateways serve from. */
type ReplicaControl = {
  /** To all of them or to none; null when all took it, else who did not. */
  add(gateways: readonly GatewayId[], replica: ReplicaSpec): Promise<GatewayChange | null>
  remove(gateways: readonly GatewayId[], replica: ReplicaId): Promise<readonly GatewayChange[]>
}

export type PauseRefusal = {
  readonly gateway: GatewayId
  /** `silent`: it did not answer. */
  readonly error: 'timed-out' | 'resumed' | 'silent'
}

/** Holds the model calls of gateways. */
type InferenceControl = {
  /** Every gateway of this node, drained ones too. */
  readonly gateways: readonly GatewayId[]
  holds(gateway: GatewayId): boolean
  /** Null when it does not answer. */
  read(gateway: GatewayId): Promise<InferenceStatus | null>
  /** All of them, or none that was not paused before. */
  pause(
    gateways: readonly GatewayId[],
    timeoutMs: number,
  ): Promise<{ readonly ok: true; readonly statuses: readonly InferenceStatus[] } | ({ readonly ok: false } & PauseRefusal)>
  resume(gateways: readonly GatewayId[]): Promise<readonly (InferenceStatus | null)[]>
}

type Replicas = GatewaySnapshot['replicas']
type Unanswered = { readonly ok: false; readonly error: 'unanswered' | 'not-understood'; readonly detail: string }

/** Asks one of a gateway's inference servers on the spot. */
type Upstream = {
  get(
    replicas: Replicas,
    path: '/health' | '/v1/models',
  ): Promise<{ readonly ok: true; readonly contentType: string; readonly body: Uint8Array } | Unanswered>
  countTokens(
    replicas: Replicas,
    body: unknown,
  ): Promise<{ readonly ok: true; readonly count: number; readonly maxModelLen: number | null } | Unanswered>
}

export type ControlApi = {
  readonly url: string
  /** Lets go of every reader, then of the port. Idempotent. */
  close(): Promise<void>
}

/** What a route file needs: the options, and one way to ask the rollout server. */
export type RouteContext = ControlApiOptions & {
  readonly askServer: <R>(make: (ask: Ask<R>) => RolloutServerCommand) => Promise<Answer<R>>
  /** Base of a gateway's own routes. */
  readonly gatewayUrl: (gateway: GatewayId) => string
}

const ASK_DEADLINE_MS = 15_000

export async function openControlApi(options: ControlApiOptions): Promise<ControlApi> {
  const app = buildControlApi(options)
  const url = await app.listen({ host: options.host, port: options.port })
  let closing: Promise<void> | null = null
  return {
    url,
    close() {
      options.events.close()
      options.feedWaiters.close()
      closing ??= app.close()
      return closing
    },
  }
}

/** Without a socket: tests inject requests into it. */
export function buildControlApi(options: ControlApiOptions): FastifyInstance {
  const app = fastify({
    bodyLimit: options.limits.bodyBytes,
    logController: new LogController({ disableRequestLogging: true }),
    exposeHeadRoutes: false,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 256 },
    ...(options.log === null ? {} : { loggerInstance: options.log }),
    frameworkErrors: (error, _request, reply) => void refuse(reply, 'bad-request', error.message),
  })
  const context: RouteContext = {
    ...options,
    askServer: (make) => options.kernel.ask(options.rolloutServer, make, ASK_DEADLINE_MS),
    gatewayUrl: (gateway) => `${urlOf(app, options)}/gateways/${gateway}`,
  }
  app.removeContentTypeParser('text/plain')
  const parseBody = app.getDefaultJsonParser('error', 'error')
  // Clients that always say JSON also say it of a request without a body.
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, text, done) =>
    text === '' ? done(null) : parseBody(request, text, done),
  )
  // Schemas of routes are documentation: what comes in is parsed by zod, what goes out is written as it is.
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => JSON.stringify)
  app.addHook('onRequest', async (request, reply) => {
    reply.header('cache-control', 'no-store').header('x-content-type-options', 'nosniff')
    const isOpen = request.routeOptions.url === '/health'
    if (!isOpen && !isAuthorized(request.headers, options.token)) return refuse(reply, 'token-missing')
  })
  app.setNotFoundHandler((request, reply) =>
    refuse(reply, 'route-unknown', `no route ${request.method} ${request.url.split('?')[0]}; GET /openapi.json lists those of this node`),
  )
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    switch (error.code) {
      case 'FST_ERR_CTP_BODY_TOO_LARGE':
        return refuse(reply, 'body-too-large', `the request body exceeds ${options.limits.bodyBytes} bytes`)
      case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
        return refuse(reply, 'not-json')
      case 'FST_ERR_CTP_INVALID_JSON_BODY':
        return refuse(reply, 'invalid', [{ loc: ['body'], msg: `JSON decode error: ${error.message}`, type: 'json_invalid' }])
      default:
        if (error.statusCode !== undefined && error.statusCode < 500) return refuse(reply, 'bad-request', error.message)
        request.log.error({ err: error, method: request.method, route: request.routeOptions.url }, 'a control route failed')
        return refuse(reply, 'internal')
    }
  })
  app.register(swagger, OPENAPI)
  // Behind the plugin, which documents the routes that come after it.
  app.register(async (routes) => {
    taskRoutes(routes, context)
    resultRoutes(routes, context)
    completionRoutes(routes, context)
    feedRoutes(routes, context)
    callbackRoutes(routes, context)
    nodeRoutes(routes, context)
    registryRoutes(routes, context)
    gatewayRootRoutes(routes, context)
    inferenceRoutes(routes, context)
    eventRoutes(routes, context)
    replicaRoutes(routes, context)
    sessionRoutes(routes, context)
    serviceRoutes(routes)
  })
  return app
}

function urlOf(app: FastifyInstance, { publicUrl, host, port }: ControlApiOptions): string {
  const [bound] = app.addresses()
  const at = typeof bound === 'object' ? bound : { address: host, port }
  return serverUrl(publicUrl, at.address, at.port)
}
