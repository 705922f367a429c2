import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { ensureAgent } from '../../scripts/agents.ts'
import type { DriftReport, ForkCause } from '../../src/doctor/drift-report.ts'
import { type EngineSettings, openScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { type Finished, root } from '../lib/polar-process.ts'
import { processesNaming } from '../lib/working-node.ts'

const TEST_MS = 90_000
const MODEL = 'policy'

let folder = ''
/** Where the command under test has its temporary files: whatever is left in it was forgotten. */
let temporary = ''
const opened: { close(): unknown }[] = []
beforeAll(async () => {
  await ensureAgent('pi')
  folder = mkdtempSync(join(tmpdir(), 'polar-drift-'))
}, 600_000)
beforeEach(() => {
  temporary = mkdtempSync(join(folder, 'tmp-'))
})
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const look = (command: string) => ({ name: 'bash', arguments: { command } })
const THOUGHT = 'There is a file to look at.'

/** Three turns of one conversation; `finish` is how the engine says that the first one ended, `tookMs` how long it takes. */
async function engineOf(finish: 'stop' | 'length', settings: EngineSettings, tookMs = 0): Promise<string> {
  const rule = (turn: number, choice: object) => ({ match: { turn, has_tool: 'bash' }, choices: [choice] })
  const rules = [
    rule(1, {
      reasoning: THOUGHT,
      text: 'I look.',
      tool_calls: [look('cat note.txt')],
      finish_reason: finish,
      latency: { ttft_ms: tookMs },
    }),
    rule(2, { reasoning: 'Once more.', text: 'And again.', tool_calls: [look('ls -1')] }),
  ]
  const engine = await openScriptedEngine({ script: { rules, fallback: { text: 'It is 4711.' } }, model: MODEL, ...settings })
  opened.push(engine)
  return engine.url
}

/** To an engine behind it no earlier turn has reasoning: what a chat template does that leaves it out. */
async function forgetful(engineUrl: string): Promise<string> {
  const relay = createServer(async (request, response) => {
    const chunks: Uint8Array[] = []
    for await (const chunk of request) chunks.push(chunk)
    const text = Buffer.concat(chunks).toString('utf8')
    const body = request.url === '/v1/chat/completions' ? withoutReasoning(text) : text
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(engineUrl + request.url, request.method === 'GET' ? {} : { method: 'POST', headers, body })
    response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type') ?? 'application/json' })
    response.end(Buffer.from(await reply.arrayBuffer()))
  })
  await new Promise<void>((listening) => relay.listen(0, '127.0.0.1', listening))
  opened.push({ close: () => new Promise((closed) => relay.close(closed)) })
  return `http://127.0.0.1:${(relay.address() as AddressInfo).port}` // a TCP server's address
}

function withoutReasoning(text: string): string {
  const body = JSON.parse(text)
  for (const message of body.messages) for (const key of ['reasoning', 'reasoning_content']) delete message[key]
  return JSON.stringify(body)
}

function start(args: readonly string[]): ChildProcess {
  return spawn(process.execPath, ['bin/polar.js', 'doctor', 'drift', ...args], {
    cwd: root,
    env: { ...process.env, TMPDIR: temporary },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

async function drift(...args: readonly string[]): Promise<Finished> {
  const child = start(args)
  let [stdout, stderr] = ['', '']
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}

function tasksFile(value: unknown): string {
  const file = join(folder, 'tasks.json')
  writeFileSync(file, JSON.stringify(value))
  return file
}

const NOTE = { type: 'exec', command: 'echo 4711 > note.txt' }
const ONE_TASK = [{ task_id: 'note', instruction: 'Which number is in note.txt?', runtime: { backend: 'local', prepare: [NOTE] } }]

const textsOf = ({ example: { window } }: ForkCause) => [window?.common.text, window?.earlier.text, window?.later.text]

describe('polar doctor drift, with the real pi CLI', () => {
  it(
    'ends with 0 when every chain is whole, and says so as one JSON object',
    async () => {
      const { code, stdout, stderr } = await drift(
        '--engine-url',
        await engineOf('stop', {}),
        '--engine',
        'vllm',
        '--harness',
        'pi',
        '--json',
      )
      const report: DriftReport = JSON.parse(stdout)
      expect(stderr).toContain('3/3  pi ')
      expect(report).toMatchObject({
        version: 1,
        whole: true,
        engine: { kind: 'vllm', model: MODEL, logprob_mode: 'raw' },
        notes: [],
        harnesses: [{ harness: 'pi', sessions: 3, outcomes: { completed: 3 }, calls: 9, rows: 3, merge_ratio: 3, forks: [], failed: [] }],
      })
      expect([code, readdirSync(temporary)]).toEqual([0, []])
    },
    TEST_MS,
  )

  it(
    'shows reasoning that the template leaves out, as ids and as text, and what would mend it',
    async () => {
      const url = await forgetful(await engineOf('stop', {}))
      const file = tasksFile(ONE_TASK)
      const { code, stdout } = await drift('--engine-url', url, '--engine', 'vllm', '--harness', 'pi', '--tasks', file, '--json')
      const [harness] = (JSON.parse(stdout) as DriftReport).harnesses
      expect(harness).toMatchObject({ whole: false, sessions: 1, calls: 3, rows: 3, merge_ratio: 1, best_merge_ratio: 3 })
      const [fork] = harness!.forks
      expect(fork).toMatchObject({ class: 'D2', reason: 'the chat template leaves out reasoning', count: 2, sessions: 1, splits_row: true })
      const [common, earlier, later] = textsOf(fork!)
      expect(common).toMatch(/<\|im_end\|>\n<\|im_start\|>assistant\n$/)
      expect(`<think>\n${THOUGHT}`).toContain(earlier)
      expect(earlier).toMatch(/^<think>\n/)
      expect(later).toMatch(/^I look\.\n<tool_call>/)
      expect(fork!.remedies.map(({ key }) => key)).toEqual(['--chat-template', 'splice'])
      expect([code, readdirSync(temporary)]).toEqual([1, []])
    },
    TEST_MS,
  )

  it(
    'shows where a turn was cut by its limit, on SGLang too, in words for a terminal',
    async () => {
      const url = await engineOf('length', { shape: 'sglang' })
      const { code, stdout } = await drift('--engine-url', url, '--harness', 'pi', '--tasks', tasksFile(ONE_TASK))
      expect(stdout).toContain('pi: NOT WHOLE\n  1 session (1 completed), 3 calls; 3 trained calls in 1 rows: merge ratio 3\n')
      expect(stdout).toContain('D7 cut by its token limit, 1× in 1 session\n')
      expect(stdout).toMatch(/both +[\d ]+ +".*\}\\n<\/tool_call>"/)
      expect(stdout).toMatch(/was sampled +\(nothing\)\n/)
      expect(stdout).toMatch(/came back +151645 198 [\d ]+ "<\|im_end\|>\\n<\|im_start\|>user\\n<tool_response>/)
      expect(stdout).toContain('mend: agent.settings.max_tokens: ')
      expect(code).toBe(1)
    },
    TEST_MS,
  )

  it(
    'is stopped by Ctrl-C in the middle of a session, and leaves nothing behind',
    async () => {
      const url = await engineOf('stop', {}, 600_000)
      const child = start(['--engine-url', url, '--engine', 'vllm', '--harness', 'pi', '--tasks', tasksFile(ONE_TASK)])
      const gone = once(child, 'exit')
      const isAtWork = () => processesNaming(temporary).some(({ command }) => command.includes('pi-coding-agent'))
      await vi.waitUntil(isAtWork, { timeout: TEST_MS, interval: 50 })
      child.kill('SIGINT')
      expect(await gone).toEqual([130, null])
      expect([readdirSync(temporary), processesNaming(temporary)]).toEqual([[], []])
    },
    TEST_MS,
  )
})

describe('what cannot be looked at is said in the user’s terms', () => {
  it.each<[string, () => readonly string[], number, RegExp]>([
    [
      'an engine that is not there',
      () => ['--engine-url', 'http://127.0.0.1:9', '--harness', 'pi'],
      3,
      /no engine can be reached: http:\/\/127\.0\.0\.1:9: .*ECONNREFUSED/,
    ],
    ['an address that is none', () => ['--engine-url', 'nowhere'], 2, /--engine-url: must be a URL/],
    [
      'a harness that nobody knows',
      () => ['--harness', 'pi,fly'],
      2,
      /agent\.harness 'fly' is not known on this node; known: 'shell', 'pi'/,
    ],
    ['a task file that is not there', () => ['--tasks', 'nowhere.json'], 2, /cannot read the tasks nowhere\.json/],
    ['a task that lacks a field', () => ['--tasks', tasksFile([{ task_id: 'a' }])], 2, /tasks\.json: \[0\]\.instruction: is required/],
  ])(
    '%s',
    async (_, args, expected, words) => {
      const { code, stdout, stderr } = await drift(...args())
      expect(stderr).toMatch(words)
      expect([code, stdout, readdirSync(temporary)]).toEqual([expected, '', []])
    },
    TEST_MS,
  )

  it(
    'an engine that gives no token ids',
    async () => {
      const url = await engineOf('stop', { faults: [{ fault: 'missing-token-ids' }] })
      const { code, stderr } = await drift('--engine-url', url, '--engine', 'vllm', '--harness', 'pi')
      expect(stderr).toMatch(/the engine at http:\S+ does not give what training needs, token ids and logprobs: ids-missing/)
      expect([code, readdirSync(temporary)]).toEqual([3, []])
    },
    TEST_MS,
  )
})
