// `polar results` and `polar callbacks` against something that stands where a node would: what they print, keep, and end with.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { root, runPolar, runToEnd } from '../lib/polar-process.ts'

type Answer = { readonly status: number; readonly body: unknown }
type Asked = { readonly method: string; readonly path: string; readonly body: string }

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'polar-results-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const stands: Server[] = []
afterEach(async () => {
  for (const stand of stands.splice(0)) await new Promise((closed) => stand.close(closed))
})

/** Gives these answers by path, one after the other; to whatever else is asked it says that it ends. */
async function stand(answers: Readonly<Record<string, readonly Answer[]>>): Promise<{ readonly url: string; readonly asked: Asked[] }> {
  const asked: Asked[] = []
  const left = new Map(Object.entries(answers).map(([path, list]) => [path, [...list]]))
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    asked.push({ method: request.method ?? '', path: request.url ?? '', body })
    const answer = left.get((request.url ?? '').split('?')[0] ?? '')?.shift() ?? { status: 401, body: { detail: 'it is over' } }
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body))
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  stands.push(server)
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

const session = (cursor: string, id: string, task = 't') => ({
  type: 'session',
  cursor,
  session_id: id,
  task_id: task,
  status: 'COMPLETED',
  outcome: 'completed',
  reward: 0.5,
  attempt: 2,
  traces: 3,
  bytes: 700,
  href: `/sessions/${id}/result`,
})
const page = (entries: readonly unknown[], next: string, more: Readonly<Record<string, unknown>> = {}): Answer => ({
  status: 200,
  body: { entries, next, missed: false, start_over: false, ...more },
})

describe('polar results', () => {
  it('prints a line for each, and asks on until a page is not full', async () => {
    const full = Array.from({ length: 200 }, (_, i) => session(`l-${i + 1}`, `s${i}`, i === 1 ? 's1' : 't'))
    const task = { type: 'task', cursor: 'l-201', task_id: 't', status: 'completed', delivery: 'dead', href: '/rollout/task/t' }
    const { url, asked } = await stand({ '/feed': [page(full, 'l-200'), page([task], 'l-201')] })
    const { code, stdout, stderr } = await runPolar('results', '--rollout-url', url, '--after', 'l-0')
    expect([code, stderr]).toEqual([0, ''])
    const lines = stdout.trimEnd().split('\n')
    expect(lines).toHaveLength(201)
    expect(lines[0]).toBe('l-1  session s0 of t  completed  reward 0.5  attempt 2  3 traces, 700 bytes')
    expect(lines[1]).toBe('l-2  session s1  completed  reward 0.5  attempt 2  3 traces, 700 bytes')
    expect(lines[200]).toBe('l-201  task t  completed  callback never delivered (polar callbacks says why)')
    expect(asked.map(({ path }) => path)).toEqual(['/feed?limit=200&after=l-0', '/feed?limit=200&after=l-200'])
  })

  it.each([
    ['some are no longer kept', { missed: true }, 'some results from before these are no longer kept', false],
    ['the cursor is of an earlier process', { missed: true, start_over: true }, 'k-7 is of an earlier process of the node', true],
  ])('says that %s', async (_, more, words, startOver) => {
    const { url } = await stand({ '/feed': [page([session('l-1', 's')], 'l-1', more), page([session('l-1', 's')], 'l-1', more)] })
    const plain = await runPolar('results', '--rollout-url', url, '--after', 'k-7')
    expect([plain.code, plain.stderr]).toEqual([0, expect.stringContaining(words)])
    const json = await runPolar('results', '--rollout-url', url, '--after', 'k-7', '--json')
    const [first, second] = json.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect([first, second]).toEqual([{ type: 'missed', after: 'k-7', start_over: startOver }, session('l-1', 's')])
  })

  it('follows the feed through a node that starts again, saving each result once before its line', async () => {
    const saved = join(folder, 'followed')
    const gone = { status: 503, body: { detail: 'starting' } }
    const result = { session_id: 'a', trajectory: { traces: [] } }
    const { url, asked } = await stand({
      '/feed': [page([], 'l-0'), page([session('l-1', 'a')], 'l-1'), gone, page([session('m-1', 'b')], 'm-1')],
      '/sessions/a/result': [gone, { status: 200, body: result }],
      '/sessions/b/result': [{ status: 200, body: { ...result, session_id: 'b' } }],
    })
    const { code, stdout } = await runPolar('results', '--rollout-url', url, '--follow', '--save', saved)
    // The stand is over with a refusal, which ends it.
    expect([
      code,
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => line.split(' ')[0]),
    ]).toEqual([2, ['l-1', 'm-1']])
    expect(readdirSync(join(saved, 'task_t')).sort()).toEqual(['ses_a.json', 'ses_b.json'])
    expect(JSON.parse(readFileSync(join(saved, 'task_t', 'ses_a.json'), 'utf8'))).toEqual(result)
    expect(asked.filter(({ path }) => path.startsWith('/feed')).map(({ path }) => new URL(path, url).searchParams.get('after'))).toEqual([
      null,
      'l-0',
      'l-1',
      'l-1',
      'm-1',
    ])
    expect(asked.every(({ path }) => !path.startsWith('/feed') || path.includes('wait_seconds=30'))).toBe(true)
  })

  it('ends when nobody listens any more', async () => {
    const endless = Array.from({ length: 1_000 }, (_, i) => page([session(`l-${i}`, 's')], `l-${i}`))
    const { url, asked } = await stand({ '/feed': endless })
    const { code, stdout } = await runToEnd('bash', [
      '-c',
      `'${process.execPath}' '${root}/bin/polar.js' results --follow --rollout-url ${url} | head -1`,
    ])
    expect([code, stdout.split(' ')[0]]).toEqual([0, 'l-0'])
    expect(asked.length).toBeLessThan(1_000)
  })

  it('goes on without a result that is no longer kept, and ends as not whole', async () => {
    const { url } = await stand({
      '/feed': [page([session('l-1', 'a'), session('l-2', 'b')], 'l-2')],
      '/sessions/a/result': [{ status: 410, body: { detail: 'dropped' } }],
      '/sessions/b/result': [{ status: 200, body: {} }],
    })
    const { code, stdout, stderr } = await runPolar('results', '--rollout-url', url, '--save', join(folder, 'lost'))
    expect([code, stdout.trimEnd().split('\n').length, stderr]).toEqual([1, 2, 'polar: a is not saved: 410: dropped\n'])
    expect(readdirSync(join(folder, 'lost', 'task_t'))).toEqual(['ses_b.json'])
  })

  it('ends before the line of a result that it cannot save', async () => {
    const { url } = await stand({
      '/feed': [page([session('l-1', 'a'), session('l-2', 'b')], 'l-2')],
      '/sessions/a/result': [{ status: 200, body: {} }],
      '/sessions/b/result': [{ status: 503, body: { detail: 'busy' } }],
    })
    const { code, stdout } = await runPolar('results', '--rollout-url', url, '--save', join(folder, 'busy'))
    expect([
      code,
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => line.split(' ')[0]),
    ]).toEqual([3, ['l-1']])
  })

  it.each([
    ['session', '../../evil', 't'],
    ['task', 's', '../../evil'],
  ])('writes nothing for a %s id that would leave the folder', async (_, id, task) => {
    const { url } = await stand({ '/feed': [page([session('l-1', id, task)], 'l-1')] })
    const { code, stderr } = await runPolar('results', '--rollout-url', url, '--save', join(folder, 'kept', 'inside'))
    expect([code, stderr]).toEqual([3, expect.stringContaining('no node gives ids like')])
    expect(existsSync(join(folder, 'kept'))).toBe(false)
  })
})

describe('polar callbacks', () => {
  it('lists how each stands', async () => {
    const row = { task_id: 't', session_id: null, state: 'dead', origin: 'http://h:1', tries: 10, detail: 'answered 500', ended_at: 1 }
    const sole = { ...row, task_id: null, session_id: 's', state: 'pending', tries: 1, detail: null, ended_at: null }
    const { url, asked } = await stand({ '/callbacks': [{ status: 200, body: { callbacks: [sole, row] } }] })
    const { code, stdout } = await runPolar('callbacks', '--rollout-url', url, '--limit', '7')
    expect([code, stdout]).toEqual([0, 'session s  pending  to http://h:1  1 try\ntask t  dead  to http://h:1  10 tries  (answered 500)\n'])
    expect(asked.map(({ path }) => path)).toEqual(['/callbacks?limit=7'])
  })

  it.each([
    [[], {}],
    [['a', 'b', '--url', 'http://h:1/cb'], { task_ids: ['a', 'b'], callback_url: 'http://h:1/cb' }],
    [['--state', 'delivered'], { state: 'delivered' }],
    [['--session', 's1', 's2'], { session_ids: ['s1', 's2'] }],
  ])('redrive %j asks for just that', async (args, body) => {
    const { url, asked } = await stand({ '/callbacks/redrive': [{ status: 200, body: { redriven: ['a'], lost: [] } }] })
    const { code, stdout } = await runPolar('callbacks', 'redrive', '--rollout-url', url, ...args)
    expect([code, stdout]).toEqual([0, 'driven again: a\n'])
    expect(asked.map((each) => [each.method, each.path, JSON.parse(each.body)])).toEqual([['POST', '/callbacks/redrive', body]])
  })

  it.each([
    ['results are lost', { status: 200, body: { redriven: [], lost: ['a'] } }, 1, 'no longer kept, and lost: a'],
    ['a task is unknown', { status: 404, body: { detail: 'no ended task a' } }, 1, 'no ended task a'],
    ['the URL is none', { status: 422, body: { detail: [{ loc: ['body', 'callback_url'], msg: 'must be a URL' }] } }, 2, 'must be a URL'],
    ['the node is too busy', { status: 503, body: { detail: 'busy' } }, 3, 'busy'],
  ])('redrive says that %s', async (_, answer, expected, words) => {
    const { url } = await stand({ '/callbacks/redrive': [answer] })
    const { code, stderr } = await runPolar('callbacks', 'redrive', 'a', '--rollout-url', url)
    expect([code, stderr]).toEqual([expected, expect.stringContaining(words)])
  })
})
