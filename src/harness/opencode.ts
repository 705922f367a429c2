// OpenCode, run once without a terminal, on whichever of four protocols the task asks for.
import { z } from 'zod'
import type { AgentSpec } from '../contract/task.ts'
import { agentEnvironment, FOLDERS_COMMAND } from './environment.ts'
import { readEvent } from './event-line.ts'
import type { Harness, HarnessContext, HarnessPlan, HarnessVerdict } from './harness.ts'
import { type McpServer, readMcpServers } from './mcp.ts'
import { type AgentProgram, PROGRAM_SETTINGS, programOf, promptOf } from './program.ts'
import { quoted } from './quoting.ts'
import { checkPreset, emptyInstruction, KEY_VARIABLE, modelNameOf, readSettings, skillsUpload } from './settings.ts'
import { checkOwnKeys, mergedSettings, type SettingsFile } from './settings-file.ts'

const NAME = 'opencode'

const PROGRAM: AgentProgram = {
  harness: NAME,
  folder: 'opencode',
  entry: 'node_modules/opencode-linux-x64/bin/opencode',
  isScript: false,
  command: 'opencode',
}

const action = z.enum(['allow', 'deny'])

const settingsSchema = z.strictObject({
  ...PROGRAM_SETTINGS,
  /** The protocol OpenCode speaks: the AI SDK's provider of that name. */
  api: z.enum(['openai-compatible', 'openai', 'anthropic', 'google']).default('openai-compatible'),
  /** One of OpenCode's primary agents, `build` or `plan`, or one of the task's own in `config.agent`. */
  agent: z.string().min(1).default('build'),
  /** Replaces OpenCode's own system prompt. What it says of the environment follows it all the same. */
  system_prompt: z.string().min(1).optional(),
  append_system_prompt: z.string().min(1).optional(),
  /** By tool, or by tool and pattern. What is not denied is allowed: nobody could be asked. */
  permission: z.record(z.string().min(1), z.union([action, z.record(z.string().min(1), action)])).optional(),
  /** Calls of one agent; the last one is told to answer without tools. */
  max_steps: z.int().min(1).optional(),
  /** Whether OpenCode takes the model for one that thinks, and asks for it in the words of its protocol. */
  reasoning: z.boolean().default(false),
  /** Of one answer. */
  max_tokens: z.int().min(1).default(8192),
  context_window: z.int().min(1).default(262144),
  /** OpenCode compacts the conversation when an answer of full length would no longer fit into the window. */
  auto_compact: z.boolean().default(true),
  /** AGENTS.md, opencode.json and .opencode, found in the working directory and in the folders above it. */
  project_config: z.boolean().default(true),
  /** Further keys of opencode.json. */
  config: z.record(z.string(), z.unknown()).default({}),
})

type Settings = z.infer<typeof settingsSchema>

/** What routes and quiets OpenCode; a task that could change it would run past its session. */
const OWN_KEYS = [
  ...['provider', 'enabled_providers', 'disabled_providers', 'model', 'small_model', 'mcp', 'instructions', 'permission'],
  ...['autoupdate', 'share', 'autoshare', 'snapshot', 'compaction.auto'],
] as const

export const opencodeHarness: Harness = {
  name: NAME,
  dialect: 'openai-chat, or by agent.settings.api openai-responses, anthropic or google',

  check(agent: AgentSpec): string | null {
    const settings = readSettings(settingsSchema, agent)
    if (!settings.ok) return settings.error
    const servers = readMcpServers(agent)
    const problem = checkPreset(NAME, agent) ?? checkOwnKeys(NAME, settings.settings.config, OWN_KEYS) ?? checkAgent(settings.settings)
    return problem ?? (servers.ok ? null : servers.error)
  },

  plan(context) {
    if (context.instruction.trim() === '') return { ok: false, error: emptyInstruction(NAME) }
    const read = readSettings(settingsSchema, context.agent)
    if (!read.ok) return read
    const { settings } = read
    const mcp = readMcpServers(context.agent)
    if (!mcp.ok) return mcp
    const folder = `${context.home}/.opencode`
    const env = agentEnvironment(context, environmentOf(context, settings, folder))
    const program = programOf(PROGRAM, context, settings, env)
    if (!program.ok) return program
    const prompt = promptOf(context, settings)
    const files = [
      ...prompt.files,
      { path: `${folder}/opencode.json`, content: writeConfig(configOf(context, settings, mcp.servers, folder)) },
      ...[folder, `${context.home}/.config/opencode`].flatMap(settledDependencies),
    ]
    if (settings.append_system_prompt !== undefined) {
      files.push({ path: `${folder}/${APPENDED_PROMPT}`, content: settings.append_system_prompt })
    }
    return {
      ok: true,
      plan: {
        files,
        uploads: skillsUpload(context, `${folder}/skills`),
        setup: [{ command: FOLDERS_COMMAND, env, label: 'folders' }, ...program.setup],
        run: { command: `exec ${program.words} ${wordsOf(settings)} <${prompt.stdin}`, env, label: 'agent' },
        logs: [`${context.home}/.local/share/opencode`],
      },
    }
  },

  verdict: ({ stdoutTail }) => verdictOf(stdoutTail),
}

/** OpenCode takes its default agent in place of one it does not know, and only says so. */
function checkAgent({ agent, config }: Settings): string | null {
  const own = typeof config.agent === 'object' && config.agent !== null ? Object.keys(config.agent) : []
  const known = ['build', 'plan', ...own]
  return known.includes(agent) ? null : `agent.settings.agent: there is no agent '${agent}'; there are ${[...new Set(known)].join(', ')}`
}

const APPENDED_PROMPT = 'polar-appended-prompt.md'

/** With a title there is no call that asks for one. */
function wordsOf(settings: Settings): string {
  return `run --format json --title polar --auto --agent ${quoted(settings.agent)}`
}

function environmentOf(context: HarnessContext, settings: Settings, folder: string): Readonly<Record<string, string>> {
  return {
    [KEY_VARIABLE]: context.modelKey,
    // Read after what a project says.
    OPENCODE_CONFIG_DIR: folder,
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
    OPENCODE_DISABLE_SHARE: '1',
    ...(settings.project_config ? {} : { OPENCODE_DISABLE_PROJECT_CONFIG: '1' }),
  }
}

/** What follows the session's URL: each provider appends its own path to it. */
const BASE_PATHS: { readonly [api in Settings['api']]: string } = {
  'openai-compatible': '/v1',
  openai: '/v1',
  anthropic: '/v1',
  google: '/v1beta',
}

function configOf(context: HarnessContext, settings: Settings, servers: readonly McpServer[], folder: string): SettingsFile {
  const name = modelNameOf(context)
  const own = { prompt: settings.system_prompt, steps: settings.max_steps }
  return mergedSettings(settings.config, {
    autoupdate: false,
    share: 'disabled',
    // Copies of the work tree, taken after every step for an undo that nobody asks for.
    snapshot: false,
    model: `polar/${name}`,
    small_model: `polar/${name}`,
    enabled_providers: ['polar'],
    provider: {
      polar: {
        npm: `@ai-sdk/${settings.api}`,
        name: 'polar',
        // The name of an environment variable, never the key.
        env: [KEY_VARIABLE],
        options: { baseURL: `${context.modelUrl}${BASE_PATHS[settings.api]}` },
        models: { [name]: modelOf(name, settings) },
      },
    },
    agent: own.prompt === undefined && own.steps === undefined ? undefined : { [settings.agent]: own },
    permission: settings.permission,
    compaction: { auto: settings.auto_compact },
    instructions: settings.append_system_prompt === undefined ? undefined : [`${folder}/${APPENDED_PROMPT}`],
    mcp: servers.length === 0 ? undefined : Object.fromEntries(servers.map(serverEntry)),
  })
}

function modelOf(name: string, settings: Settings): SettingsFile {
  return {
    name,
    reasoning: settings.reasoning,
    limit: { context: settings.context_window, output: settings.max_tokens },
  }
}

/** A remote server is tried by streamable HTTP and then by server-sent events, whatever its transport. */
function serverEntry(server: McpServer): readonly [string, SettingsFile] {
  if (server.transport === 'stdio') {
    return [server.name, { type: 'local', command: [server.command, ...server.args], environment: server.env, enabled: true }]
  }
  return [server.name, { type: 'remote', url: server.url, headers: server.headers, oauth: false, enabled: true }]
}

/** OpenCode puts variables and files in place of `{env:NAME}` and `{file:path}` wherever they stand in the file: escaped, none is found. */
function writeConfig(config: SettingsFile): string {
  return JSON.stringify(config, null, 2).replaceAll(/\{(?=env:|file:)/g, '\\u007b')
}

/** What OpenCode finds installed it does not fetch from a package registry: it would do so for each of its folders, in every session. */
function settledDependencies(folder: string): HarnessPlan['files'] {
  const lock = { packages: { '': { dependencies: { '@opencode-ai/plugin': '*' } } } }
  return [
    { path: `${folder}/package-lock.json`, content: JSON.stringify(lock) },
    { path: `${folder}/node_modules/.polar`, content: '' },
  ]
}

const eventSchema = z.object({
  type: z.string(),
  part: z.object({ reason: z.string().optional() }).optional(),
  error: z.object({ name: z.string(), data: z.object({ message: z.string().optional() }).optional() }).optional(),
})

/** A step that ends in calls is followed by another one, unless OpenCode was stopped; what it got over stands before its last step. */
function verdictOf(stdoutTail: string): HarnessVerdict {
  for (const line of stdoutTail.split('\n').toReversed()) {
    const event = readEvent(eventSchema, line)
    if (event?.type === 'error') {
      return {
        failed: true,
        reason: `opencode ended with an error: ${event.error?.data?.message ?? event.error?.name ?? 'it does not say which'}`,
      }
    }
    if (event?.type === 'step_finish' && event.part?.reason !== 'tool-calls') return { failed: false }
    if (event?.type === 'step_finish') break
  }
  return { failed: true, reason: 'opencode ended in the middle of its turn' }
}
