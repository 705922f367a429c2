// /openapi.json is true: every route stands in it, everything in it is served, and answers are as they are described.
import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, describe, expect, it } from 'vitest'
import { isJsonSchema, type JsonSchema } from '../../src/contract/wire/json-schema.ts'
import { SCHEMA_VERSION } from '../../src/contract/wire/version.ts'
import { openAnswerCheck } from '../lib/openapi-answers.ts'
import { answerScene } from './answer-scene.ts'
import { TOKEN } from './control-world.ts'

type Route = { readonly name: string; readonly isHidden: boolean }

const routes: Route[] = []
const scene = await answerScene((app) => {
  // The routes stand behind the plugin that documents them, so none is there before the server is ready.
  app.addHook('onRoute', ({ method, url, schema }) => {
    const isHidden = schema?.hide === true
    for (const one of [method].flat()) routes.push({ name: `${one} ${url.replace(/:(\w+)/g, '{$1}')}`, isHidden })
  })
})
const { control } = scene
const document: JsonSchema = (await control.call('GET', '/openapi.json')).body
afterAll(() => control.close())

type Documented = { readonly name: string; readonly method: string; readonly path: string; readonly about: JsonSchema }
const operations = Object.entries(asObject(document.paths)).flatMap(([path, item]) =>
  Object.entries(asObject(item)).map(([method, about]): Documented => {
    const upper = method.toUpperCase()
    return { name: `${upper} ${path}`, method: upper, path, about: asObject(about) }
  }),
)

describe('the document', () => {
  it('is OpenAPI 3.1', async () => {
    const result = await new Validator().validate(structuredClone(document))
    expect(result).toMatchObject({ valid: true })
    expect(document.openapi).toBe('3.1.0')
  })

  it('says of which edition the messages are', () => {
    expect(document.info).toMatchObject({ version: SCHEMA_VERSION })
  })

  it('names the three ways to present the token', () => {
    expect(asObject(document.components).securitySchemes).toMatchObject({
      bearer: { type: 'http', scheme: 'bearer' },
      basic: { type: 'http', scheme: 'basic' },
      header: { type: 'apiKey', in: 'header', name: 'x-polar-control-token' },
    })
  })

  it('refers to nothing that it does not hold', () => {
    const schemas = asObject(asObject(document.components).schemas)
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, reference = '']) => reference)
    const dangling = references.filter((reference) => schemas[reference.replace('#/components/schemas/', '')] === undefined)
    expect(references.length).toBeGreaterThan(0)
    expect(dangling).toEqual([])
  })

  it('has every route that the server has, and no other', () => {
    const served = routes.filter(({ isHidden }) => !isHidden).map(({ name }) => name)
    expect(served.length).toBeGreaterThan(0)
    expect(operations.map(({ name }) => name).toSorted()).toEqual(served.toSorted())
  })

  it('leaves out only where model calls are told to go elsewhere', () => {
    const hidden = routes.filter(({ isHidden }) => isHidden).map(({ name }) => name)
    expect(hidden).toEqual(['POST /gateways/{gateway}', 'POST /gateways/{gateway}/', 'POST /gateways/{gateway}/*'])
  })

  it('gives each operation an id of its own', () => {
    const ids = operations.map(({ about }) => about.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids.every((id) => typeof id === 'string' && /^[a-z]\w+$/.test(id))).toBe(true)
  })

  it.each(operations)('says what $name is for and what it answers', ({ path, about }) => {
    expect(about).toMatchObject({ summary: expect.any(String), tags: [expect.any(String)] })
    const declared = Array.isArray(about.parameters) ? about.parameters.filter((parameter) => parameter.in === 'path') : []
    expect(declared.map(({ name }) => name).toSorted()).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).toSorted())
    const good = Object.entries(asObject(about.responses)).filter(([status]) => status.startsWith('2'))
    expect(good.length).toBeGreaterThan(0)
    expect(good.every(([, answer]) => asObject(answer).description !== 'Default Response')).toBe(true)
  })

  it('says which bodies may be left out', () => {
    const withBody = operations.filter(({ about }) => about.requestBody !== undefined)
    const free = withBody.filter(({ about }) => asObject(about.requestBody).required === false).map(({ name }) => name)
    const ends = ['/sessions', '/sessions/{id}/finish'].flatMap((path) => [`POST ${path}`, `POST /gateways/{gateway}${path}`])
    expect(free.toSorted()).toEqual([...ends, 'POST /callbacks/redrive'].toSorted())
    expect(withBody.length).toBeGreaterThan(free.length)
  })

  it.each(operations)('tells whether $name needs the token', async ({ method, path, about }) => {
    const isOpen = Array.isArray(about.security) && about.security.length === 0
    // Nobody who may not ask is answered by an event stream, so every one of them ends.
    const reply = await control.app.inject({ method: methodOf(method), url: path.replace(/\{\w+\}/g, 'x') })
    expect(reply.statusCode === 401).toBe(!isOpen)
  })
})

type Call = readonly [method: 'GET' | 'HEAD' | 'POST' | 'DELETE', url: string, body?: object]

/** In this order: what is opened first is read, then ended. */
const CALLS: readonly Call[] = [
  ['GET', '/health'],
  ['GET', '/openapi.json'],
  ['GET', '/schemas'],
  ['GET', '/schemas/Trace.json'],
  ['POST', '/rollout/task/submit', { task_id: 'new', instruction: 'do it', agent: { harness: 'shell' } }],
  ['GET', '/rollout/task/ended'],
  ['GET', '/rollout/task/running'],
  ['GET', '/rollout/status'],
  ['GET', '/tasks'],
  ['GET', '/tasks/ended/sessions'],
  ['GET', '/tasks/running/sessions'],
  ['POST', '/sessions', { session_id: 'captured', task_id: 'capture' }],
  ['POST', '/gateways/g0/sessions', { session_id: 'captured-too' }],
  ['GET', '/sessions'],
  ['GET', '/gateways/g0/sessions'],
  ['GET', '/sessions/ENDED'],
  ['GET', '/gateways/g0/sessions/RUNNING'],
  ['GET', '/sessions/ENDED/completions'],
  ['GET', '/gateways/g0/sessions/ENDED/completions'],
  ['GET', '/sessions/ENDED/result'],
  ['HEAD', '/sessions/ENDED/result'],
  ['GET', '/sessions/ENDED/result/traces'],
  ['POST', '/sessions/captured/finish', {}],
  ['POST', '/gateways/g0/sessions/captured-too/finish', {}],
  ['GET', '/feed'],
  ['GET', '/callbacks'],
  ['POST', '/callbacks/redrive', { task_ids: ['ended'] }],
  ['POST', '/callbacks/session_result', { session_id: 's', task_id: 't', status: 'COMPLETED' }],
  ['GET', '/nodes'],
  ['GET', '/nodes/g0'],
  ['POST', '/nodes/g0/heartbeat', { metrics: {} }],
  ['GET', '/gateways/g0'],
  ['HEAD', '/gateways/g0'],
  ['GET', '/gateways/g0/'],
  ['HEAD', '/gateways/g0/'],
  ['GET', '/gateways/g0/health'],
  ['GET', '/gateways/g0/v1/models'],
  ['POST', '/gateways/g0/v1/tokenize', { prompt: 'how long' }],
  ['GET', '/gateways/g0/admin/inference/status'],
  ['POST', '/gateways/g0/admin/inference/pause'],
  ['POST', '/gateways/g0/admin/inference/resume'],
  ['GET', '/admin/inference/status'],
  ['POST', '/admin/inference/pause'],
  ['POST', '/admin/inference/resume'],
  ['GET', '/replicas'],
  ['GET', '/gateways/g0/replicas'],
  ['POST', '/replicas', { url: 'http://gpu:8000', engine: 'vllm' }],
  ['POST', '/gateways/g0/replicas', { url: 'http://gpu:8000', engine: 'vllm' }],
  ['DELETE', '/replicas/r0'],
  ['DELETE', '/gateways/g0/replicas/r0'],
  ['DELETE', '/sessions/RUNNING'],
  ['DELETE', '/gateways/g0/sessions/ENDED'],
  ['DELETE', '/rollout/task/running'],
  ['DELETE', '/nodes/g0'],
  [
    'POST',
    '/nodes/register',
    { node_id: 'g0', gateway_url: 'http://127.0.0.1', max_init_workers: 1, max_run_workers: 1, max_postrun_workers: 1 },
  ],
]
/** These go on until the reader leaves. */
const STREAMS = ['GET /events', 'GET /gateways/{gateway}/events']

describe('an answer', () => {
  const check = openAnswerCheck(document)
  const called = new Set<string>()

  it.each(CALLS.map(([method, url, body]) => ({ method, template: url, body })))(
    'to $method $template is as it is documented',
    async ({ method, template, body }) => {
      const url = template.replace('ENDED', scene.ended).replace('RUNNING', scene.running)
      const answer = await ask(method, url, body)
      expect(check.problemOf(method, url, answer)).toBeNull()
      expect(answer.status).toBeLessThan(300)
      called.add(`${method} ${check.operationOf(method, url)?.path}`)
    },
  )

  it('of every operation stands in the table above', () => {
    const documented = operations.map(({ name }) => name).filter((name) => !STREAMS.includes(name))
    expect([...called].toSorted()).toEqual(documented.toSorted())
  })

  it.each([
    ['no such task', 'GET', '/rollout/task/none', undefined],
    ['a request of the wrong shape', 'POST', '/rollout/task/submit', { task_id: 'x' }],
    ['a body that is too large', 'POST', '/rollout/task/submit', { instruction: 'x'.repeat(5_000) }],
  ] as const)('to %s is as errors are documented', async (_, method, url, body) => {
    const answer = await ask(method, url, body)
    expect(answer.status).toBeGreaterThanOrEqual(400)
    expect(check.problemOf(method, url, answer)).toBeNull()
    const answers = asObject(check.operationOf(method, url)?.about.responses)
    const headers = asObject(asObject(answers[String(answer.status)]).headers)
    if (answer.status !== 413)
      expect(headers).toMatchObject({ 'x-polar-error': { schema: { enum: expect.arrayContaining([answer.code]) } } })
  })

  it('is an event stream of documented data, whatever its event', () => {
    const seen = new Map<string, string | null>()
    for (const lastId of ['b-0', 'of-another-process-1']) {
      for (const [, type = '', data = ''] of eventsSince(lastId).matchAll(/^event: (.+)\ndata: (.+)$/gm)) {
        seen.set(type, seen.get(type) ?? check.problemOfEvent('/events', JSON.parse(data)))
      }
    }
    expect([...seen.keys()]).toEqual(expect.arrayContaining(['events.lost', 'session.state_changed', 'task.completed', 'task.created']))
    expect([...seen.values()].filter((problem) => problem !== null)).toEqual([])
    expect(check.problemOfEvent('/events', { task_id: 't' })).toContain('must have required property')
  })

  it('and a call of the node are as documented', () => {
    const { body } = control.delivered.find(({ url }) => url === 'http://trainer/done') ?? {}
    expect(check.problemOfCall('taskEnded', body)).toBeNull()
    expect(check.problemOfCall('taskEnded', {})).toContain('must have required property')
  })

  describe('that is not as it is documented is seen:', () => {
    const row = { session_id: 's', task_id: 't', created_at: 1, completion_count: 0, status: 'RUNNING', node_id: 'g0', attempt: 1 }
    const given = (body: unknown, status = 200, contentType = 'application/json') => ({ status, contentType, body })
    it.each([
      ['nothing is wrong', given(row), null],
      ['a key is missing', given({ ...row, status: undefined }), "must have required property 'status'"],
      ['a key is of another type', given({ ...row, created_at: 'today' }), '/created_at must be number'],
      ['a word is none of those', given({ ...row, status: 'DISPATCHING' }), '/status must be equal to one of the allowed values'],
      ['a key is not named', given({ ...row, secret: 1 }), 'must NOT have additional properties (secret)'],
      ['a status is not named', given(row, 201), 'does not document the status 201'],
      ['a content type is not named', given(row, 200, 'text/html'), 'does not document text/html'],
    ])('%s', (_, answer, problem) => {
      const parsed = { ...answer, body: JSON.parse(JSON.stringify(answer.body)) }
      const found = check.problemOf('GET', '/sessions/s', parsed)
      if (problem === null) expect(found).toBeNull()
      else expect(found).toContain(problem)
    })

    it('a route that is not there', () => {
      expect(check.problemOf('GET', '/no/such/route', given({}))).toContain('is served and not documented')
    })
  })
})

async function ask(method: Call[0], url: string, body: object | undefined) {
  const reply = await control.app.inject({
    method,
    url,
    headers: { authorization: `Bearer ${TOKEN}` },
    ...(body === undefined ? {} : { payload: body }),
  })
  const answered: unknown = reply.body === '' ? null : JSON.parse(reply.body)
  const code = reply.headers['x-polar-error']
  return { status: reply.statusCode, contentType: String(reply.headers['content-type']), body: answered, code }
}

function methodOf(method: string) {
  switch (method) {
    case 'GET':
    case 'HEAD':
    case 'POST':
    case 'PUT':
    case 'DELETE':
      return method
    default:
      throw new Error(`no test calls ${method}`)
  }
}

function asObject(value: unknown): JsonSchema {
  return isJsonSchema(value) ? value : {}
}

/** What a reader gets who comes back with this id. */
function eventsSince(lastId: string): string {
  const texts: string[] = []
  const write = (text: string) => texts.push(text)
  control.events.follow({ write, destroy() {}, on() {}, writableLength: 0 }, lastId)
  return texts.join('')
}
