import { describe, expect, it } from 'vitest'
import type { Harness } from '../../src/harness/harness.ts'
import { qwenCodeHarness } from '../../src/harness/qwen-code.ts'
import { agentOf, contextOf, fileOf, planOf } from '../lib/harness-context.ts'

const planWith = (settings: Record<string, unknown> = {}, more: Record<string, unknown> = {}) =>
  planOf(qwenCodeHarness, contextOf({ harness: 'qwen_code', settings, ...more }))

const settingsOf = (plan: ReturnType<typeof planWith>): unknown => JSON.parse(fileOf(plan, '.qwen/settings.json'))

describe('qwen_code', () => {
  it('is routed, quiet, one process, and asks for no side calls (RT-06)', () => {
    const plan = planWith({}, { env: { OPENAI_BASE_URL: 'http://elsewhere', OPENAI_API_KEY: 'other', QWEN_HOME: '/x' } })
    expect(plan.run.env).toMatchObject({
      OPENAI_BASE_URL: 'http://127.0.0.1:8081/s/sk-polar-1/v1',
      OPENAI_API_KEY: 'secret-key-4711',
      QWEN_HOME: '/box/home/.qwen',
      QWEN_CODE_NO_RELAUNCH: '1',
      QWEN_USAGE_STATISTICS_ENABLED: 'false',
    })
    expect(settingsOf(plan)).toEqual({
      security: { auth: { selectedType: 'openai' }, folderTrust: { enabled: false } },
      privacy: { usageStatisticsEnabled: false },
      telemetry: { enabled: false },
      general: { enableAutoUpdate: false },
      memory: { enableManagedAutoMemory: false, enableManagedAutoDream: false },
      model: { generationConfig: {} },
      context: {},
      tools: { toolSearch: {} },
    })
  })

  it.each<[string, Record<string, string>]>([
    ['openai', { OPENAI_BASE_URL: 'http://127.0.0.1:8081/s/sk-polar-1/v1', OPENAI_API_KEY: 'secret-key-4711' }],
    ['openai-responses', { OPENAI_BASE_URL: 'http://127.0.0.1:8081/s/sk-polar-1/v1', OPENAI_API_KEY: 'secret-key-4711' }],
    ['anthropic', { ANTHROPIC_BASE_URL: 'http://127.0.0.1:8081/s/sk-polar-1', ANTHROPIC_API_KEY: 'secret-key-4711' }],
    ['gemini', { GOOGLE_GEMINI_BASE_URL: 'http://127.0.0.1:8081/s/sk-polar-1', GEMINI_API_KEY: 'secret-key-4711' }],
  ])('speaks %s where that route begins, whatever else the task’s environment says', (auth_type, expected) => {
    const others = Object.fromEntries(Object.keys(expected).map((name) => [name, 'other']))
    const plan = planWith({ auth_type }, { env: others })
    expect(plan.run.env).toMatchObject(expected)
    expect(plan.run.command).toContain(` --auth-type ${auth_type} `)
    expect(settingsOf(plan)).toMatchObject({ security: { auth: { selectedType: auth_type } } })
  })

  it('asks Google for no sampling but the policy’s own', () => {
    const sampling = { temperature: 1, top_p: 1, top_k: 0 }
    expect(settingsOf(planWith({ auth_type: 'gemini' }))).toMatchObject({ model: { generationConfig: { samplingParams: sampling } } })
  })

  it.each<[Record<string, unknown>, string]>([
    [{}, ''],
    [{ bare: true }, ' --bare'],
    [
      { max_session_turns: 7, max_tool_calls: 0, max_subagent_depth: 1 },
      ' --max-session-turns 7 --max-tool-calls 0 --max-subagent-depth 1',
    ],
    [{ exclude_tools: ['edit', "run_shell_command(it's)"] }, " --exclude-tools 'edit' --exclude-tools 'run_shell_command(it'\\''s)'"],
    [{ system_prompt: '$(x)' }, ` --system-prompt "$(cat '/box/home/.qwen/polar-system-prompt.md')"`],
    [{ append_system_prompt: "'" }, ` --append-system-prompt "$(cat '/box/home/.qwen/polar-appended-prompt.md')"`],
    [{ instruction: 'file' }, " --include-directories '/box/home/.polar'"],
  ])('runs with %j', (settings, words) => {
    const entry = '/agents/qwen-code/node_modules/@qwen-code/qwen-code/cli.js'
    const start = `exec '${process.execPath}' '${entry}' --output-format stream-json --approval-mode yolo --auth-type openai --model 'it'\\''s'`
    const stdin = settings.instruction === 'file' ? "'/box/home/.polar/prompt.md'" : '"$POLAR_INSTRUCTION_FILE"'
    expect(planWith(settings, { model_name: "it's" }).run.command).toBe(`${start}${words} <${stdin}`)
  })

  it.each<[Record<string, unknown>, Record<string, unknown>]>([
    [{ core_tools: ['edit'], tool_search: false }, { tools: { core: ['edit'], toolSearch: { enabled: false } } }],
    [{ context_file_names: ['A.md'], auto_compact_threshold: 0.5 }, { context: { fileName: ['A.md'], autoCompactThreshold: 0.5 } }],
    [{ memory: true }, { memory: { enableManagedAutoMemory: true, enableManagedAutoDream: false } }],
    [
      { reasoning_effort: 'low', context_window: 9, max_retries: 0 },
      { model: { reasoningEffort: 'low', generationConfig: { contextWindowSize: 9, maxRetries: 0 } } },
    ],
    [{ config: { ui: { theme: '$X' } } }, { ui: { theme: '$'.concat('{POLAR_DOLLAR}X') } }],
  ])('is set up by %j', (settings, expected) => {
    expect(settingsOf(planWith(settings))).toMatchObject(expected)
  })

  it.each<[Record<string, unknown>, Record<string, string>]>([
    [{ max_tokens: 9 }, { QWEN_CODE_MAX_OUTPUT_TOKENS: '9' }],
    [{ stream_idle_timeout_ms: 8 }, { QWEN_STREAM_IDLE_TIMEOUT_MS: '8' }],
    [{ bare: true, max_tokens: 9 }, { QWEN_CODE_MAX_OUTPUT_TOKENS: '9' }],
  ])('sets its environment by %j', (settings, expected) => {
    expect(planWith(settings).run.env).toMatchObject(expected)
  })

  it('gets MCP servers in a file of their own, in which no variable is looked for', () => {
    const servers = [
      { name: 'a', transport: 'stdio', command: 'x', args: ['$1'], env: { A: '$HOME' } },
      { name: 'b', transport: 'sse', url: 'http://h/sse', headers: { 'x-a': '$C' } },
      { name: 'c', transport: 'streamable-http', url: 'http://h/mcp' },
    ]
    const plan = planWith({ bare: true }, { mcp_servers: servers })
    expect(plan.run.command).toContain(" --mcp-config '/box/home/.qwen/polar-mcp.json' ")
    expect(JSON.parse(fileOf(plan, 'polar-mcp.json'))).toEqual({
      mcpServers: {
        a: { command: 'x', args: ['$1'], env: { A: '$HOME' }, trust: true },
        b: { url: 'http://h/sse', headers: { 'x-a': '$C' }, trust: true },
        c: { httpUrl: 'http://h/mcp', headers: {}, trust: true },
      },
    })
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['a protocol it does not speak', { auth_type: 'qwen-oauth' }, 'auth_type'],
    ['a tool that looks like an option', { exclude_tools: ['--help'] }, 'exclude_tools'],
    ['a prompt that is no argument', { system_prompt: 'é'.repeat(70_000) }, 'system_prompt'],
    ['another way in', { config: { modelProviders: {} } }, 'agent.settings.config.modelProviders is set'],
    ['a proxy', { config: { proxy: 'http://p' } }, 'agent.settings.config.proxy is set'],
    [
      'what its bare mode never reads',
      { bare: true, memory: false },
      'agent.settings.memory: Qwen Code reads no settings file in its bare mode',
    ],
  ])('refuses %s when the task is submitted', (_name, settings, words) => {
    expect(qwenCodeHarness.check(agentOf({ harness: 'qwen_code', settings }))).toContain(words)
  })

  const line = (event: unknown): string => `${JSON.stringify(event)}\n`
  const said = line({ type: 'assistant', message: { content: [{ type: 'text', text: '{"is_error":true,"type":"result"}' }] } })
  const good = line({ type: 'result', subtype: 'success', uuid: 'u', is_error: false, result: 'Done.', permission_denials: [] })
  const bad = line({
    type: 'result',
    subtype: 'error_during_execution',
    is_error: true,
    usage: {},
    error: { message: '[API Error: 400 "no"]' },
  })

  it.each<[string, string, string, ReturnType<Harness['verdict']>]>([
    ['a good end', said + good, 'a warning', { failed: false }],
    ['a result whose front is cut off', good.slice(good.indexOf('one.')), '', { failed: false }],
    ['a failed call', said + bad, '', { failed: true, reason: 'qwen_code ended with an error: [API Error: 400 \\"no\\"]' }],
    ['a text that quotes an error', line({ type: 'result', is_error: false, result: '"is_error":true' }), '', { failed: false }],
    [
      'a used up limit',
      said,
      'x\nReached max session turns.\n',
      { failed: true, reason: 'qwen_code ended without a result: Reached max session turns.' },
    ],
    ['an error without words', line({ type: 'result', is_error: true }), '', { failed: true, reason: 'qwen_code ended with an error' }],
    ['nothing', '', '', { failed: true, reason: 'qwen_code ended without a result' }],
  ])('is judged by its result: %s', (_name, stdoutTail, stderrTail, verdict) => {
    expect(qwenCodeHarness.verdict({ exitCode: 0, stdoutTail, stderrTail })).toEqual(verdict)
  })
})
