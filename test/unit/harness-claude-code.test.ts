import { describe, expect, it } from 'vitest'
import { claudeCodeHarness } from '../../src/harness/claude-code.ts'
import type { Harness } from '../../src/harness/harness.ts'
import { agentOf, contextOf, fileOf, planOf } from '../lib/harness-context.ts'

const planWith = (settings: Record<string, unknown> = {}, more: Record<string, unknown> = {}) =>
  planOf(claudeCodeHarness, contextOf({ harness: 'claude_code', settings, ...more }))

describe('claude_code', () => {
  it('is routed, quiet, allowed to run as root, and never falls back to asking for whole answers (RT-06, ST-06)', () => {
    const { env } = planWith(
      {},
      { model_name: 'Qwen/Qwen3-8B', env: { ANTHROPIC_BASE_URL: 'http://elsewhere', ANTHROPIC_API_KEY: 'other' } },
    ).run
    expect(env).toMatchObject({
      ANTHROPIC_BASE_URL: 'http://127.0.0.1:8081/s/sk-polar-1',
      ANTHROPIC_API_KEY: 'secret-key-4711',
      ANTHROPIC_MODEL: 'Qwen/Qwen3-8B',
      ANTHROPIC_DEFAULT_HAIKU_MODEL: 'Qwen/Qwen3-8B',
      CLAUDE_CODE_SUBAGENT_MODEL: 'Qwen/Qwen3-8B',
      CLAUDE_CONFIG_DIR: '/box/home/.claude',
      IS_SANDBOX: '1',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: '1',
      CLAUDE_CODE_ATTRIBUTION_HEADER: '0',
      CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: '1',
    })
  })

  const START =
    "exec '/agents/claude-code/node_modules/@anthropic-ai/claude-code-linux-x64/claude' -p --output-format stream-json --verbose --dangerously-skip-permissions"

  it.each<[Record<string, unknown>, string]>([
    [{}, ''],
    [{ bare: true }, ' --bare'],
    [{ tools: ['Bash', 'Edit'] }, " --tools 'Bash,Edit'"],
    [{ tools: [] }, " --tools ''"],
    [{ allowed_tools: ['Bash(git *)', 'Edit'] }, " --allowedTools 'Bash(git *),Edit'"],
    [{ disallowed_tools: ["Bash(it's)"] }, " --disallowedTools 'Bash(it'\\''s)'"],
    [{ max_turns: 7 }, ' --max-turns 7'],
    [{ effort: 'low' }, ' --effort low'],
    [{ system_prompt: '$(x)' }, " --system-prompt-file '/box/home/.claude/polar-system-prompt.md'"],
    [{ append_system_prompt: "'" }, " --append-system-prompt-file '/box/home/.claude/polar-appended-prompt.md'"],
  ])('runs with %j', (settings, words) => {
    expect(planWith(settings).run.command).toBe(`${START}${words} <"$POLAR_INSTRUCTION_FILE"`)
  })

  it('writes its prompts into files, whatever they hold', () => {
    const plan = planWith({ system_prompt: '$(rm -rf /)', append_system_prompt: "'" })
    expect([fileOf(plan, 'polar-system-prompt.md'), fileOf(plan, 'polar-appended-prompt.md')]).toEqual(['$(rm -rf /)', "'"])
  })

  it.each<[Record<string, unknown>, Record<string, string | undefined>]>([
    [{ thinking: false }, { CLAUDE_CODE_DISABLE_THINKING: '1' }],
    [{ thinking: true }, { CLAUDE_CODE_DISABLE_THINKING: undefined }],
    [{ experimental_betas: true }, { CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: undefined }],
    [{ max_tokens: 4096 }, { CLAUDE_CODE_MAX_OUTPUT_TOKENS: '4096' }],
    [{ auto_compact_window: 120_000 }, { CLAUDE_CODE_AUTO_COMPACT_WINDOW: '120000' }],
    [{ max_retries: 0 }, { CLAUDE_CODE_MAX_RETRIES: '0' }],
  ])('sets its environment by %j', (settings, expected) => {
    const { env } = planWith(settings).run
    expect(Object.fromEntries(Object.keys(expected).map((name) => [name, env[name]]))).toEqual(expected)
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['a tool that is more than a name', { tools: ['Bash; rm'] }, 'tools'],
    ['a rule that would be two', { allowed_tools: ['Bash,Edit'] }, 'allowed_tools'],
    ['a rule that looks like an option', { disallowed_tools: ['--help'] }, 'disallowed_tools'],
    ['no turn', { max_turns: 0 }, 'max_turns'],
    ['a window that Claude Code would ignore', { auto_compact_window: 50_000 }, 'auto_compact_window'],
  ])('refuses %s when the task is submitted', (_name, settings, word) => {
    expect(claudeCodeHarness.check(agentOf({ harness: 'claude_code', settings }))).toContain(word)
  })

  const line = (event: unknown): string => `${JSON.stringify(event)}\n`
  const result = (more: Record<string, unknown>): string =>
    line({
      usage: {},
      terminal_reason: 'completed',
      is_error: false,
      subtype: 'success',
      result: 'Done.',
      type: 'result',
      uuid: 'u',
      ...more,
    })
  const said = line({ type: 'assistant', message: { content: [{ type: 'text', text: '{"is_error":true,"type":"result"}' }] } })
  const refused = result({ is_error: true, terminal_reason: 'api_error', result: 'API Error: 400 "no"' })

  it.each<[string, string, ReturnType<Harness['verdict']>]>([
    ['a good end', said + result({}), { failed: false }],
    ['a failed call', refused, { failed: true, reason: 'claude_code ended with an error (api_error): API Error: 400 \\"no\\"' }],
    [
      'no turns left',
      line({ terminal_reason: 'max_turns', is_error: true, subtype: 'error_max_turns', errors: ['Reached 1'], type: 'result' }),
      { failed: true, reason: 'claude_code ended with an error (max_turns): Reached 1' },
    ],
    ['a failed call that was got over', refused + result({}), { failed: false }],
    ['an end behind a text that quotes one', result({}) + said, { failed: false }],
    ['a text that quotes an error', result({ result: '"is_error":true' }), { failed: false }],
    ['a result whose front is cut off', result({ result: 'x'.repeat(100) }).slice(90), { failed: false }],
    ['no result', said, { failed: true, reason: 'claude_code ended without a result' }],
    ['nothing', '', { failed: true, reason: 'claude_code ended without a result' }],
  ])('is judged by its last result: %s', (_name, stdoutTail, verdict) => {
    expect(claudeCodeHarness.verdict({ exitCode: 0, stdoutTail, stderrTail: '' })).toEqual(verdict)
  })
})
