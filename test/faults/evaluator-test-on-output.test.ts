import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { EvaluatorSpec } from '../../src/contract/task.ts'
import type { Evaluation, EvaluationContext, EvaluatorSandbox } from '../../src/evaluators/evaluator.ts'
import { createEvaluators } from '../../src/evaluators/registry.ts'
import { openLocalRuntime } from '../../src/runtime/local.ts'
import type { Runtime, SandboxRef } from '../../src/runtime/runtime.ts'
import { countedRandom, realClock, unwrap } from '../lib/runtime-fixture.ts'

// The same repository in every sandbox. `SEEN` prints one line per file, so that the expected map is the tree itself.
const MAKE_REPOSITORY = `
git init -q && git config user.email a@b && git config user.name n
printf 'one\\ntwo\\nthree\\n' >text.txt
printf 'a\\r\\nb\\r\\n' >crlf.txt
head -c 3000 /dev/zero | tr '\\0' 'b' >bin.dat; printf '\\000\\001' >>bin.dat
printf 'run\\n' >script.sh
printf 'no newline' >tail.txt
mkdir dir; echo moved >dir/old-name.txt; echo gone >dir/gone.txt; echo x >'a b ä.txt'
echo '*.log' >.gitignore
git add -A && git commit -qm base
echo prepared >left-by-prepare.txt
`
/** Copies the repository made once. */
const PREPARE = 'cp -a "$TEMPLATE/." .'
const SEEN = `find . -path ./.git -prune -o \\( -type f -o -type l \\) -print | LC_ALL=C sort | while IFS= read -r f; do
  if [ -L "$f" ]; then s="link-$(readlink "$f")"; else s="$(stat -c %A "$f" | cut -c4)-$(sha1sum <"$f" | cut -c1-12)"; fi
  echo "PASSED $f=$s"; done`

let base: string
let runtime: Runtime
const started: SandboxRef[] = []
const evaluators = createEvaluators({})

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), 'polar-grade-'))
  runtime = openLocalRuntime({
    root: join(base, 'sandboxes'),
    uploadRoots: [],
    maxOutputBytes: 1024 * 1024,
    path: process.env.PATH ?? '',
    clock: realClock,
    random: countedRandom(),
  })
})
beforeAll(async () => {
  const template = join(base, 'template')
  await mkdir(template)
  execFileSync('/bin/sh', ['-ec', MAKE_REPOSITORY], { cwd: template, env: { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: '/dev/null' } })
})
afterEach(async () => {
  for (const sandbox of started.splice(0)) await runtime.stop(sandbox, { keepLogs: null })
})
afterAll(async () => {
  expect(await readdir(join(base, 'sandboxes'))).toEqual([])
  await rm(base, { recursive: true, force: true })
})

async function sandboxOf(prepare: string): Promise<{ readonly ref: SandboxRef; readonly view: EvaluatorSandbox }> {
  const labels = {}
  const { sandbox } = unwrap(
    await runtime.start({
      labels,
      env: { TEMPLATE: join(base, 'template') },
      workdir: '/testbed',
      image: null,
      cpus: null,
      memoryMb: null,
      allowInternet: true,
    }),
  )
  started.push(sandbox)
  const view: EvaluatorSandbox = {
    exec: (command, timeoutMs) => runtime.exec(sandbox, command, timeoutMs),
    writeFile: (path, content) => runtime.writeFile(sandbox, path, content, 0o600),
    readFile: (path, maxBytes) => runtime.readFile(sandbox, path, maxBytes),
  }
  await shell(view, prepare)
  return { ref: sandbox, view }
}

async function shell(sandbox: EvaluatorSandbox, command: string): Promise<string> {
  const result = unwrap(await sandbox.exec({ command, env: {}, label: 'step' }, 20_000))
  expect(result.exit, result.stderr).toEqual({ type: 'exited', code: 0 })
  return result.stdout
}

const specOf = (config: Record<string, unknown>): EvaluatorSpec => ({ strategy: 'test_on_output', config, env: {}, refresh_runtime: false })

function contextOf(spec: EvaluatorSpec, agent: EvaluatorSandbox, freshSandbox: EvaluationContext['freshSandbox']): EvaluationContext {
  return {
    spec,
    sessionId: 's',
    taskId: 't',
    outcome: 'completed',
    exitCode: 0,
    traceCount: 1,
    agentSandbox: agent,
    freshSandbox,
    timeoutMs: 30_000,
  }
}

type Graded = {
  readonly evaluation: Evaluation
  /** The agent's tree and the graded tree, a line per file. */
  readonly wanted: Record<string, string>
  readonly seen: Record<string, string>
  readonly agent: SandboxRef
  readonly metadata: Record<string, unknown>
  readonly report: Record<string, unknown>
}

async function grade(agentDoes: string, config: Record<string, unknown> = {}, freshPrepare = PREPARE): Promise<Graded> {
  const agent = await sandboxOf(PREPARE)
  await shell(agent.view, agentDoes)
  const lines = (await shell(agent.view, SEEN)).trim().split('\n')
  const wanted = Object.fromEntries(lines.map((line) => [line.slice('PASSED '.length), 'PASSED']))
  const spec = specOf({ test_command: SEEN, expected_output_json: wanted, ...config })
  expect(evaluators.check(spec)).toBeNull()
  const evaluation = await evaluators.evaluate(
    contextOf(spec, agent.view, async () => ({ ok: true, value: (await sandboxOf(freshPrepare)).view })),
  )
  const metadata = evaluation.type === 'graded' ? evaluation.metadata : {}
  const report = (metadata.report ?? {}) as Record<string, unknown>
  return { evaluation, wanted, seen: (report.parsed_tests ?? {}) as Record<string, string>, agent: agent.ref, metadata, report }
}

describe('the agent’s work in a fresh sandbox', () => {
  it.each([
    [
      'edits of every kind',
      `echo four >>text.txt; mkdir -p new/deep; echo n >new/deep/file.txt; rm dir/gone.txt; git mv dir/old-name.txt dir/new-name.txt
       printf '\\377\\000\\376' >>bin.dat; head -c 5000 /dev/urandom >new.dat; chmod +x script.sh; ln -s text.txt link
       rm tail.txt; ln -s nowhere tail.txt; echo y >>'a b ä.txt'; echo q >'"q".txt'; echo n >'ñ -> b'`,
    ],
    [
      'CRLF line ends kept, added and taken away',
      "printf 'c\\r\\n' >>crlf.txt; printf 'x\\r\\ny\\r\\n' >text.txt; printf 'z\\r\\n' >new.txt",
    ],
    ['a missing final newline, added and taken away', "echo >>tail.txt; printf 'one\\ntwo' >text.txt"],
    [
      'a file that became a folder, and a folder that became a file',
      'rm text.txt && mkdir text.txt && echo i >text.txt/i && rm -r dir && echo f >dir',
    ],
    ['committed work', 'echo c >>text.txt && git add -A && git -c user.name=a -c user.email=b commit -qm mine && echo d >>text.txt'],
    ['work on another branch with a rewritten history', 'git checkout -q --orphan other && git rm -qr --cached . && echo c >>text.txt'],
    [
      'staged, unstaged and conflicting index states',
      'echo s >>text.txt && git add text.txt && echo u >>text.txt && git rm -q --cached script.sh',
    ],
    ['a destroyed repository', 'echo c >>text.txt && rm -rf .git'],
    [
      'attributes that would change bytes',
      "printf '* text eol=crlf\\n*.txt filter=evil diff=evil\\n*.dat -diff\\n' >.gitattributes; printf 'l\\n' >>text.txt",
    ],
  ])('is the same tree: %s', async (_name, agentDoes) => {
    const { evaluation, wanted, seen, report } = await grade(agentDoes)
    expect(evaluation.type === 'failed' ? evaluation : null).toBeNull()
    expect(seen).toEqual(wanted)
    expect(report).toMatchObject({ resolved: true, empty_generation: false, failed_apply_patch: false, test_timeout: false })
    expect(evaluation).toMatchObject({ type: 'graded', outcomeReward: 1, traceRewards: null })
  })

  it.each([
    ['nothing', 'true'],
    ['only a touched file', 'touch text.txt'],
    [
      'only caches and ignored files',
      'mkdir -p __pycache__ .pytest_cache && echo x >__pycache__/a.pyc && echo x >.pytest_cache/v && echo x >a.log',
    ],
  ])('is an empty generation with reward 0: %s', async (_name, agentDoes) => {
    const { evaluation, report } = await grade(agentDoes)
    expect(evaluation).toMatchObject({ type: 'graded', outcomeReward: 0 })
    expect(report).toMatchObject({ empty_generation: true, resolved: false })
  })

  it('leaves the agent’s index and configuration alone', async () => {
    const agentDoes = 'echo s >>text.txt && git add text.txt && echo u >>text.txt; cp .git/index ../home/index; touch .git/index.lock'
    const { agent, seen, wanted } = await grade(agentDoes)
    expect(seen).toEqual(wanted)
    expect(readFileSync(join(agent.workdir, '.git/index'))).toEqual(readFileSync(join(agent.home, 'index')))
    expect(existsSync(join(agent.workdir, '.git/index.lock'))).toBe(true)
  })

  it('runs nothing that a hostile repository names, and reads nothing that breaks it', async () => {
    const evil = 'sh -c "echo ran >>$HOME/evil; cat"'
    const { agent, seen, wanted } = await grade(
      `
      git config core.fsmonitor '${evil}' && git config diff.external '${evil}' && git config core.pager '${evil}'
      git config filter.evil.clean '${evil}' && git config filter.evil.smudge '${evil}' && git config filter.evil.required true
      git config diff.evil.textconv '${evil}' && git config diff.evil.command '${evil}' && git config core.hooksPath .evil
      git config diff.noprefix true && git config core.quotepath false && git config core.worktree /tmp && git config core.sshCommand '${evil}'
      printf '*.txt filter=evil diff=evil\\n' >.gitattributes
      mkdir -p .git/hooks .git/info && printf '#!/bin/sh\\necho ran >>$HOME/evil\\n' >.git/hooks/post-index-change && chmod +x .git/hooks/*
      cp .git/hooks/post-index-change .git/hooks/pre-commit; echo '*' >.git/info/exclude; echo '[broken' >>.git/config
      printf '[diff]\\n external = false\\n' >"$HOME/.gitconfig"
      echo mine >>text.txt; mkfifo pipe; mkdir locked && echo l >locked/f && chmod 000 locked/f
      GIT_CONFIG_GLOBAL=/dev/null git init -q empty-inside; GIT_CONFIG_GLOBAL=/dev/null git init -q inside
      (cd inside && GIT_CONFIG_GLOBAL=/dev/null git -c user.name=a -c user.email=b commit -q --allow-empty -m x)
      rm script.sh && mkfifo script.sh`,
      { exclude_patterns: ['locked'] },
    )
    expect(existsSync(join(agent.home, 'evil'))).toBe(false)
    expect(Object.keys(seen).filter((name) => name.includes('text.txt'))).toEqual(
      Object.keys(wanted).filter((name) => name.includes('text.txt')),
    )
    expect(Object.keys(seen).some((name) => name.includes('script.sh') || name.includes('inside'))).toBe(false)
  })

  it('leaves out what the task protects, and says so', async () => {
    const { seen, metadata } = await grade('echo evil >conftest.py; mkdir tests; echo evil >tests/t.py; echo ok >>text.txt', {
      exclude_patterns: ['conftest.py', 'tests/**'],
    })
    expect(Object.keys(seen).some((name) => name.includes('conftest') || name.includes('tests'))).toBe(false)
    expect(metadata).toMatchObject({ excluded_files: ['conftest.py', 'tests/t.py'], changed_files: ['text.txt'] })
  })

  it('lets a hidden test of the grader win over the agent’s file of that name', async () => {
    const { seen, metadata } = await grade(
      'echo agent >hidden_test.py; echo ok >>text.txt',
      { test_command: 'echo "PASSED $(cat hidden_test.py)"' },
      `${PREPARE}\necho grader >hidden_test.py`,
    )
    expect(seen).toEqual({ grader: 'PASSED' })
    expect(metadata).toMatchObject({ files_kept_from_preparation: ['hidden_test.py'], changed_files: ['text.txt'] })
  })

  it('takes the patch against a given commit', async () => {
    const later = `${PREPARE}\ngit rev-parse HEAD >../home/base; echo later >>text.txt; git add text.txt; git commit -qm later`
    const first = await sandboxOf(PREPARE)
    const commit = (await shell(first.view, 'git rev-parse HEAD')).trim()
    const { seen } = await grade(
      'echo n >new.txt',
      { base_commit: commit, test_command: 'cat text.txt; sed "s/^/PASSED /" text.txt new.txt' },
      later,
    )
    expect(Object.keys(seen)).toEqual(['one', 'two', 'three', 'later', 'n'])
  })
})

describe('what the tests say', () => {
  const cases: readonly (readonly [string, Record<string, unknown>, Record<string, unknown>, number])[] = [
    [
      'a test that fails',
      { test_command: 'echo FAILED a; exit 1', expected_output_json: { a: 'PASSED' } },
      { exit_code: 1, different_tests: ['a'] },
      0,
    ],
    [
      'an expected failure',
      { test_command: 'echo FAILED a; exit 1', expected_output_json: '{"a": "FAILED"}' },
      { resolved: true, exit_code: 1 },
      1,
    ],
    ['nothing at all', { test_command: 'exit 0', expected_output_json: { a: 'PASSED' } }, { missing_tests: ['a'] }, 0],
    [
      'a test and then a missing program',
      { test_command: 'echo FAILED a; nosuch-report', expected_output_json: { a: 'PASSED' } },
      { exit_code: 127, different_tests: ['a'] },
      0,
    ],
    ['on stderr', { test_command: 'echo PASSED a >&2', expected_output_json: { a: 'PASSED' } }, { resolved: true }, 1],
    ['in bash', { test_command: 'x=(PASSED a); echo "$x a"', expected_output_json: { a: 'PASSED' } }, { resolved: true }, 1],
    [
      'too late',
      { test_command: 'echo PASSED a; sleep 600', test_timeout: 0.5, expected_output_json: { a: 'PASSED' } },
      { test_timeout: true, resolved: false },
      0,
    ],
    [
      'without knowing where its log is kept',
      { test_command: 'echo "PASSED [$POLAR_FOLDER$POLAR_MAX_LOG]"', expected_output_json: { '[]': 'PASSED' } },
      { resolved: true },
      1,
    ],
    [
      'after an endless print',
      { test_command: 'head -c 70000000 /dev/zero; echo; echo PASSED a', expected_output_json: { a: 'PASSED' } },
      { log_cut: true, missing_tests: ['a'] },
      0,
    ],
  ]

  let agent: EvaluatorSandbox
  let fresh: EvaluatorSandbox
  const kept: SandboxRef[] = []
  beforeAll(async () => {
    const [one, other] = [await sandboxOf(PREPARE), await sandboxOf(PREPARE)]
    kept.push(...started.splice(0))
    agent = one.view
    fresh = other.view
  })
  afterAll(async () => {
    for (const sandbox of kept) await runtime.stop(sandbox, { keepLogs: null })
  })

  it.each(cases)('%s', async (name, config, report, reward) => {
    // A new change each time: the sandboxes are shared, and what is there already is no change.
    await shell(agent, `echo x >'${name}.txt'`)
    const evaluation = await evaluators.evaluate(contextOf(specOf(config), agent, async () => ({ ok: true, value: fresh })))
    expect(evaluation.type === 'failed' ? evaluation : null).toBeNull()
    expect(evaluation).toMatchObject({ type: 'graded', outcomeReward: reward, metadata: { report } })
  })
})

describe('an evaluator’s own failure is no reward', () => {
  it('when no fresh sandbox starts', async () => {
    const agent = await sandboxOf(PREPARE)
    const spec = specOf({ test_command: 'true', expected_output_json: {} })
    const error = { code: 'start-failed' as const, detail: 'no room' }
    expect(await evaluators.evaluate(contextOf(spec, agent.view, async () => ({ ok: false, error })))).toMatchObject({
      type: 'failed',
      log: 'start-failed: no room',
    })
  })

  it.each<[string, string, Record<string, unknown>, string]>([
    ['when the folder is no repository', 'true', {}, "workspace: no commit 'HEAD' in a git repository here"],
    ['when there is no such folder', PREPARE, { repo_dir: '/testbed/nowhere' }, 'nowhere'],
    ['when the base commit is unknown', PREPARE, { base_commit: 'f'.repeat(40) }, 'ffffffffff'],
    ['when there is no such test program', PREPARE, { test_command: 'nosuch-pytest -rA' }, '(exit code 127): '],
    ['when the test program is not executable', PREPARE, { test_command: './text.txt' }, 'Permission denied'],
  ])('%s', async (_name, freshPrepare, config, word) => {
    const { evaluation } = await grade('echo x >>text.txt', config, freshPrepare)
    expect(evaluation).toMatchObject({ type: 'failed', error: expect.stringContaining(word) })
  })

  it('when any transfer fails', async () => {
    const agent = await sandboxOf(PREPARE)
    await shell(agent.view, 'echo x >>text.txt')
    const fresh = await sandboxOf(PREPARE)
    const error = { code: 'upload-failed' as const, detail: 'the wire broke' }
    let transfers = 0
    const flaky = (view: EvaluatorSandbox, failing: number): EvaluatorSandbox => ({
      exec: view.exec,
      writeFile: async (path, content) => {
        transfers += 1
        return transfers === failing ? { ok: false, error } : view.writeFile(path, content)
      },
      readFile: view.readFile,
    })
    const spec = specOf({ test_command: 'echo PASSED a', expected_output_json: { a: 'PASSED' } })
    const failures: string[] = []
    for (let failing = 1; failing < 20; failing += 1) {
      transfers = 0
      const context = contextOf(spec, flaky(agent.view, failing), async () => ({ ok: true, value: flaky(fresh.view, failing) }))
      const evaluation = await evaluators.evaluate(context)
      if (evaluation.type === 'graded') break
      expect(evaluation.log).toBe('upload-failed: the wire broke')
      failures.push(evaluation.error)
    }
    const steps = [
      'could not send the base listing',
      'could not send the base objects’ names',
      'could not send the base files',
      'could not send the changed names',
      'could not send the patch',
      'could not send the allowed names',
      'could not send the test command',
    ]
    expect(failures).toEqual(steps.map((step) => `${step}: upload-failed: the wire broke`))
  })
})

describe('the operator’s own evaluators', () => {
  const modules: Record<string, string> = {
    ok: `export const check = (spec) => spec.config.bad ? 'bad config' : null
      export async function evaluate(context) {
        const fresh = await context.freshSandbox()
        await context.agentSandbox.writeFile('a.txt', 'from the agent')
        await fresh.value.writeFile('b.bin', new Uint8Array([1, 2, 255]))
        const read = await fresh.value.readFile('b.bin', 10)
        const ran = await context.agentSandbox.exec({ command: 'cat a.txt', env: {}, label: 'x' }, 5000)
        return { type: 'graded', outcomeReward: read.value[2], metadata: { said: ran.value.stdout, trace: context.traceCount } }
      }`,
    endless: `export function evaluate() { for (;;); }`,
    silent: `export function evaluate() { return new Promise(() => {}) }`,
    throwing: `export async function evaluate() { console.log('clue'); throw new Error('broken inside') }`,
    exiting: `export function evaluate() { process.exit(3) }`,
    wrong: `export function evaluate() { return { type: 'graded', outcomeReward: 'high' } }`,
    empty: `export const nothing = 1`,
  }
  let custom: ReturnType<typeof createEvaluators>

  beforeAll(async () => {
    const paths: Record<string, string> = {}
    for (const [name, text] of Object.entries(modules)) {
      paths[name] = join(base, `${name}.mjs`)
      await writeFile(paths[name], text)
    }
    custom = createEvaluators(paths)
  })

  async function evaluate(strategy: string, config: Record<string, unknown> = {}, timeoutMs = 15_000): Promise<Evaluation> {
    const agent = await sandboxOf('true')
    const spec = { strategy, config, env: {}, refresh_runtime: false }
    const context = contextOf(spec, agent.view, async () => ({ ok: true, value: (await sandboxOf('true')).view }))
    return custom.evaluate({ ...context, timeoutMs })
  }

  it('reach both sandboxes from their worker', async () => {
    expect(await evaluate('ok')).toEqual({
      type: 'graded',
      outcomeReward: 255,
      traceRewards: null,
      metadata: { said: 'from the agent', trace: 1 },
    })
  })

  it.each<[string, string, number]>([
    ['endless', 'no answer within 400 ms', 400],
    ['silent', 'no answer', 400],
    ['throwing', 'broken inside', 15_000],
    ['exiting', 'ended with code 3', 15_000],
    ['wrong', 'no valid evaluation', 15_000],
    ['empty', "exports no function 'evaluate'", 15_000],
  ])('that are %s are failed: %s', async (name, text, timeoutMs) => {
    const evaluation = await evaluate(name, {}, timeoutMs)
    expect(evaluation).toMatchObject({ type: 'failed', error: expect.stringContaining(text) })
  })

  it('have their output in the log, and their own check before they run', async () => {
    expect(await evaluate('throwing')).toMatchObject({ log: expect.stringMatching(/broken inside[\s\S]*clue/) })
    expect(await evaluate('ok', { bad: true })).toMatchObject({ type: 'failed', error: expect.stringContaining('bad config') })
  })
})
