// Google's Gemini CLI, run once without a terminal against the session's generateContent route.
import { posix } from 'node:path'
import { z } from 'zod'
import type { AgentSpec } from '../contract/task.ts'
import { agentEnvironment, FOLDERS_COMMAND, instructionFile } from './environment.ts'
import { readEvent } from './event-line.ts'
import type { Harness, HarnessVerdict } from './harness.ts'
import { type McpServer, readMcpServers } from './mcp.ts'
import { type AgentProgram, PROGRAM_SETTINGS, programOf, promptOf } from './program.ts'
import { quoted } from './quoting.ts'
import { checkPreset, emptyInstruction, modelNameOf, readSettings, skillsUpload } from './settings.ts'
import { checkOwnKeys, DOLLAR, mergedSettings, type SettingsFile, writeSettings } from './settings-file.ts'

const NAME = 'gemini_cli'

const PROGRAM: AgentProgram = {
  harness: NAME,
  folder: 'gemini-cli',
  entry: 'node_modules/@google/gemini-cli/bundle/gemini.js',
  isScript: true,
  command: 'gemini',
}

/** It cuts off what stands behind them. */
const MAX_PROMPT_BYTES = 8 * 1024 * 1024

const toolNames = z.array(z.string().min(1)).min(1)

const settingsSchema = z.strictObject({
  ...PROGRAM_SETTINGS,
  /** A run that reaches it counts as failed, and is graded. */
  max_session_turns: z.int().min(1).optional(),
  /** The only built-in tools offered, by name or as `run_shell_command(git)`. */
  core_tools: toolNames.optional(),
  exclude_tools: toolNames.optional(),
  /** Replaces Gemini CLI's own system prompt; its `${AvailableTools}` and the like stand for what they name. */
  system_prompt: z.string().min(1).optional(),
  /** What Gemini CLI appends to its system prompt as the user's own memory. */
  append_system_prompt: z.string().min(1).optional(),
  /** Files of the working directory that are read before the task; Gemini CLI's default is GEMINI.md. */
  context_file_names: z
    .array(z.string().regex(/^[^/\0]+$/, 'must be a file name'))
    .min(1)
    .optional(),
  /** False asks for answers without thinking. */
  thinking: z.boolean().default(true),
  /** Of one answer; without it Gemini CLI leaves it to the model. */
  max_tokens: z.int().min(1).optional(),
  /** Tries of one call. */
  max_attempts: z.int().min(1).max(10).optional(),
  /** False takes the sub-agents away. */
  agents: z.boolean().default(true),
  /** From its thirtieth turn on it asks a model now and then whether the agent runs in circles, and stops an agent that does. */
  loop_detection: z.boolean().default(false),
  /** Further keys of settings.json. */
  config: z.record(z.string(), z.unknown()).default({}),
})

type Settings = z.infer<typeof settingsSchema>

/** What routes and quiets Gemini CLI; a task that could change it would run past its session. */
const OWN_KEYS = [
  ...['mcpServers', 'model.name', 'privacy.usageStatisticsEnabled', 'security.auth', 'security.folderTrust', 'telemetry', 'tools.sandbox'],
  ...['general.enableAutoUpdate', 'general.enableAutoUpdateNotification', 'experimental.gemmaModelRouter'],
] as const

export const geminiCliHarness: Harness = {
  name: NAME,
  dialect: 'google',

  check(agent: AgentSpec): string | null {
    const settings = readSettings(settingsSchema, agent)
    if (!settings.ok) return settings.error
    return (
      checkPreset(NAME, agent) ??
      checkOwnKeys(NAME, settings.settings.config, OWN_KEYS) ??
      checkMemory(settings.settings) ??
      checkServers(agent)
    )
  },

  plan(context) {
    if (context.instruction.trim() === '') return { ok: false, error: emptyInstruction(NAME) }
    const read = readSettings(settingsSchema, context.agent)
    if (!read.ok) return read
    const { settings } = read
    if (settings.instruction === 'stdin' && Buffer.byteLength(context.instruction) > MAX_PROMPT_BYTES) {
      const error = `harness '${NAME}' takes an instruction of at most ${MAX_PROMPT_BYTES} bytes on its stdin; agent.settings.instruction 'file' takes any`
      return { ok: false, error }
    }
    const mcp = readMcpServers(context.agent)
    if (!mcp.ok) return mcp
    const modelName = modelNameOf(context)
    const home = `${context.home}/.gemini`
    const systemPrompt = `${home}/${SYSTEM_PROMPT}`
    const env = agentEnvironment(context, {
      GOOGLE_GEMINI_BASE_URL: context.modelUrl,
      GEMINI_API_KEY: context.modelKey,
      GOOGLE_API_KEY: context.modelKey,
      GEMINI_CLI_HOME: context.home,
      // It would start itself again for more memory, under a process id that nobody waits for.
      GEMINI_CLI_NO_RELAUNCH: 'true',
      ...(settings.system_prompt === undefined ? {} : { GEMINI_SYSTEM_MD: systemPrompt }),
      ...DOLLAR,
    })
    const program = programOf(PROGRAM, context, settings, env)
    if (!program.ok) return program
    const prompt = promptOf(context, settings)
    const files = [...prompt.files, { path: `${home}/settings.json`, content: writeSettings(settingsOf(modelName, settings, mcp.servers)) }]
    if (settings.system_prompt !== undefined) files.push({ path: systemPrompt, content: settings.system_prompt })
    if (settings.append_system_prompt !== undefined)
      files.push({ path: `${home}/${memoryName(settings)}`, content: settings.append_system_prompt })
    const words = [program.words, '--output-format stream-json --approval-mode yolo --skip-trust', `--model ${quoted(modelName)}`]
    // It reads no file outside of the folders it was given.
    if (settings.instruction === 'file') words.push(`--include-directories ${quoted(posix.dirname(instructionFile(context)))}`)
    return {
      ok: true,
      plan: {
        files,
        uploads: skillsUpload(context, `${home}/skills`),
        setup: [{ command: FOLDERS_COMMAND, env, label: 'folders' }, ...program.setup],
        run: { command: `exec ${words.join(' ')} <${prompt.stdin}`, env, label: 'agent' },
        logs: [`${home}/tmp`],
      },
    }
  },

  verdict: ({ stdoutTail }) => verdictOf(stdoutTail),
}

const SYSTEM_PROMPT = 'polar-system-prompt.md'

/** The user's own memory is a file of its folder that has the name of a context file. */
function memoryName({ context_file_names: [name = 'GEMINI.md'] = [] }: Settings): string {
  return name
}

/** In that folder are its settings and its credentials, too. */
function checkMemory(settings: Settings): string | null {
  const name = memoryName(settings)
  if (settings.append_system_prompt === undefined || (/.\.md$/i.test(name) && name !== SYSTEM_PROMPT)) return null
  return `agent.settings.context_file_names: the first one is where agent.settings.append_system_prompt is kept: '${name}' must end in .md, and not be ${SYSTEM_PROMPT}`
}

function settingsOf(modelName: string, settings: Settings, servers: readonly McpServer[]): SettingsFile {
  return mergedSettings(settings.config, {
    // With the base URL alone it would take the way in for a gateway of Google's, which it refuses without a terminal.
    security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    general: { enableAutoUpdate: false, enableAutoUpdateNotification: false, maxAttempts: settings.max_attempts },
    model: {
      maxSessionTurns: settings.max_session_turns,
      disableLoopDetection: !settings.loop_detection,
    },
    tools: { core: settings.core_tools, exclude: excludedTools(settings) },
    context: { fileName: settings.context_file_names },
    modelConfigs: modelConfigsOf(modelName, settings),
    mcpServers: servers.length === 0 ? undefined : Object.fromEntries(servers.map(serverEntry)),
  })
}

function excludedTools({ agents, exclude_tools = [] }: Settings): readonly string[] {
  return agents ? exclude_tools : [...exclude_tools, 'invoke_agent']
}

/** What every model that Gemini CLI talks to, by whatever name, has its settings from. */
const ANY_MODEL = 'chat-base'

/** The sampling it asks for suits its vendor's models: without a word of the task's, a policy samples as it is. */
const NEUTRAL_SAMPLING = { temperature: 1, topP: 1, topK: 0 } as const

function modelConfigsOf(modelName: string, { config, max_tokens, thinking }: Settings): SettingsFile {
  const given = config.modelConfigs
  const overrides = typeof given === 'object' && given !== null && 'customOverrides' in given ? given.customOverrides : undefined
  const generateContentConfig = {
    ...NEUTRAL_SAMPLING,
    ...(max_tokens === undefined ? {} : { maxOutputTokens: max_tokens }),
    ...(thinking ? {} : { thinkingConfig: { thinkingBudget: 0 } }),
  }
  // Some sub-agents are configured under their own name only by way of the first, some only by way of the second.
  const own = [ANY_MODEL, modelName].map((model) => ({ match: { model }, modelConfig: { generateContentConfig } }))
  return { customOverrides: [...own, ...(Array.isArray(overrides) ? overrides : [])] }
}

function serverEntry(server: McpServer): readonly [string, SettingsFile] {
  if (server.transport === 'stdio') {
    return [server.name, { command: server.command, args: server.args, env: unexpanded(server.env), trust: true }]
  }
  const url = server.transport === 'sse' ? 'url' : 'httpUrl'
  return [server.name, { [url]: server.url, headers: unexpanded(server.headers), trust: true }]
}

/** Variables that Gemini CLI withholds from a server without a word. */
const WITHHELD = new Set(
  ['BASH_ENV', 'CLASSPATH', 'ENV', 'JAVA_TOOL_OPTIONS', 'LD_LIBRARY_PATH', 'LD_PRELOAD', 'NODE_OPTIONS', 'NODE_PATH', 'PERL5LIB'].concat([
    'PERL5OPT',
    'PYTHONPATH',
    'PYTHONSTARTUP',
    'RUBYLIB',
    'RUBYOPT',
    '_JAVA_OPTIONS',
  ]),
)

function checkServers(agent: AgentSpec): string | null {
  const read = readMcpServers(agent)
  if (!read.ok) return read.error
  for (const server of read.servers) {
    const name = server.transport === 'stdio' ? Object.keys(server.env).find((each) => WITHHELD.has(each.toUpperCase())) : undefined
    if (name !== undefined) {
      return `agent.mcp_servers: Gemini CLI withholds ${name} from '${server.name}': set it by the command, as in \`env ${name}=… ${server.name}\``
    }
  }
  return null
}

/** Here it looks for variables once more, as in a .env file. */
function unexpanded(values: Readonly<Record<string, string>>): SettingsFile {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.replaceAll('$', '\\$')]))
}

const eventSchema = z.object({
  type: z.string(),
  status: z.string().optional(),
  message: z.string().optional(),
  error: z.object({ message: z.string() }).optional(),
})

/** The result event ends every run; of an answer that was no answer only an error event before it says more. */
function verdictOf(stdoutTail: string): HarnessVerdict {
  const events = stdoutTail.split('\n').flatMap((line) => readEvent(eventSchema, line) ?? [])
  const result = events.findLast(({ type }) => type === 'result')
  if (result === undefined) return { failed: true, reason: 'gemini_cli ended without a result' }
  if (result.status === 'success') return { failed: false }
  const why = result.error?.message ?? events.findLast(({ type }) => type === 'error')?.message
  return { failed: true, reason: `gemini_cli ended with an error${why === undefined ? '' : `: ${why}`}` }
}
