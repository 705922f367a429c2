import { describe, expect, it } from 'vitest'
import { geminiCliHarness } from '../../src/harness/gemini-cli.ts'
import type { Harness } from '../../src/harness/harness.ts'
import { agentOf, contextOf, fileOf, planOf } from '../lib/harness-context.ts'

const planWith = (settings: Record<string, unknown> = {}, more: Record<string, unknown> = {}) =>
  planOf(geminiCliHarness, contextOf({ harness: 'gemini_cli', settings, ...more }))

/** As Gemini CLI reads it: variables of its environment in place of their names, once. */
function settingsOf(plan: ReturnType<typeof planWith>): unknown {
  const expand = (text: string): string => text.replace(/\$(?:(\w+)|{([^}]+)})/g, (all, one, other) => plan.run.env[one ?? other] ?? all)
  return JSON.parse(fileOf(plan, '.gemini/settings.json'), (_key, value) => (typeof value === 'string' ? expand(value) : value))
}

const NEUTRAL = { temperature: 1, topP: 1, topK: 0 }
const override = (model: string, more: Record<string, unknown> = {}) => ({
  match: { model },
  modelConfig: { generateContentConfig: { ...NEUTRAL, ...more } },
})

describe('gemini_cli', () => {
  it('is routed, quiet, one process, and samples as the policy is (RT-06)', () => {
    const env = { GOOGLE_GEMINI_BASE_URL: 'http://elsewhere', GEMINI_API_KEY: 'other', GOOGLE_API_KEY: 'other' }
    const plan = planWith({}, { model_name: 'Qwen/Qwen3-8B', env })
    expect(plan.run.env).toMatchObject({
      GOOGLE_GEMINI_BASE_URL: 'http://127.0.0.1:8081/s/sk-polar-1',
      GEMINI_API_KEY: 'secret-key-4711',
      GOOGLE_API_KEY: 'secret-key-4711',
      GEMINI_CLI_HOME: '/box/home',
      GEMINI_CLI_NO_RELAUNCH: 'true',
    })
    expect(settingsOf(plan)).toEqual({
      security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
      privacy: { usageStatisticsEnabled: false },
      telemetry: { enabled: false },
      general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
      model: { disableLoopDetection: true },
      tools: { exclude: [] },
      context: {},
      modelConfigs: { customOverrides: [override('chat-base'), override('Qwen/Qwen3-8B')] },
    })
  })

  it.each<[Record<string, unknown>, string]>([
    [{}, ''],
    [{ instruction: 'file' }, " --include-directories '/box/home/.polar'"],
  ])('runs with %j', (settings, words) => {
    const entry = '/agents/gemini-cli/node_modules/@google/gemini-cli/bundle/gemini.js'
    const start = `exec '${process.execPath}' '${entry}' --output-format stream-json --approval-mode yolo --skip-trust --model 'it'\\''s'`
    const stdin = settings.instruction === 'file' ? "'/box/home/.polar/prompt.md'" : '"$POLAR_INSTRUCTION_FILE"'
    expect(planWith(settings, { model_name: "it's" }).run.command).toBe(`${start}${words} <${stdin}`)
  })

  it.each<[Record<string, unknown>, Record<string, unknown>]>([
    [{ max_session_turns: 7 }, { model: { maxSessionTurns: 7 } }],
    [{ loop_detection: true }, { model: { disableLoopDetection: false } }],
    [{ max_attempts: 3 }, { general: { maxAttempts: 3 } }],
    [{ core_tools: ['glob'] }, { tools: { core: ['glob'] } }],
    [{ exclude_tools: ['glob'], agents: false }, { tools: { exclude: ['glob', 'invoke_agent'] } }],
    [{ context_file_names: ['AGENTS.md'] }, { context: { fileName: ['AGENTS.md'] } }],
    [
      { thinking: false, max_tokens: 9 },
      { modelConfigs: { customOverrides: [{}, override('m', { maxOutputTokens: 9, thinkingConfig: { thinkingBudget: 0 } })] } },
    ],
    [{ config: { tools: { exclude: ['a'], shell: { pager: 'less $X' } } } }, { tools: { exclude: [], shell: { pager: 'less $X' } } }],
    [{ config: { modelConfigs: { customOverrides: [{ match: {} }] } } }, { modelConfigs: { customOverrides: [{}, {}, { match: {} }] } }],
  ])('is set up by %j', (settings, expected) => {
    expect(settingsOf(planWith(settings, { model_name: 'm' }))).toMatchObject(expected)
  })

  it('writes its prompts into files, the appended one under the name of its context file', () => {
    const plan = planWith({ system_prompt: '$(x)', append_system_prompt: "'", context_file_names: ['A.md', 'B.md'] })
    expect([fileOf(plan, '.gemini/polar-system-prompt.md'), fileOf(plan, '.gemini/A.md')]).toEqual(['$(x)', "'"])
    expect(plan.run.env.GEMINI_SYSTEM_MD).toBe('/box/home/.gemini/polar-system-prompt.md')
    expect(fileOf(planWith({ append_system_prompt: 'x' }), '.gemini/GEMINI.md')).toBe('x')
  })

  it('gets MCP servers in its own words, for each transport, with their dollars', () => {
    const servers = [
      { name: 'a', transport: 'stdio', command: '$HOME/x', args: ['$1'], env: { A: '$HOME \\$B' } },
      { name: 'b', transport: 'sse', url: 'http://h/sse', headers: { 'x-a': '$C' } },
      { name: 'c', transport: 'streamable-http', url: 'http://h/mcp' },
    ]
    // The values of `env` and `headers` are expanded a second time, in which a backslash keeps a dollar.
    expect(settingsOf(planWith({}, { mcp_servers: servers, env: { HOME: 'expanded' } }))).toMatchObject({
      mcpServers: {
        a: { command: '$HOME/x', args: ['$1'], env: { A: '\\$HOME \\\\$B' }, trust: true },
        b: { url: 'http://h/sse', headers: { 'x-a': '\\$C' }, trust: true },
        c: { httpUrl: 'http://h/mcp', headers: {}, trust: true },
      },
    })
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['no turn', { settings: { max_session_turns: 0 } }, 'max_session_turns'],
    ['a context file elsewhere', { settings: { context_file_names: ['../x'] } }, 'context_file_names'],
    [
      'its settings for a memory',
      { settings: { append_system_prompt: '{}', context_file_names: ['settings.json', 'A.md'] } },
      "'settings.json' must end in .md",
    ],
    [
      'one prompt for another',
      { settings: { append_system_prompt: 'x', context_file_names: ['polar-system-prompt.md'] } },
      'not be polar-system-prompt.md',
    ],
    [
      'another way in',
      { settings: { config: { security: { auth: { selectedType: 'vertex-ai' } } } } },
      'agent.settings.config.security.auth is set',
    ],
    ['its own telemetry', { settings: { config: { telemetry: {} } } }, 'agent.settings.config.telemetry is set'],
    ['MCP servers beside the task’s', { settings: { config: { mcpServers: {} } } }, 'agent.settings.config.mcpServers is set'],
    [
      'a variable that a server would never see',
      { mcp_servers: [{ name: 'a', command: 'x', env: { PythonPath: '/x' } }] },
      "Gemini CLI withholds PythonPath from 'a'",
    ],
  ])('refuses %s when the task is submitted', (_name, spec, words) => {
    expect(geminiCliHarness.check(agentOf({ harness: 'gemini_cli', ...spec }))).toContain(words)
  })

  it('takes a longer instruction than its stdin holds by file only', () => {
    const instruction = 'é'.repeat(4 * 1024 * 1024 + 1)
    const plan = (settings: Record<string, unknown>) =>
      geminiCliHarness.plan(contextOf({ harness: 'gemini_cli', settings }, { instruction }))
    expect(plan({})).toMatchObject({ ok: false, error: expect.stringContaining('8388608 bytes') })
    expect(plan({ instruction: 'file' })).toMatchObject({ ok: true })
  })

  const line = (event: unknown): string => `${JSON.stringify(event)}\n`
  const said = line({ type: 'message', role: 'assistant', content: '{"type":"result","status":"error"}', delta: true })
  const good = line({ type: 'result', status: 'success', stats: {} })

  it.each<[string, string, ReturnType<Harness['verdict']>]>([
    ['a good end', said + good, { failed: false }],
    [
      'a failed call',
      said + line({ type: 'result', status: 'error', error: { type: 'Error', message: '[API Error: "no"]' }, stats: {} }),
      { failed: true, reason: 'gemini_cli ended with an error: [API Error: "no"]' },
    ],
    [
      'an answer that was none',
      line({ type: 'error', severity: 'error', message: 'empty' }) + line({ type: 'result', status: 'error', stats: {} }),
      { failed: true, reason: 'gemini_cli ended with an error: empty' },
    ],
    ['a warning that it got over', line({ type: 'error', severity: 'warning', message: 'hm' }) + good, { failed: false }],
    ['an error without words', line({ type: 'result', status: 'error' }), { failed: true, reason: 'gemini_cli ended with an error' }],
    ['no result', said, { failed: true, reason: 'gemini_cli ended without a result' }],
    ['lines that are no events', `null\n[]\n{"type":1}\nx${good}`, { failed: true, reason: 'gemini_cli ended without a result' }],
  ])('is judged by its result: %s', (_name, stdoutTail, verdict) => {
    expect(geminiCliHarness.verdict({ exitCode: 0, stdoutTail, stderrTail: '' })).toEqual(verdict)
  })
})
