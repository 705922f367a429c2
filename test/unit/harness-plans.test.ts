import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { claudeCodeHarness } from '../../src/harness/claude-code.ts'
import { codexHarness } from '../../src/harness/codex.ts'
import { geminiCliHarness } from '../../src/harness/gemini-cli.ts'
import type { Harness, HarnessContext } from '../../src/harness/harness.ts'
import { opencodeHarness } from '../../src/harness/opencode.ts'
import { piHarness } from '../../src/harness/pi.ts'
import { quoted, withPlaceholders } from '../../src/harness/quoting.ts'
import { qwenCodeHarness } from '../../src/harness/qwen-code.ts'
import { loadHarnesses } from '../../src/harness/registry.ts'
import { shellHarness } from '../../src/harness/shell.ts'
import { agentOf, contextOf, fileOf, planOf } from '../lib/harness-context.ts'

const PRESETS = [piHarness, codexHarness, claudeCodeHarness, geminiCliHarness, qwenCodeHarness, opencodeHarness]

const shellOf = (command: string, more: Record<string, unknown> = {}) => ({ harness: 'shell', custom_shell: { command, ...more } })

describe('every harness', () => {
  it.each<[Harness, Record<string, unknown>]>([
    [piHarness, { harness: 'pi', model_name: 'm', settings: { system_prompt: 'S', append_system_prompt: 'A' } }],
    [shellHarness, shellOf('my-agent {{INSTRUCTION}}')],
    [codexHarness, { harness: 'codex', settings: { model_catalog: 'gpt-5.5', developer_instructions: 'D' } }],
    [claudeCodeHarness, { harness: 'claude_code', settings: { system_prompt: 'S', append_system_prompt: 'A' } }],
    [geminiCliHarness, { harness: 'gemini_cli', settings: { system_prompt: 'S', append_system_prompt: 'A' } }],
    [qwenCodeHarness, { harness: 'qwen_code', settings: { system_prompt: 'S', append_system_prompt: 'A' } }],
    [opencodeHarness, { harness: 'opencode', settings: { system_prompt: 'S', append_system_prompt: 'A' } }],
  ])('keeps the key in the environment alone, and says the base URL in every vendor’s name: $name', (harness, spec) => {
    const plan = planOf(harness, contextOf(spec))
    const commands = [...plan.setup, plan.run]
    expect(JSON.stringify([plan.files, commands.map(({ command, label, cwd }) => [command, label, cwd])])).not.toContain('secret-key')
    for (const { env } of commands) {
      expect(env).toMatchObject({
        OPENAI_BASE_URL: 'http://127.0.0.1:8081/s/sk-polar-1/v1',
        ANTHROPIC_BASE_URL: 'http://127.0.0.1:8081/s/sk-polar-1',
        GOOGLE_API_URL: 'http://127.0.0.1:8081/s/sk-polar-1',
        OPENAI_API_KEY: 'secret-key-4711',
        ANTHROPIC_API_KEY: 'secret-key-4711',
        GOOGLE_API_KEY: 'secret-key-4711',
        SESSION_ID: 'sk-polar-1',
        TASK_ID: 'task-1',
        SESSION_DIR: '/box/home/.polar',
        ARTIFACTS_DIR: '/box/home/.polar/artifacts',
        LOGS_DIR: '/box/home/.polar/logs',
        AGENT_LOG_DIR: '/box/home/.polar/logs/agent',
        POLAR_INSTRUCTION: 'fix the bug',
        POLAR_INSTRUCTION_FILE: '/box/home/.polar/instruction.md',
      })
    }
    expect(plan.files).toContainEqual({ path: '/box/home/.polar/instruction.md', content: 'fix the bug' })
  })

  it('lets the task’s own environment win', () => {
    const plan = planOf(shellHarness, contextOf({ ...shellOf('x', { env: { B: 'step' } }), env: { B: 'agent', TASK_ID: 'mine' } }))
    expect(plan.run.env).toMatchObject({ B: 'step', TASK_ID: 'mine' })
  })
})

describe('every preset', () => {
  it.each([
    [piHarness, 'pi'],
    [codexHarness, 'codex'],
    [claudeCodeHarness, 'claude-code'],
    [geminiCliHarness, 'gemini-cli'],
    [qwenCodeHarness, 'qwen-code'],
    [opencodeHarness, 'opencode'],
  ])('says what is missing, the CLI or an instruction: $name', (harness, folder) => {
    const spec = { harness: harness.name }
    expect(harness.check(agentOf(spec))).toBeNull()
    const asked: string[] = []
    const installedAgent = (name: string): null => {
      asked.push(name)
      return null
    }
    const { setup } = planOf(harness, contextOf(spec, { installedAgent }))
    expect(setup.find(({ label }) => label === 'program')?.command).toContain(`/node scripts/agents.ts ${folder}\``)
    expect(asked).toEqual([folder])
    expect(harness.plan(contextOf(spec, { instruction: ' \n' }))).toMatchObject({
      ok: false,
      error: `harness '${harness.name}' needs an instruction that is not empty`,
    })
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['an unknown setting', { settings: { thinkin: 'high' } }, 'thinkin'],
    ['a shell command', { custom_shell: { command: 'x' } }, 'agent.custom_shell'],
    ['an environment that no process can have', { env: { A: 'x'.repeat(200_000) } }, 'agent.env.A'],
    ['sampling that is none', { settings: { sampling: { temperature: 'hot' } } }, 'temperature'],
    ['a sampling key nobody knows', { settings: { sampling: { temprature: 1 } } }, 'temprature'],
  ])('refuses %s when the task is submitted', (_name, spec, word) => {
    for (const harness of PRESETS) {
      expect(harness.check(agentOf({ harness: harness.name, ...spec }))).toContain(word)
    }
  })

  it('names a setting by its path, and the settings that there are', () => {
    const check = (settings: Record<string, unknown>) => piHarness.check(agentOf({ harness: 'pi', settings }))
    expect(check({ apis: 1, maxTokens: 2 })).toMatch(
      /^agent\.settings\.apis, agent\.settings\.maxTokens: unknown key; there are install, version, instruction, api, .*max_tokens, .*sampling, sampling_seed$/,
    )
    expect(check({ api: 'google' })).toMatch(/^agent\.settings\.api: Invalid option: .*"google-generative-ai"$/)
    expect(check({ sampling: { temprature: 1 } })).toBe('agent.settings.sampling.temprature: unknown key')
  })

  it('refuses sampling that is none whatever the command', () => {
    const settings = { sampling: { temprature: 1 } }
    expect(shellHarness.check(agentOf({ ...shellOf('x'), settings }))).toBe('agent.settings.sampling.temprature: unknown key')
    expect(shellHarness.check(agentOf({ ...shellOf('x'), settings: { sampling: { temperature: 1 }, mine: 1 } }))).toBeNull()
  })

  it('lets the sampling pass that the session pins', () => {
    const settings = { sampling: { temperature: 0.7, top_p: 0.9, top_k: 20 }, sampling_seed: 7 }
    for (const harness of PRESETS) {
      const spec = { harness: harness.name, settings }
      expect(harness.check(agentOf(spec))).toBeNull()
      expect(JSON.stringify(planOf(harness, contextOf(spec)))).not.toContain('0.7')
    }
  })

  it('is told the instruction on its stdin, however long and whatever it looks like', () => {
    const instruction = `--help\n${'x'.repeat(300_000)}`
    for (const harness of PRESETS) {
      const plan = planOf(harness, contextOf({ harness: harness.name }, { instruction }))
      expect(plan.run.command).toMatch(/^exec .* <"\$POLAR_INSTRUCTION_FILE"$/)
      expect(plan.run.command.length).toBeLessThan(1_000)
      expect(fileOf(plan, 'instruction.md')).toBe(instruction)
    }
  })
})

describe('pi', () => {
  const models = (context: HarnessContext): unknown => JSON.parse(fileOf(planOf(piHarness, context), 'models.json'))

  it('gets a provider that speaks Chat Completions with the session’s URL and the name of the key’s variable', () => {
    const context = contextOf({ harness: 'pi', model_name: 'Qwen/Qwen3-8B', settings: { max_tokens: 100, context_window: 2000 } })
    expect(models(context)).toEqual({
      providers: {
        polar: {
          baseUrl: 'http://127.0.0.1:8081/s/sk-polar-1/v1',
          api: 'openai-completions',
          apiKey: 'POLAR_MODEL_KEY',
          compat: { supportsDeveloperRole: false, supportsReasoningEffort: false, supportsStore: false, maxTokensField: 'max_tokens' },
          models: [
            {
              id: 'Qwen/Qwen3-8B',
              name: 'Qwen/Qwen3-8B',
              reasoning: false,
              input: ['text'],
              contextWindow: 2000,
              maxTokens: 100,
              cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
            },
          ],
        },
      },
    })
    expect(planOf(piHarness, context).run.env).toMatchObject({ POLAR_MODEL_KEY: 'secret-key-4711', PI_OFFLINE: '1' })
  })

  it.each([
    ['openai-completions', '/v1'],
    ['openai-responses', '/v1'],
    ['anthropic-messages', ''],
    ['google-generative-ai', '/v1beta'],
  ])('speaks %s where that route begins', (api, path) => {
    const context = contextOf({ harness: 'pi', settings: { api } })
    expect(models(context)).toMatchObject({ providers: { polar: { api, baseUrl: `http://127.0.0.1:8081/s/sk-polar-1${path}` } } })
    // Compatibility flags are Chat's alone: of another protocol Pi would not know them.
    expect(JSON.stringify(models(context)).includes('compat')).toBe(api === 'openai-completions')
  })

  it('keeps its key even when the task brings other keys', () => {
    const context = contextOf({ harness: 'pi', env: { OPENAI_API_KEY: 'other', POLAR_MODEL_KEY: 'other' } })
    expect(planOf(piHarness, context).run.env.POLAR_MODEL_KEY).toBe('secret-key-4711')
  })

  it.each<[Record<string, unknown>, string]>([
    [{}, ''],
    [{ thinking: 'high' }, ' --thinking high'],
    [{ system_prompt: 'S' }, " --system-prompt '/box/home/.pi/agent/polar-system-prompt.md'"],
    [{ append_system_prompt: 'A' }, " --append-system-prompt '/box/home/.pi/agent/polar-appended-prompt.md'"],
    [{ tools: ['read', 'bash'] }, ' --tools read,bash'],
    [{ tools: [] }, ' --no-tools'],
    [{ context_files: false }, ' --no-context-files'],
  ])('runs with %j', (settings, words) => {
    const { run } = planOf(piHarness, contextOf({ harness: 'pi', model_name: "it's", settings }))
    const entry = '/agents/pi/node_modules/@mariozechner/pi-coding-agent/dist/cli.js'
    const start = `exec '${process.execPath}' '${entry}' -p --mode json --provider polar --model 'it'\\''s'`
    expect(run.command).toBe(`${start}${words} <"$POLAR_INSTRUCTION_FILE"`)
  })

  it('writes its prompts into files, whatever they hold', () => {
    const { files } = planOf(piHarness, contextOf({ harness: 'pi', settings: { system_prompt: '$(rm -rf /)', append_system_prompt: "'" } }))
    expect(files.slice(2)).toEqual([
      { path: '/box/home/.pi/agent/polar-system-prompt.md', content: '$(rm -rf /)' },
      { path: '/box/home/.pi/agent/polar-appended-prompt.md', content: "'" },
    ])
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['a wrong value', { settings: { thinking: 'hard' } }, 'thinking'],
    ['a protocol it does not speak', { settings: { api: 'bedrock' } }, 'api'],
    ['a tool that is more than a name', { settings: { tools: ['read; rm'] } }, 'tools'],
    ['MCP servers', { mcp_servers: [{}] }, 'mcp_servers'],
  ])('refuses %s when the task is submitted', (_name, spec, word) => {
    expect(piHarness.check(agentOf({ harness: 'pi', ...spec }))).toContain(word)
  })

  const assistant = (stopReason: string, more = {}) => ({
    role: 'assistant',
    content: [{ type: 'text', text: 'x' }],
    stopReason,
    timestamp: 1,
    ...more,
  })
  const ended = (...messages: unknown[]): string =>
    `${JSON.stringify({ type: 'turn_end', message: messages.at(-1) })}\n${JSON.stringify({ type: 'agent_end', messages })}\n`

  it.each<[string, string, ReturnType<Harness['verdict']>]>([
    ['a good end', ended(assistant('toolUse'), assistant('stop')), { failed: false }],
    [
      'a failed last call, though it exits 0',
      ended(assistant('stop'), assistant('error', { errorMessage: '400 "bad" request' })),
      { failed: true, reason: `pi's last model call ended in 'error': 400 \\"bad\\" request` },
    ],
    ['a failed call that was tried again', ended(assistant('error', { errorMessage: '500' }), assistant('stop')), { failed: false }],
    ['an abort without words', ended(assistant('aborted')), { failed: true, reason: "pi's last model call ended in 'aborted'" }],
    ['a text that quotes an event', ended({ ...assistant('stop'), content: [{ text: '"stopReason":"error"' }] }), { failed: false }],
    ['nothing', '', { failed: false }],
  ])('is judged by its last event: %s', (_name, stdoutTail, verdict) => {
    expect(piHarness.verdict({ exitCode: 0, stdoutTail, stderrTail: '' })).toEqual(verdict)
    const cut = stdoutTail.slice(stdoutTail.lastIndexOf('"agent_end"'))
    expect(piHarness.verdict({ exitCode: 0, stdoutTail: cut, stderrTail: '' })).toEqual(verdict)
  })
})

describe('shell', () => {
  it('needs a command, and refuses what it cannot pass on', () => {
    expect(shellHarness.check(agentOf({ harness: 'shell' }))).toContain('custom_shell')
    expect(shellHarness.check(agentOf({ ...shellOf('x'), mcp_servers: [{}] }))).toContain('mcp_servers')
    expect(shellHarness.check(agentOf({ ...shellOf('x'), skills_path: 's' }))).toContain('skills_path')
    expect(shellHarness.check(agentOf(shellOf('x', { env: { A: 'a\0b' } })))).toContain('custom_shell.env.A')
    expect(shellHarness.check(agentOf(shellOf('x')))).toBeNull()
  })

  it('runs the command in its folder', () => {
    expect(planOf(shellHarness, contextOf(shellOf('x', { cwd: 'sub' }))).run).toMatchObject({ command: 'x', cwd: 'sub', label: 'agent' })
  })

  it('offers a long instruction by file only', () => {
    const instruction = 'x'.repeat(200_000)
    const plan = planOf(shellHarness, contextOf(shellOf('agent {{INSTRUCTION_FILE}}'), { instruction }))
    expect(plan.run.command).toBe('agent "$'.concat('{POLAR_INSTRUCTION_FILE}"'))
    expect(plan.run.env).not.toHaveProperty('POLAR_INSTRUCTION')
    expect(shellHarness.plan(contextOf(shellOf('agent {{INSTRUCTION}}'), { instruction }))).toMatchObject({
      ok: false,
      error: expect.stringContaining('{{INSTRUCTION_FILE}}'),
    })
  })
})

describe('quoting, as sh reads it', () => {
  const sh = (command: string, env: Record<string, string> = {}): string =>
    execFileSync('/bin/sh', ['-c', command], { encoding: 'utf8', env: { PATH: process.env.PATH, ...env } })
  const text = fc.string({
    unit: fc.constantFrom('a', ' ', "'", '"', '$', '`', '\\', '\n', '*', '{', '}', '#', ';', '&', 'ä'),
    maxLength: 12,
  })

  it('makes one word of any text', () => {
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 3 }), (words) => {
        expect(sh(`printf '<%s>' ${words.map(quoted).join(' ')}`)).toBe(words.map((word) => `<${word}>`).join(''))
      }),
      { numRuns: 60 },
    )
  })

  it.each([
    ['{{INSTRUCTION}}', '<V>'],
    ['"{{INSTRUCTION}}"', '<V>'],
    ["'{{INSTRUCTION}}'", '<V>'],
    ['--task={{INSTRUCTION}}', '<--task=V>'],
    ['"Do: {{INSTRUCTION}} now"', '<Do: V now>'],
    ["'Do: {{INSTRUCTION}} now'", '<Do: V now>'],
    ['"it\'s {{INSTRUCTION}}"', "<it's V>"],
    ['\\" {{INSTRUCTION}}', '<"><V>'],
    ["a # don't\nprintf '<%s>' {{INSTRUCTION}}", '<a><V>'],
    ['{{OTHER}} {{INSTRUCTION', '<{{OTHER}}><{{INSTRUCTION>'],
  ])('puts the instruction into %s as it is', (template, expected) => {
    fc.assert(
      fc.property(text, (value) => {
        const command = withPlaceholders(`printf '<%s>' ${template}`, new Map([['INSTRUCTION', 'VALUE']]))
        expect(sh(command, { VALUE: value })).toBe(expected.replace('V', () => value))
      }),
      { numRuns: 12 },
    )
  })
})

describe('the registry', () => {
  const folder = mkdtempSync(join(tmpdir(), 'polar-harness-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const moduleOf = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }

  it('finds built-in and custom harnesses, by either field, and names them all for one that is unknown', async () => {
    const path = moduleOf(
      'own.mjs',
      `export const harness = { dialect: 'any', check: () => 'said by ' + harness.dialect, plan: () => null, verdict: () => null }`,
    )
    const harnesses = await loadHarnesses({ 'my.module:Agent': path })
    expect(harnesses.names).toEqual(['shell', 'pi', 'codex', 'claude_code', 'gemini_cli', 'qwen_code', 'opencode', 'my.module:Agent'])
    expect(harnesses.check(agentOf({ import_path: 'my.module:Agent' }))).toBe('said by any')
    expect(harnesses.find(agentOf({ harness: 'my.module:Agent' }))?.name).toBe('my.module:Agent')
    expect(harnesses.check(agentOf({ harness: 'pi' }))).toBeNull()
    expect(harnesses.find(agentOf({ harness: 'constructor' }))).toBeNull()
    const unknown = "known: 'shell', 'pi', 'codex', 'claude_code', 'gemini_cli', 'qwen_code', 'opencode', 'my.module:Agent'"
    expect(harnesses.check(agentOf({ harness: 'claude-code' }))).toContain(unknown)
    expect(harnesses.check(agentOf({ import_path: '/etc/evil.mjs' }))).toContain(unknown)
  })

  it.each([
    ['exports no harness', 'export const x = 1'],
    ['lacks a function', `export const harness = { dialect: 'any', check: () => null }`],
    ['does not load', 'throw new Error("broken")'],
  ])('does not start with a module that %s', async (name, text) => {
    await expect(loadHarnesses({ bad: moduleOf(`${name.replaceAll(' ', '-')}.mjs`, text) })).rejects.toThrow(/bad|broken/)
  })
})
