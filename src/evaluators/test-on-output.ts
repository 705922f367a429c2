// `test_on_output`: carries the agent's patch to a fresh sandbox, runs the task's tests there and compares what they print.
import { z } from 'zod'
import { problemsOf } from '../contract/problems.ts'
import type { EvaluatorSpec } from '../contract/task.ts'
import type { Evaluation, EvaluationContext, Evaluator, EvaluatorSandbox } from './evaluator.ts'
import { type Carried, carryPatch } from './patch.ts'
import { compareTests, parseTestLog, type TestComparison } from './test-log.ts'
import { readablePath } from './work-tree.ts'

const expectedSchema = z.record(z.string(), z.string())

const configSchema = z.object({
  test_command: z.string().min(1),
  /** Test name to status, as an object or as its JSON text. */
  expected_output_json: z.union(
    [expectedSchema, z.string().transform(parseExpected)],
    'must give each test its status, as an object or as its JSON text',
  ),
  repo_dir: z.string().min(1).default('/testbed'),
  /** What the patch is taken against; by default the commit that is checked out in a fresh sandbox. */
  base_commit: z
    .string()
    .regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/, 'must be a full commit hash')
    .nullish(),
  apply_timeout: z.number().positive().default(60),
  test_timeout: z.number().positive().default(1200),
  exclude_patterns: z.array(z.string().min(1).max(512)).max(256).default([]),
  patch_command: z
    .undefined('is not offered: the patch is taken from the work tree, committed, untracked and binary files included')
    .optional(),
})

type Config = z.infer<typeof configSchema>

/** Bytes of test output that are read; what comes after is dropped while the tests go on. */
const MAX_LOG_BYTES = 64 * 1024 * 1024
/** The end of a log that a failure carries. */
const MAX_SHOWN_LOG = 4000
/** Names listed in the metadata per kind. */
const MAX_LISTED = 200
/** A shell's own: the command was found but could not be run, or there is none. */
const NOT_RUN = new Set<number | null>([126, 127])

// Polar runs test commands by bash, and data sets rely on it; sh where there is none. The tests are not told where their log is kept.
const RUN_TESTS = `
shell=$(command -v bash || command -v sh)
folder=$POLAR_FOLDER max_log=$POLAR_MAX_LOG
unset POLAR_FOLDER POLAR_MAX_LOG
{ "$shell" "$folder/command" 2>&1; echo "$?" >"$folder/code"; } | { head -c "$max_log" >"$folder/log"; cat >/dev/null; }
exit "$(cat "$folder/code")"
`

export const testOnOutput: Evaluator = {
  name: 'test_on_output',

  check(spec: EvaluatorSpec): string | null {
    const config = configSchema.safeParse(spec.config)
    return config.success ? null : problemsOf('evaluator.config', spec.config, config.error)
  },

  async evaluate(context: EvaluationContext): Promise<Evaluation> {
    const config = configSchema.safeParse(context.spec.config)
    if (!config.success)
      return failed('the evaluator’s configuration is not valid', problemsOf('evaluator.config', context.spec.config, config.error))
    const fresh = await context.freshSandbox()
    if (!fresh.ok) return failed('no fresh sandbox could be started', detailOf(fresh))

    const carried = await carryPatch({
      agent: context.agentSandbox,
      fresh: fresh.value,
      repoDir: config.data.repo_dir,
      baseCommit: config.data.base_commit ?? null,
      excludePatterns: config.data.exclude_patterns,
      timeoutMs: config.data.apply_timeout * 1000,
    })
    switch (carried.type) {
      case 'failed':
        return failed(`could not ${carried.step}`, carried.log)
      case 'empty':
      case 'too-large':
      case 'refused':
        return graded(config.data, carried, null)
      default:
        return runTests(config.data, carried, fresh.value)
    }
  },
}

async function runTests(config: Config, carried: Carried, fresh: EvaluatorSandbox): Promise<Evaluation> {
  const folder = carried.freshFolder
  // The command goes by file: it may be long, and it may be written for another shell than sh.
  const written = await fresh.writeFile(`${folder}/command`, `${config.test_command}\n`)
  if (!written.ok) return failed('could not send the test command', detailOf(written))
  const env = { POLAR_FOLDER: folder, POLAR_MAX_LOG: String(MAX_LOG_BYTES) }
  const run = await fresh.exec({ command: RUN_TESTS, cwd: config.repo_dir, env, label: 'test' }, config.test_timeout * 1000)
  if (!run.ok) return failed('could not run the tests', detailOf(run))
  const { exit, stderr } = run.value
  if (exit.type === 'lost') return failed('the test run vanished without an exit status', stderr.slice(-MAX_SHOWN_LOG))
  const log = await fresh.readFile(`${folder}/log`, MAX_LOG_BYTES)
  if (!log.ok) return failed('could not read what the tests printed', detailOf(log))
  const exitCode = exit.type === 'exited' ? exit.code : null
  const text = Buffer.from(log.value).toString('utf8')
  const tests = parseTestLog(text)
  // Tests that never ran say nothing about the work: most often the task's command is wrong, or the grader's image lacks a program.
  if (NOT_RUN.has(exitCode) && tests.size === 0) {
    return failed(`the test command could not be run (exit code ${exitCode})`, text.slice(-MAX_SHOWN_LOG))
  }
  const comparison = compareTests(tests, config.expected_output_json)
  return graded(config, carried, {
    comparison,
    exitCode,
    isTimedOut: exit.type === 'timeout',
    isLogCut: log.value.byteLength >= MAX_LOG_BYTES,
  })
}

type TestRun = {
  readonly comparison: TestComparison
  readonly exitCode: number | null
  readonly isTimedOut: boolean
  readonly isLogCut: boolean
}

function graded(config: Config, carried: Carried, run: TestRun | null): Evaluation {
  const isResolved = run !== null && !run.isTimedOut && run.comparison.resolved
  const { kept, excluded, shadowed, nested } = carried.selection
  return {
    type: 'graded',
    outcomeReward: isResolved ? 1 : 0,
    traceRewards: null,
    metadata: {
      mode: 'git_diff',
      patch_path: null,
      report: {
        empty_generation: carried.type === 'empty',
        resolved: isResolved,
        failed_apply_patch: carried.type === 'refused' || carried.type === 'too-large',
        error_eval: false,
        test_timeout: run?.isTimedOut ?? false,
        exit_code: run?.exitCode ?? null,
        parsed_tests: run?.comparison.tests ?? {},
        expected_tests: config.expected_output_json,
        missing_tests: run?.comparison.missing ?? [],
        unexpected_tests: run?.comparison.unexpected ?? [],
        different_tests: run?.comparison.different ?? [],
        cut_names_matched_by_prefix: run?.comparison.cutNames ?? [],
        log_cut: run?.isLogCut ?? false,
      },
      patch_bytes: carried.patchBytes,
      patch_too_large: carried.type === 'too-large',
      changed_files: listed(kept.map((change) => change.path)),
      excluded_files: listed(excluded),
      files_kept_from_preparation: listed(shadowed),
      nested_repositories: listed(nested),
    },
  }
}

function listed(paths: readonly string[]): readonly string[] {
  const shown = paths.slice(0, MAX_LISTED).map(readablePath)
  return paths.length > MAX_LISTED ? [...shown, `… and ${paths.length - MAX_LISTED} more`] : shown
}

/** The last line of a log is where a command says why it gave up. */
function failed(error: string, log: string): Evaluation {
  return { type: 'failed', error: `${error}: ${log.trim().split('\n').at(-1)?.slice(0, 400)}`, log }
}

function detailOf(result: { readonly error: { readonly code: string; readonly detail: string } }): string {
  return `${result.error.code}: ${result.error.detail}`
}

function parseExpected(text: string, context: z.RefinementCtx): Record<string, string> {
  try {
    const parsed = expectedSchema.safeParse(JSON.parse(text))
    if (parsed.success) return parsed.data
  } catch {
    // Told below.
  }
  context.addIssue({ code: 'custom', message: 'must be a JSON object of test name to status' })
  return z.NEVER
}
