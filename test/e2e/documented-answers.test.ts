// What a real node answers, with a real sandbox, real calls and a real inference server behind it, is what its own document says.
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { isJsonSchema } from '../../src/contract/wire/json-schema.ts'
import { taskResult } from '../../src/contract/wire/result.ts'
import { openAnswerCheck } from '../lib/openapi-answers.ts'
import type { Serving } from '../lib/polar-process.ts'
import { openWorkplace, type Workplace } from '../lib/working-node.ts'

let work: Workplace
let node: Serving
beforeAll(async () => {
  work = await openWorkplace()
  node = await work.start()
})
afterAll(() => work.close())

const READ = [
  '/health',
  '/nodes',
  '/nodes/g',
  '/tasks',
  '/rollout/status',
  '/rollout/task/t',
  '/tasks/t/sessions',
  '/sessions',
  '/sessions/SESSION',
  '/sessions/SESSION/completions',
  '/replicas',
  '/callbacks',
  '/feed',
  '/admin/inference/status',
  '/gateways/g',
  '/gateways/g/health',
  '/gateways/g/sessions',
  '/gateways/g/replicas',
  '/gateways/g/v1/models',
  '/gateways/g/admin/inference/status',
]
const READ_AT_THE_END = ['/sessions/SESSION/result', '/sessions/SESSION/result/traces']

it('while sessions run, and when they have ended and were called back', async () => {
  const { body: document } = await get('/openapi.json')
  if (!isJsonSchema(document)) throw new Error('the document is no object')
  const check = openAnswerCheck(document)
  const problemsOf = async (urls: readonly string[], session: string) => {
    const answers = await Promise.all(urls.map(async (url) => ({ url, answer: await get(url.replace('SESSION', session)) })))
    expect(answers.filter(({ answer }) => answer.status !== 200)).toEqual([])
    return answers.flatMap(({ url, answer }) => check.problemOf('GET', url, answer) ?? [])
  }

  await work.submit(node, 't', 2)
  await work.working(2)
  const session = String(/"session_id":"([^"]+)"/.exec(JSON.stringify((await get('/tasks/t/sessions')).body))?.[1])
  expect(await problemsOf(READ, session)).toEqual([])

  work.openGate()
  await vi.waitUntil(() => work.callbacks.length === 1, { timeout: 60_000, interval: 20 })
  expect(await problemsOf([...READ, ...READ_AT_THE_END], session)).toEqual([])
  expect(check.problemOfCall('taskEnded', work.callbacks[0])).toBeNull()
  expect(taskResult.safeParse(work.callbacks[0]).error?.issues ?? []).toEqual([])
  expect(JSON.stringify(work.callbacks[0])).toContain('"loss_mask":[1')
})

async function get(url: string) {
  const response = await fetch(`${node.url}${url}`, { headers: { authorization: `Bearer ${node.token}` } })
  const body: unknown = await response.json()
  return { status: response.status, contentType: String(response.headers.get('content-type')), body }
}
