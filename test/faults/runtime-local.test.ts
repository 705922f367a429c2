import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { openLocalRuntime } from '../../src/runtime/local.ts'
import { findTree } from '../../src/runtime/process-tree.ts'
import { treeOfSandbox } from '../../src/runtime/run.ts'
import type { Command, ExecResult, ProcessRef, Runtime, SandboxRef, SandboxSpec } from '../../src/runtime/runtime.ts'
import { countedRandom, realClock, unwrap } from '../lib/runtime-fixture.ts'

const MAX_OUTPUT = 64 * 1024
const plain: SandboxSpec = {
  labels: { 'polar.session': 's1' },
  env: {},
  workdir: null,
  image: null,
  cpus: null,
  memoryMb: null,
  allowInternet: true,
}
const command = (text: string, more: Partial<Command> = {}): Command => ({ command: text, env: {}, label: 'test', ...more })

let base: string
let runtime: Runtime
const started: SandboxRef[] = []

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), 'polar-local-'))
  await mkdir(join(base, 'uploads', 'tree'), { recursive: true })
  writeFileSync(join(base, 'uploads', 'one.txt'), 'one')
  writeFileSync(join(base, 'uploads', 'tree', 'two.txt'), 'two')
  writeFileSync(join(base, 'secret.txt'), 'secret')
  symlinkSync(join(base, 'secret.txt'), join(base, 'uploads', 'link.txt'))
  runtime = openLocalRuntime({
    root: join(base, 'sandboxes'),
    uploadRoots: [join(base, 'uploads')],
    maxOutputBytes: MAX_OUTPUT,
    path: process.env.PATH ?? '',
    clock: realClock,
    random: countedRandom(),
  })
})

afterEach(async () => {
  for (const sandbox of started.splice(0)) {
    await runtime.stop(sandbox, { keepLogs: null })
    expect(await findTree(await treeOfSandbox(sandbox, 0))).toEqual([])
  }
  expect(await readdir(join(base, 'sandboxes')).catch(() => [])).toEqual([])
})
afterAll(() => rm(base, { recursive: true, force: true }))

async function sandboxOf(spec: Partial<SandboxSpec> = {}): Promise<SandboxRef> {
  const { sandbox } = unwrap(await runtime.start({ ...plain, ...spec }))
  started.push(sandbox)
  return sandbox
}

async function run(sandbox: SandboxRef, text: string, timeoutMs = 20_000, more: Partial<Command> = {}): Promise<ExecResult> {
  return unwrap(await runtime.exec(sandbox, command(text, more), timeoutMs))
}

const living = async (sandbox: SandboxRef): Promise<number> => (await findTree(await treeOfSandbox(sandbox, 0))).length

/** Blocks until the command has written its line, without guessing how long that takes. */
async function untilFile(sandbox: SandboxRef, name: string): Promise<string> {
  const result = await run(sandbox, `while [ ! -s '${name}' ]; do sleep 0.02; done; cat '${name}'`)
  return result.stdout.trim()
}

describe('exit status', () => {
  it('is that of a command with more time than a timer can hold', async () => {
    const { exit } = await run(await sandboxOf(), 'sleep 0.05; exit 3', 2 ** 31)
    expect(exit).toEqual({ type: 'exited', code: 3 })
  })

  it.each([
    ['exit 0', { type: 'exited', code: 0 }],
    ['exit 1', { type: 'exited', code: 1 }],
    ['exit 124', { type: 'exited', code: 124 }],
    ['exit 137', { type: 'exited', code: 137 }],
    ['exit 255', { type: 'exited', code: 255 }],
    ['no-such-program-here', { type: 'exited', code: 127 }],
    ['kill -KILL $$', { type: 'signalled', signal: 'SIGKILL' }],
    ['kill -TERM $$', { type: 'signalled', signal: 'SIGTERM' }],
    ['kill -SEGV $$', { type: 'signalled', signal: 'SIGSEGV' }],
    ['echo a | grep -q b', { type: 'exited', code: 1 }],
  ])('tells the truth about `%s`', async (text, exit) => {
    const sandbox = await sandboxOf()
    expect((await run(sandbox, text)).exit).toEqual(exit)
  })

  it('tells a timeout from every exit code, and leaves nothing running', async () => {
    const sandbox = await sandboxOf()
    const result = await run(sandbox, `trap '' TERM; sleep 600 & echo begun; wait; sleep 600`, 300)
    expect(result.exit).toEqual({ type: 'timeout' })
    expect(result.stdout).toBe('begun\n')
    expect(await living(sandbox)).toBe(0)
  })
})

describe('the world of a command', () => {
  it('has its own home, temporary folder and workspace, PATH, and nothing else of the host', async () => {
    process.env.HTTP_PROXY = 'http://proxy.invalid:1'
    process.env.POLAR_TEST_SECRET = 'hush'
    const sandbox = await sandboxOf({ env: { FROM_TASK: 'yes' } })
    const result = await run(sandbox, 'env; pwd', 20_000, { env: { FROM_COMMAND: "it's" } })
    delete process.env.HTTP_PROXY
    delete process.env.POLAR_TEST_SECRET
    const lines = result.stdout.trim().split('\n')
    const names = lines.filter((line) => line.includes('=')).map((line) => line.slice(0, line.indexOf('=')))
    expect(names.sort()).toEqual(
      [
        'FROM_COMMAND',
        'FROM_TASK',
        'HOME',
        'LANG',
        'NO_PROXY',
        'PATH',
        'POLAR_PROCESS_MARK',
        'POLAR_SANDBOX_MARK',
        'PWD',
        'SHELL',
        'TMPDIR',
        'no_proxy',
      ].sort(),
    )
    expect(lines).toContain(`HOME=${sandbox.home}`)
    expect(lines).toContain(`PATH=${process.env.PATH}`)
    expect(lines).toContain("FROM_COMMAND=it's")
    expect(lines.at(-1)).toBe(sandbox.workdir)
    expect(statSync(sandbox.folder).mode & 0o777).toBe(0o700)
  })

  it('has an empty stdin and an own session', async () => {
    const sandbox = await sandboxOf()
    const result = await run(
      sandbox,
      `readlink /proc/self/fd/0; cat; read -r pid n s pp pg sid rest </proc/$$/stat; [ "$pid" = "$sid" ] && echo leader`,
    )
    expect(result.stdout).toBe('/dev/null\nleader\n')
  })

  it('keeps working when the command brings a PATH without any tool in it', async () => {
    const sandbox = await sandboxOf()
    const result = await run(sandbox, 'echo out; echo err >&2; exit 3', 20_000, { env: { PATH: '/nowhere' } })
    expect(result).toMatchObject({ exit: { type: 'exited', code: 3 }, stdout: 'out\n', stderr: 'err\n' })
  })

  it('never shows the command or its environment in a process listing', async () => {
    const sandbox = await sandboxOf()
    const text =
      '# hidden-word-1234\ncat /proc/[0-9]*/cmdline >list 2>/dev/null; grep -c polar-supervisor list; grep -c -e "$KEY" -e hidden-word list'
    const result = await run(sandbox, text, 20_000, { env: { KEY: 'hidden-word-4711' } })
    const [supervisors, shown] = result.stdout.trim().split('\n').map(Number)
    expect(supervisors).toBeGreaterThan(0)
    expect(shown).toBe(0)
  })

  it.each([
    ['repo', 'workspace/repo'],
    ['/testbed', 'workspace'],
    ['../../..', 'workspace'],
  ])('maps the workdir %s into the sandbox', async (workdir, expected) => {
    const sandbox = await sandboxOf({ workdir })
    expect(sandbox.workdir).toBe(join(sandbox.folder, expected))
    expect((await run(sandbox, 'pwd')).stdout).toBe(`${sandbox.workdir}\n`)
  })

  it('maps an absolute workdir wherever it is named', async () => {
    const sandbox = await sandboxOf({ workdir: '/testbed' })
    unwrap(await runtime.writeFile(sandbox, '/testbed/a/b.txt', 'b', 0o600))
    expect((await run(sandbox, 'cat b.txt', 20_000, { cwd: '/testbed/a' })).stdout).toBe('b')
    expect((await run(sandbox, 'cat a/b.txt', 20_000, { cwd: '/workspace' })).stdout).toBe('b')
  })
})

describe('output', () => {
  it.each([1, 2])('of an endless printer on stream %i is bounded, keeps its end, and does not block it', async (stream) => {
    const sandbox = await sandboxOf()
    const process = unwrap(
      await runtime.launch(sandbox, command(`(head -c 20000000 /dev/zero | tr '\\0' 'x'; echo; echo THE-END) >&${stream}`)),
    )
    const exit = await runtime.wait(process, AbortSignal.timeout(20_000))
    await runtime.kill(process, 0)
    expect(exit).toEqual({ type: 'exited', code: 0 })
    const file = stream === 1 ? process.stdoutFile : process.stderrFile
    expect(statSync(file).size).toBeLessThanOrEqual(2 * MAX_OUTPUT + 1024 * 1024)
    expect(readFileSync(file, 'utf8')).toMatch(/^\[polar-node: earlier output was left out\]\n/)
    expect(readFileSync(file, 'utf8').endsWith('x\nTHE-END\n')).toBe(true)
  })

  it('of exec is its last bytes, and says so', async () => {
    const sandbox = await sandboxOf()
    const result = await run(sandbox, `head -c 1000000 /dev/zero | tr '\\0' 'y'; echo last`)
    expect(result.truncated).toBe(true)
    expect(result.stdout.length).toBe(MAX_OUTPUT)
    expect(result.stdout.endsWith('ylast\n')).toBe(true)
  })

  it('keeps stray bytes from breaking anything', async () => {
    const sandbox = await sandboxOf()
    const result = await run(sandbox, `printf 'a\\377\\000b'`)
    expect(result.stdout).toBe('a\uFFFD\0b')
    expect(result.truncated).toBe(false)
  })

  it('is all there when wait tells of the end, however slowly it was taken up', async () => {
    const sandbox = await sandboxOf()
    const ref = unwrap(await runtime.launch(sandbox, command('echo up >up; while [ ! -e go ]; do sleep 0.02; done; echo the-last-words')))
    await untilFile(sandbox, 'up')
    const drains = pidsOf('dd', ref.pid)
    expect(drains.length).toBe(2)
    for (const pid of drains) process.kill(pid, 'SIGSTOP')
    const said = runtime.wait(ref, AbortSignal.timeout(20_000)).then(() => readFileSync(ref.stdoutFile, 'utf8'))
    unwrap(await runtime.writeFile(sandbox, 'go', '', 0o600))
    await run(sandbox, `while [ ! -e '${ref.statusFile}' ]; do sleep 0.02; done`)
    for (const pid of drains) process.kill(pid, 'SIGCONT')
    expect(await said).toBe('the-last-words\n')
  })

  it('ends with its command when the folder it was written to is gone', async () => {
    const sandbox = await sandboxOf()
    const ref = unwrap(
      await runtime.launch(sandbox, command('echo begun >begun; while [ ! -e go ]; do sleep 0.02; done; yes | head -c 300000')),
    )
    await untilFile(sandbox, 'begun')
    await rm(dirname(ref.stdoutFile), { recursive: true })
    unwrap(await runtime.writeFile(sandbox, 'go', '', 0o600))
    await vi.waitUntil(async () => (await living(sandbox)) === 0, { timeout: 20_000, interval: 50 })
  })

  it('does not wait for a daemon that keeps the stream open', async () => {
    const sandbox = await sandboxOf()
    const result = await run(sandbox, 'sleep 600 & echo started')
    expect(result).toMatchObject({ exit: { type: 'exited', code: 0 }, stdout: 'started\n' })
    expect(result.durationMs).toBeLessThan(10_000)
    expect(await living(sandbox)).toBeGreaterThan(0)
  })
})

describe('killing', () => {
  const hiders: readonly (readonly [string, string])[] = [
    ['a child that ignores TERM', `sh -c 'trap "" TERM; echo up >up; while :; do sleep 600; done'`],
    ['a child in its own session', `setsid sh -c 'echo up >up; sleep 600' & wait`],
    ['a double fork whose parents are gone', `(setsid sh -c '(sh -c "echo up >up; sleep 600" &)' &); sleep 600`],
    ['a child with an empty environment', `env -i /bin/sh -c 'echo up >up; /bin/sleep 600' & wait`],
    [
      'a daemon with an empty environment in its own session',
      `(setsid env -i /bin/sh -c '(/bin/sh -c "echo up >up; exec /bin/sleep 600" &)' &); sleep 600`,
    ],
    ['a tree of children', `for i in 1 2 3; do sh -c 'sleep 600 & sleep 600' & done; echo up >up; wait`],
  ]

  it.each(hiders)('stop ends %s', async (_name, text) => {
    const sandbox = await sandboxOf()
    unwrap(await runtime.launch(sandbox, command(text)))
    await untilFile(sandbox, 'up')
    const before = await findTree(await treeOfSandbox(sandbox, 0))
    expect(before.length).toBeGreaterThan(0)
    await runtime.stop(sandbox, { keepLogs: null })
    for (const pid of before) expect(isAlive(pid)).toBe(false)
    expect(existsSync(sandbox.folder)).toBe(false)
  })

  it('of one command spares the others of the sandbox, and its wait tells the signal', async () => {
    const sandbox = await sandboxOf()
    const one = unwrap(await runtime.launch(sandbox, command('echo up >one; exec sleep 600')))
    const other = unwrap(await runtime.launch(sandbox, command('echo up >other; exec sleep 600')))
    await untilFile(sandbox, 'one')
    await untilFile(sandbox, 'other')
    await runtime.kill(one, 2000)
    expect(await runtime.wait(one, AbortSignal.timeout(10_000))).toEqual({ type: 'signalled', signal: 'SIGTERM' })
    expect(existsSync(other.statusFile)).toBe(false)
    await runtime.kill(other, 0)
    expect(await runtime.wait(other, AbortSignal.timeout(10_000))).toEqual({ type: 'signalled', signal: 'SIGKILL' })
  })

  // Without an environment and in its own session, nothing tells a process from a stranger's before its sandbox is stopped.
  it.each(hiders.filter(([name]) => !name.startsWith('a daemon')))('of a command ends %s', async (_name, text) => {
    const sandbox = await sandboxOf()
    const process = unwrap(await runtime.launch(sandbox, command(text)))
    await untilFile(sandbox, 'up')
    // The supervisor, which outlives the command for a moment, is neither marked nor inside.
    const commands = async () => findTree({ ...(await treeOfSandbox(sandbox, 0)), sessions: [], isSupervisor: () => false })
    expect((await commands()).length).toBeGreaterThan(1)
    await runtime.kill(process, 0)
    expect(await commands()).toEqual([])
  })

  it('gives TERM its grace', async () => {
    const sandbox = await sandboxOf()
    const process = unwrap(
      await runtime.launch(sandbox, command(`trap 'echo bye; exit 7' TERM; echo up >up; while :; do sleep 0.05; done`)),
    )
    await untilFile(sandbox, 'up')
    await runtime.kill(process, 10_000)
    expect(await runtime.wait(process, AbortSignal.timeout(10_000))).toEqual({ type: 'exited', code: 7 })
    expect(readFileSync(process.stdoutFile, 'utf8')).toBe('bye\n')
  })

  it('of the supervisor from outside is `lost`, and its command ends with it', async () => {
    const sandbox = await sandboxOf()
    const ref = unwrap(await runtime.launch(sandbox, command('echo $$ >up; exec sleep 600')))
    const pid = Number(await untilFile(sandbox, 'up'))
    process.kill(-ref.pid, 'SIGKILL')
    expect(await runtime.wait(ref, AbortSignal.timeout(10_000))).toEqual({ type: 'lost' })
    expect(isAlive(pid)).toBe(false)
  })

  it('stop is idempotent, and a stopped sandbox is gone for every verb', async () => {
    const sandbox = await sandboxOf()
    await runtime.stop(sandbox, { keepLogs: null })
    await runtime.stop(sandbox, { keepLogs: null })
    const gone = { ok: false, error: { code: 'sandbox-gone' } }
    expect(await runtime.exec(sandbox, command('true'), 1000)).toMatchObject(gone)
    expect(await runtime.attach(sandbox)).toMatchObject(gone)
    expect(await runtime.writeFile(sandbox, 'a', 'b', 0o600)).toMatchObject(gone)
    expect(await runtime.readFile(sandbox, 'a', 10)).toMatchObject(gone)
  })

  it('removes folders whose rights the agent took away, and keeps the logs it was told to keep', async () => {
    const sandbox = await sandboxOf()
    await run(sandbox, 'mkdir -p a/b && touch a/b/c && chmod 000 a/b a; echo kept; ln -s /etc/passwd ../logs/planted')
    const kept = join(base, 'kept')
    await runtime.stop(sandbox, { keepLogs: kept })
    const names = await readdir(kept)
    expect(names.every((name) => /^test-\d+-[0-9a-f]{6}\.(stdout|stderr)$/.test(name))).toBe(true)
    expect(await readFile(join(kept, names.find((name) => name.endsWith('.stdout')) ?? ''), 'utf8')).toBe('kept\n')
    await rm(kept, { recursive: true })
  })
})

it('finds and ends a sandbox and its process after their launcher was killed', async () => {
  const program = `
    import { openLocalRuntime } from ${JSON.stringify(resolve('src/runtime/local.ts'))}
    const clock = { nowMs: () => performance.now(), wallMs: () => Date.now() }
    const random = { next: Math.random, hex: (n) => 'ab'.repeat(n), uuid: () => '' }
    const runtime = openLocalRuntime({ root: ${JSON.stringify(join(base, 'sandboxes'))}, uploadRoots: [], maxOutputBytes: 65536, path: process.env.PATH, clock, random })
    const { value: { sandbox } } = await runtime.start(${JSON.stringify({ ...plain, labels: { owner: 'killed' } })})
    const { value: ref } = await runtime.launch(sandbox, { command: 'echo up >up; while [ ! -e go ]; do sleep 0.02; done; echo done; exit 5', env: {}, label: 'agent' })
    console.log(JSON.stringify({ sandbox, ref }))
    setInterval(() => {}, 1000)
  `
  const launcher = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const line = await new Promise<string>((resolve) => launcher.stdout.once('data', (data) => resolve(String(data))))
  const { sandbox, ref } = JSON.parse(line) as { sandbox: SandboxRef; ref: ProcessRef }
  started.push(sandbox)
  launcher.kill('SIGKILL')
  await new Promise((resolve) => launcher.once('exit', resolve))
  expect(await runtime.list({ owner: 'killed' })).toEqual([sandbox])
  expect(await runtime.list({ owner: 'somebody else' })).toEqual([])
  expect(await runtime.attach(sandbox)).toEqual({ ok: true, value: sandbox })
  await untilFile(sandbox, 'up')
  unwrap(await runtime.writeFile(sandbox, 'go', '', 0o600))
  expect(await runtime.wait(ref, AbortSignal.timeout(10_000))).toEqual({ type: 'exited', code: 5 })
  expect(readFileSync(ref.stdoutFile, 'utf8')).toBe('done\n')
})

describe('files', () => {
  it.each([
    ['../../../escape', 'does not lie in the sandbox'],
    ['/etc/escape', 'does not lie in the sandbox'],
    ['/workspace/../control/sandbox.json', 'does not lie in the sandbox'],
    ['out/escape', 'does not lie in the sandbox'],
    ['nowhere', 'symbolic link to nothing'],
  ])('refuses the path %s', async (path, detail) => {
    const sandbox = await sandboxOf()
    await run(sandbox, 'ln -s / out; ln -s /nonexistent/file nowhere')
    const written = await runtime.writeFile(sandbox, path, 'x', 0o600)
    expect(written).toMatchObject({ ok: false, error: { code: 'upload-refused' } })
    expect(JSON.stringify(written)).toContain(detail)
    expect(await runtime.readFile(sandbox, path, 100)).toMatchObject({ ok: false, error: { code: 'download-failed' } })
  })

  it('writes with the wanted mode and reads at most what was allowed', async () => {
    const sandbox = await sandboxOf()
    unwrap(await runtime.writeFile(sandbox, 'a/b', 'hello', 0o600))
    expect(statSync(join(sandbox.workdir, 'a/b')).mode & 0o777).toBe(0o600)
    expect(Buffer.from(unwrap(await runtime.readFile(sandbox, 'a/b', 5))).toString()).toBe('hello')
    expect(await runtime.readFile(sandbox, 'a/b', 4)).toMatchObject({ ok: false, error: { code: 'download-failed' } })
    expect(await runtime.readFile(sandbox, 'a', 4)).toMatchObject({ ok: false })
    expect(await runtime.readFile(sandbox, 'missing', 4)).toMatchObject({ ok: false })
  })
})

describe('prepare', () => {
  const action = { max_attempts: 1, retry_backoff_seconds: 0 }

  it('uploads files and folders from under an upload root', async () => {
    const sandbox = await sandboxOf()
    const file = { type: 'upload_file' as const, source: join(base, 'uploads/one.txt'), target: 'in/one.txt', ...action }
    const folder = { type: 'upload_dir' as const, source: join(base, 'uploads/tree'), target: '/workspace/tree', ...action }
    expect(await runtime.prepare(sandbox, file, 5000)).toEqual({ ok: true, value: null })
    expect(await runtime.prepare(sandbox, folder, 5000)).toEqual({ ok: true, value: null })
    expect((await run(sandbox, 'cat in/one.txt tree/two.txt')).stdout).toBe('onetwo')
  })

  it.each([
    ['a source outside', 'secret.txt', 'in'],
    ['a source that climbs out', 'uploads/../secret.txt', 'in'],
    ['a link that leads out', 'uploads/link.txt', 'in'],
    ['a missing source', 'uploads/nothing', 'in'],
    ['a target outside', 'uploads/one.txt', '../../../out'],
  ])('refuses %s at the first attempt', async (_name, source, target) => {
    const sandbox = await sandboxOf()
    const upload = { type: 'upload_file' as const, source: join(base, source), target, max_attempts: 10, retry_backoff_seconds: 5 }
    expect(await runtime.prepare(sandbox, upload, 60_000)).toMatchObject({ ok: false, error: { code: 'upload-refused' } })
  })

  it('tries again until a command succeeds, and hands back the last failure', async () => {
    const sandbox = await sandboxOf()
    const exec = {
      type: 'exec' as const,
      command: 'echo x >>tries; [ "$(wc -l <tries)" -ge 3 ]',
      env: {},
      max_attempts: 3,
      retry_backoff_seconds: 0.01,
    }
    expect(await runtime.prepare(sandbox, exec, 10_000)).toMatchObject({ ok: true, value: { exit: { type: 'exited', code: 0 } } })
    expect((await run(sandbox, 'wc -l <tries')).stdout).toBe('3\n')
    expect(await runtime.prepare(sandbox, { ...exec, command: 'echo no; exit 9', max_attempts: 2 }, 10_000)).toMatchObject({
      ok: true,
      value: { exit: { type: 'exited', code: 9 }, stdout: 'no\n' },
    })
  })
})

/** Processes of a name in a process group. */
function pidsOf(name: string, group: number): readonly number[] {
  const stats = readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/stat`, 'utf8')
      } catch {
        return ''
      }
    })
  const found = stats.map((stat) => /^(\d+) \((.*)\) \S \d+ (\d+) /.exec(stat))
  return found.filter((match) => match?.[2] === name && match[3] === String(group)).map((match) => Number(match?.[1]))
}

function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}
