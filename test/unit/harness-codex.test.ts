import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { codexHarness } from '../../src/harness/codex.ts'
import type { Harness } from '../../src/harness/harness.ts'
import { agentOf, contextOf, fileOf, planOf } from '../lib/harness-context.ts'

const codexOf = (settings: Record<string, unknown> = {}, more: Record<string, unknown> = {}) =>
  planOf(codexHarness, contextOf({ harness: 'codex', model_name: 'Qwen/Qwen3-8B', settings, ...more }))
const configOf = (settings: Record<string, unknown> = {}): string => fileOf(codexOf(settings), 'config.toml')

describe('codex', () => {
  it('gets a provider with the session’s URL and the name of the key’s variable, and looks nothing up', () => {
    expect(configOf()).toBe(`model = "Qwen/Qwen3-8B"
model_provider = "polar"
web_search = "disabled"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
plugins = false
apps = false

[model_providers.polar]
name = "polar"
base_url = "http://127.0.0.1:8081/s/sk-polar-1/v1"
wire_api = "responses"
env_key = "POLAR_MODEL_KEY"
`)
    expect(codexOf().run.env).toMatchObject({ POLAR_MODEL_KEY: 'secret-key-4711', CODEX_HOME: '/box/home/.codex' })
  })

  it('TO-07: goes by a provider that is not OpenAI’s, for which it compacts by itself', () => {
    expect(configOf()).toMatch(/^model_provider = "polar"$/m)
    expect(configOf()).toMatch(/^name = "polar"$/m)
  })

  it('runs the program itself, once, with every approval given and its prompt on stdin', () => {
    const program = '/agents/codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex'
    expect(codexOf().run.command).toBe(
      `exec '${program}' exec --json --strict-config --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox - <"$POLAR_INSTRUCTION_FILE"`,
    )
  })

  it.each<[Record<string, unknown>, string]>([
    [{ reasoning_effort: 'high' }, 'model_reasoning_effort = "high"\n'],
    [{ reasoning_summary: 'none' }, 'model_reasoning_summary = "none"\n'],
    [{ developer_instructions: 'say "no"' }, 'developer_instructions = "say \\"no\\""\n'],
    [{ context_window: 40_000 }, 'model_context_window = 40000\n'],
    [{ auto_compact_token_limit: 30_000 }, 'model_auto_compact_token_limit = 30000\n'],
    [{ multi_agent: false }, '[agents]\nenabled = false\n'],
    [{ request_max_retries: 0 }, 'env_key = "POLAR_MODEL_KEY"\nrequest_max_retries = 0\n'],
    [{ stream_max_retries: 2 }, 'stream_max_retries = 2\n'],
    [{ stream_idle_timeout_ms: 1000 }, 'stream_idle_timeout_ms = 1000\n'],
    [{ config: { allow_login_shell: false } }, 'allow_login_shell = false\n'],
    [{ config: { tui: { theme: 'x' } } }, '[tui]\ntheme = "x"\n'],
    [{ config: { features: { goals: false } } }, '[features]\ngoals = false\nplugins = false\napps = false\n'],
  ])('writes %j into its configuration', (settings, lines) => {
    expect(configOf()).not.toContain(lines)
    expect(configOf(settings)).toContain(lines)
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['a wrong effort', { reasoning_effort: 'hard' }, 'reasoning_effort'],
    ['a catalogue without models', { model_catalog: { models: [] } }, 'model_catalog'],
    ['a provider of the task’s own', { config: { model_providers: { mine: {} } } }, 'agent.settings.config.model_providers'],
    ['another base URL', { config: { openai_base_url: 'http://elsewhere' } }, 'agent.settings.config.openai_base_url'],
    ['another model', { config: { model: 'x' } }, 'agent.settings.config.model is'],
    ['a profile, which could bring any of these', { config: { profile: 'x' } }, 'agent.settings.config.profile'],
    ['MCP servers past agent.mcp_servers', { config: { mcp_servers: { a: {} } } }, 'agent.settings.config.mcp_servers'],
    ['plugins', { config: { features: { plugins: true } } }, 'agent.settings.config.features.plugins'],
    ['a key that TOML cannot say', { config: { tui: { theme: null } } }, 'agent.settings.config.tui.theme is null'],
  ])('refuses %s when the task is submitted', (_name, settings, word) => {
    expect(codexHarness.check(agentOf({ harness: 'codex', settings }))).toContain(word)
  })

  it('takes no instruction that Codex would refuse after it was started', () => {
    const planOfText = (instruction: string) => codexHarness.plan(contextOf({ harness: 'codex' }, { instruction }))
    expect(planOfText('😀'.repeat(1_048_576))).toMatchObject({ ok: true })
    expect(planOfText('x'.repeat(1_048_577))).toMatchObject({ ok: false, error: expect.stringContaining('1048576 characters') })
  })

  it('reads the task’s own keys before it runs, to say what is wrong with them', () => {
    expect(codexOf().setup.map(({ label }) => label)).toEqual(['folders'])
    const { command = '' } = codexOf({ config: { allow_login_shell: false } }).setup[1] ?? {}
    const answer = (said: string): string => {
      const program = `{ printf '%s' '${said}' >&2; false; }`
      const [, rest = ''] = command.split(' exec --json --strict-config --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -')
      return execFileSync('/bin/sh', ['-c', `said=$(${program}${rest}`], { encoding: 'utf8', stdio: 'pipe' })
    }
    expect(answer('No prompt provided via stdin.')).toBe('')
    expect(() => answer('Error loading config.toml: unknown field x')).toThrow('unknown field x')
  })

  describe('with a model catalogue', () => {
    const CATALOG = 'model_catalog_json = "/box/home/.codex/model-catalog.json"\n'

    it('writes a given one as it is', () => {
      const model_catalog = { models: [{ slug: 'Qwen/Qwen3-8B', anything: 1 }] }
      const plan = codexOf({ model_catalog })
      expect(JSON.parse(fileOf(plan, 'model-catalog.json'))).toEqual(model_catalog)
      expect(fileOf(plan, 'config.toml')).toContain(CATALOG)
      expect(plan.setup).toHaveLength(1)
    })

    /** The set-up command with Codex's part replaced by a catalogue of two. */
    function copyEntry(entry: string): string {
      const { command, env } = codexOf({ model_catalog: entry }).setup[1] ?? { command: '', env: {} }
      const [codex = '', copy = ''] = command.split(' debug models --bundled | ')
      expect(codex).toMatch(/^'.*\/bin\/codex'$/)
      expect(copy).toMatch(/ >'\/box\/home\/\.codex\/model-catalog\.json'$/)
      const input = JSON.stringify({ models: [{ slug: 'other' }, { slug: 'gpt-5.5', tool: 'apply_patch' }] })
      return execFileSync('/bin/sh', ['-c', copy.replace(/ >'[^']*'$/, '')], { input, env, encoding: 'utf8', stdio: 'pipe' })
    }

    it('gives the task’s model the entry of one that Codex knows', () => {
      expect(JSON.parse(copyEntry('gpt-5.5'))).toEqual({ models: [{ slug: 'Qwen/Qwen3-8B', tool: 'apply_patch' }] })
      expect(configOf({ model_catalog: 'gpt-5.5' })).toContain(CATALOG)
    })

    it('says which models Codex knows when it knows no such one', () => {
      expect(() => copyEntry("it's")).toThrow("agent.settings.model_catalog: Codex knows no model it's; it knows: other, gpt-5.5")
    })
  })

  const line = (event: unknown): string => `${JSON.stringify(event)}\n`
  const done = line({ type: 'turn.completed', usage: { input_tokens: 1 } })
  const failed = line({ type: 'turn.failed', error: { message: 'stream closed' } })
  const retrying = line({ type: 'error', message: 'Reconnecting... 1/5' })
  const said = line({ type: 'item.completed', item: { type: 'agent_message', text: '{"type":"turn.failed","error":{"message":"no"}}' } })

  it.each<[string, string, ReturnType<Harness['verdict']>]>([
    ['a good end', said + done, { failed: false }],
    ['a good end after retries', retrying + done, { failed: false }],
    ['a failed turn', retrying + failed, { failed: true, reason: "codex's turn failed: stream closed" }],
    ['a turn without an end', retrying + said, { failed: true, reason: 'codex ended in the middle of its turn: Reconnecting... 1/5' }],
    ['a text that quotes an event', said, { failed: true, reason: 'codex ended in the middle of its turn' }],
    ['nothing', '', { failed: true, reason: 'codex ended in the middle of its turn' }],
    ['an end behind a line cut at its front', `ssage":"x"}}\n${done}`, { failed: false }],
  ])('is judged by the last event of its turn: %s', (_name, stdoutTail, verdict) => {
    expect(codexHarness.verdict({ exitCode: 0, stdoutTail, stderrTail: '' })).toEqual(verdict)
  })
})
