// The Pi coding agent in print mode, on whichever of four protocols the task asks for.
import { z } from 'zod'
import type { AgentSpec } from '../contract/task.ts'
import { agentEnvironment, FOLDERS_COMMAND } from './environment.ts'
import type { Harness, HarnessContext, HarnessVerdict } from './harness.ts'
import { type AgentProgram, PROGRAM_SETTINGS, programOf, promptOf } from './program.ts'
import { quoted } from './quoting.ts'
import { checkPreset, emptyInstruction, KEY_VARIABLE, modelNameOf, readSettings, skillsUpload } from './settings.ts'

const PROGRAM: AgentProgram = {
  harness: 'pi',
  folder: 'pi',
  entry: 'node_modules/@mariozechner/pi-coding-agent/dist/cli.js',
  isScript: true,
  command: 'pi',
}

const settingsSchema = z.strictObject({
  ...PROGRAM_SETTINGS,
  /** The protocol Pi speaks, under its own names. */
  api: z.enum(['openai-completions', 'openai-responses', 'anthropic-messages', 'google-generative-ai']).default('openai-completions'),
  thinking: z.enum(['off', 'minimal', 'low', 'medium', 'high', 'xhigh']).optional(),
  /** Replaces Pi's own system prompt. */
  system_prompt: z.string().min(1).optional(),
  append_system_prompt: z.string().min(1).optional(),
  /** The only tools offered; Pi's default is read, bash, edit, write. An empty list offers none. */
  tools: z.array(z.string().regex(/^[A-Za-z0-9_.-]+$/)).optional(),
  /** AGENTS.md and CLAUDE.md, found in the working directory and in every folder above it. */
  context_files: z.boolean().default(true),
  max_tokens: z.int().min(1).default(8192),
  context_window: z.int().min(1).default(262144),
})

type Settings = z.infer<typeof settingsSchema>

export const piHarness: Harness = {
  name: 'pi',
  dialect: 'openai-chat, or by agent.settings.api openai-responses, anthropic or google',

  check(agent: AgentSpec): string | null {
    if (agent.mcp_servers.length > 0) return "harness 'pi' has no MCP client: remove agent.mcp_servers"
    const settings = readSettings(settingsSchema, agent)
    return settings.ok ? checkPreset('pi', agent) : settings.error
  },

  plan(context) {
    if (context.instruction.trim() === '') return { ok: false, error: emptyInstruction('pi') }
    const read = readSettings(settingsSchema, context.agent)
    if (!read.ok) return read
    const { settings } = read
    const config = `${context.home}/.pi/agent`
    const env = agentEnvironment(context, {
      [KEY_VARIABLE]: context.modelKey,
      PI_CODING_AGENT_DIR: config,
      PI_OFFLINE: '1',
      PI_TELEMETRY: '0',
    })
    const program = programOf(PROGRAM, context, settings, env)
    if (!program.ok) return program
    const prompt = promptOf(context, settings)
    const words = [program.words, ...argumentsOf(context, settings, config)]
    return {
      ok: true,
      plan: {
        files: [
          ...prompt.files,
          { path: `${config}/models.json`, content: JSON.stringify(modelsOf(context, settings), null, 2) },
          ...promptFiles(settings, config),
        ],
        uploads: skillsUpload(context, `${config}/skills`),
        setup: [{ command: FOLDERS_COMMAND, env, label: 'folders' }, ...program.setup],
        run: { command: `exec ${words.join(' ')} <${prompt.stdin}`, env, label: 'agent' },
        logs: [`${config}/sessions`],
      },
    }
  },

  verdict: ({ stdoutTail }) => verdictOf(stdoutTail),
}

function argumentsOf(context: HarnessContext, settings: Settings, config: string): readonly string[] {
  const words = ['-p', '--mode json', '--provider polar', `--model ${quoted(modelNameOf(context))}`]
  if (settings.thinking !== undefined) words.push(`--thinking ${settings.thinking}`)
  if (settings.system_prompt !== undefined) words.push(`--system-prompt ${quoted(`${config}/${SYSTEM_PROMPT}`)}`)
  if (settings.append_system_prompt !== undefined) words.push(`--append-system-prompt ${quoted(`${config}/${APPENDED_PROMPT}`)}`)
  if (settings.tools !== undefined) words.push(settings.tools.length === 0 ? '--no-tools' : `--tools ${settings.tools.join(',')}`)
  if (!settings.context_files) words.push('--no-context-files')
  return words
}

const SYSTEM_PROMPT = 'polar-system-prompt.md'
const APPENDED_PROMPT = 'polar-appended-prompt.md'

/** Pi reads a prompt option as a file when one of that name exists. */
function promptFiles(settings: Settings, config: string): readonly { readonly path: string; readonly content: string }[] {
  const files: { readonly path: string; readonly content: string }[] = []
  if (settings.system_prompt !== undefined) files.push({ path: `${config}/${SYSTEM_PROMPT}`, content: settings.system_prompt })
  if (settings.append_system_prompt !== undefined)
    files.push({ path: `${config}/${APPENDED_PROMPT}`, content: settings.append_system_prompt })
  return files
}

/** What follows the session's URL: Pi appends its own path to it. */
const BASE_PATHS: { readonly [api in Settings['api']]: string } = {
  'openai-completions': '/v1',
  'openai-responses': '/v1',
  'anthropic-messages': '',
  'google-generative-ai': '/v1beta',
}

function modelsOf(context: HarnessContext, settings: Settings): unknown {
  const name = modelNameOf(context)
  return {
    providers: {
      polar: {
        baseUrl: `${context.modelUrl}${BASE_PATHS[settings.api]}`,
        api: settings.api,
        // The name of an environment variable, never the key.
        apiKey: KEY_VARIABLE,
        ...(settings.api === 'openai-completions' ? { compat: compatOf(settings) } : {}),
        models: [
          {
            id: name,
            name,
            reasoning: settings.thinking !== undefined && settings.thinking !== 'off',
            input: ['text'],
            contextWindow: settings.context_window,
            maxTokens: settings.max_tokens,
            cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
          },
        ],
      },
    },
  }
}

/** What engines that speak Chat Completions do not know of OpenAI's own. */
function compatOf(settings: Settings): unknown {
  return {
    supportsDeveloperRole: false,
    supportsReasoningEffort: settings.thinking !== undefined,
    supportsStore: false,
    maxTokensField: 'max_tokens',
  }
}

/**
 * Pi exits 0 when its last model call failed; only its events tell. They are searched as text: the last line repeats the whole conversation
 * and may be cut at its front. Inside a JSON string the quotes would be escaped, so a match is a field of an event.
 */
function verdictOf(stdoutTail: string): HarnessVerdict {
  const reasons = [...stdoutTail.matchAll(/"stopReason":"([A-Za-z]+)"/g)]
  const last = reasons.at(-1)
  if (last?.[1] !== 'error' && last?.[1] !== 'aborted') return { failed: false }
  const message = /"errorMessage":"((?:[^"\\]|\\.)*)"/.exec(stdoutTail.slice(last.index))?.[1]
  return { failed: true, reason: `pi's last model call ended in '${last[1]}'${message === undefined ? '' : `: ${message}`}` }
}
