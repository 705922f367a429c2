import { describe, expect, it } from 'vitest'
import type { Harness } from '../../src/harness/harness.ts'
import { opencodeHarness } from '../../src/harness/opencode.ts'
import { agentOf, contextOf, fileOf, planOf } from '../lib/harness-context.ts'

const specOf = (settings: Record<string, unknown> = {}, more: Record<string, unknown> = {}) => ({ harness: 'opencode', settings, ...more })
const planWith = (settings: Record<string, unknown> = {}, more: Record<string, unknown> = {}) =>
  planOf(opencodeHarness, contextOf(specOf(settings, more)))
const textWith = (settings: Record<string, unknown> = {}, more: Record<string, unknown> = {}) =>
  fileOf(planWith(settings, more), '/opencode.json')
const configWith = (settings: Record<string, unknown> = {}, more: Record<string, unknown> = {}): unknown =>
  JSON.parse(textWith(settings, more))

describe('opencode', () => {
  it('gets a provider with the session’s URL and the name of the key’s variable, and no other', () => {
    const model = { 'Qwen/Qwen3-8B': { name: 'Qwen/Qwen3-8B', reasoning: false, limit: { context: 2000, output: 100 } } }
    expect(configWith({ max_tokens: 100, context_window: 2000 }, { model_name: 'Qwen/Qwen3-8B' })).toEqual({
      autoupdate: false,
      share: 'disabled',
      snapshot: false,
      model: 'polar/Qwen/Qwen3-8B',
      small_model: 'polar/Qwen/Qwen3-8B',
      enabled_providers: ['polar'],
      provider: {
        polar: {
          npm: '@ai-sdk/openai-compatible',
          name: 'polar',
          env: ['POLAR_MODEL_KEY'],
          options: { baseURL: 'http://127.0.0.1:8081/s/sk-polar-1/v1' },
          models: model,
        },
      },
      compaction: { auto: true },
    })
  })

  it('is quiet, reads its own configuration last, and keeps its key whatever keys a task brings', () => {
    const { env } = planWith({}, { env: { POLAR_MODEL_KEY: 'other', OPENCODE_CONFIG_DIR: '/elsewhere' } }).run
    expect(env).toMatchObject({
      POLAR_MODEL_KEY: 'secret-key-4711',
      OPENCODE_CONFIG_DIR: '/box/home/.opencode',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
      OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
    })
    expect(env).not.toHaveProperty('OPENCODE_DISABLE_PROJECT_CONFIG')
    expect(planWith({ project_config: false }).run.env).toMatchObject({ OPENCODE_DISABLE_PROJECT_CONFIG: '1' })
  })

  it('finds in each of its folders that nothing is to be fetched from a registry', () => {
    const plan = planWith()
    for (const folder of ['/box/home/.opencode', '/box/home/.config/opencode']) {
      expect(JSON.parse(fileOf(plan, `${folder}/package-lock.json`)).packages[''].dependencies).toHaveProperty('@opencode-ai/plugin')
      expect(fileOf(plan, `${folder}/node_modules/.polar`)).toBe('')
    }
  })

  it.each([
    ['openai-compatible', '/v1'],
    ['openai', '/v1'],
    ['anthropic', '/v1'],
    ['google', '/v1beta'],
  ])('speaks as @ai-sdk/%s does where that route begins', (api, path) => {
    const options = { baseURL: `http://127.0.0.1:8081/s/sk-polar-1${path}` }
    expect(configWith({ api })).toMatchObject({ provider: { polar: { npm: `@ai-sdk/${api}`, options } } })
  })

  it.each<[Record<string, unknown>, string]>([
    [{}, "'build'"],
    [{ agent: 'plan' }, "'plan'"],
  ])('runs with %j, with a title so that no call asks for one', (settings, agent) => {
    const program = "exec '/agents/opencode/node_modules/opencode-linux-x64/bin/opencode'"
    const words = `run --format json --title polar --auto --agent ${agent}`
    expect(planWith(settings).run.command).toBe(`${program} ${words} <"$POLAR_INSTRUCTION_FILE"`)
  })

  it.each<[Record<string, unknown>, Record<string, unknown>]>([
    [{ system_prompt: 'S' }, { agent: { build: { prompt: 'S' } } }],
    [{ max_steps: 3, agent: 'plan' }, { agent: { plan: { steps: 3 } } }],
    [{ max_steps: 3, agent: 'mine', config: { agent: { mine: { mode: 'primary' } } } }, { agent: { mine: { mode: 'primary', steps: 3 } } }],
    [{ append_system_prompt: 'A' }, { instructions: ['/box/home/.opencode/polar-appended-prompt.md'] }],
    [{ permission: { bash: { 'rm *': 'deny' }, webfetch: 'deny' } }, { permission: { bash: { 'rm *': 'deny' }, webfetch: 'deny' } }],
    [{ auto_compact: false }, { compaction: { auto: false } }],
    [{ auto_compact: false, config: { compaction: { prune: true } } }, { compaction: { auto: false, prune: true } }],
    [{ system_prompt: 'S', config: { agent: { build: { temperature: 0 } } } }, { agent: { build: { prompt: 'S', temperature: 0 } } }],
    [{ reasoning: true }, { provider: { polar: { models: { 'polar-policy': { reasoning: true } } } } }],
  ])('is configured by %j', (settings, expected) => {
    expect(configWith(settings)).toMatchObject(expected)
  })

  it('writes a prompt into a file, whatever it holds', () => {
    expect(fileOf(planWith({ append_system_prompt: "$(rm) '" }), 'polar-appended-prompt.md')).toBe("$(rm) '")
  })

  it('finds no variable and no file to put in place of a text that looks like one', () => {
    const odd = '{env:HOME} \\{file:/etc/passwd} {{env:X}} { "a": {} }'
    const settings = { system_prompt: odd, config: { username: odd } }
    const servers = { mcp_servers: [{ name: 'a', command: odd, env: { A: odd } }] }
    expect(textWith(settings, servers)).not.toMatch(/\{(env|file):/)
    expect(configWith(settings, servers)).toMatchObject({
      username: odd,
      agent: { build: { prompt: odd } },
      mcp: { a: { command: [odd], environment: { A: odd } } },
    })
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['a protocol it does not speak', { api: 'bedrock' }, 'api'],
    ['an agent there is none of', { agent: 'biuld' }, "there is no agent 'biuld'; there are build, plan"],
    ['an agent beside the task’s own', { agent: 'x', config: { agent: { mine: {} } } }, 'there are build, plan, mine'],
    ['a permission that nobody could be asked for', { permission: { bash: 'ask' } }, 'permission'],
    ['no step', { max_steps: 0 }, 'max_steps'],
    ['a provider of the task’s own', { config: { provider: {} } }, 'agent.settings.config.provider is set by'],
    ['another small model', { config: { small_model: 'a/b' } }, 'agent.settings.config.small_model is set by'],
    ['two words on compaction', { config: { compaction: { auto: true } } }, 'agent.settings.config.compaction.auto is set by'],
  ])('refuses %s when the task is submitted', (_name, settings, word) => {
    expect(opencodeHarness.check(agentOf(specOf(settings)))).toContain(word)
  })

  const line = (event: unknown): string => `${JSON.stringify(event)}\n`
  const step = (reason: string): string => line({ type: 'step_finish', sessionID: 's', part: { type: 'step-finish', reason, cost: 0 } })
  const said = (text: string): string => line({ type: 'text', sessionID: 's', part: { type: 'text', text } })
  const failed = (error: Record<string, unknown>): string => line({ type: 'error', sessionID: 's', error })
  const refused = failed({ name: 'APIError', data: { message: '400 "no"', statusCode: 400, isRetryable: false } })

  it.each<[string, string, ReturnType<Harness['verdict']>]>([
    ['a good end', step('tool-calls') + said('Done.') + step('stop'), { failed: false }],
    ['an answer that was cut off', step('length'), { failed: false }],
    ['a failed call', step('tool-calls') + refused, { failed: true, reason: 'opencode ended with an error: 400 "no"' }],
    [
      'an error without words',
      failed({ name: 'MessageAbortedError' }),
      { failed: true, reason: 'opencode ended with an error: MessageAbortedError' },
    ],
    ['a failure that was got over', refused + step('tool-calls') + step('stop'), { failed: false }],
    ['a text that quotes an error', said(refused) + step('stop'), { failed: false }],
    ['calls that nothing followed', step('tool-calls'), { failed: true, reason: 'opencode ended in the middle of its turn' }],
    ['a front that is cut off', `${step('stop').slice(9)}${said('x')}${step('stop')}`, { failed: false }],
    ['nothing', '', { failed: true, reason: 'opencode ended in the middle of its turn' }],
  ])('is judged by its last event: %s', (_name, stdoutTail, verdict) => {
    expect(opencodeHarness.verdict({ exitCode: 0, stdoutTail, stderrTail: '' })).toEqual(verdict)
  })
})
