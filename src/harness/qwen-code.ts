// Qwen Code, run once without a terminal, on whichever of four protocols the task asks for.
import { posix } from 'node:path'
import { z } from 'zod'
import type { AgentSpec } from '../contract/task.ts'
import { agentEnvironment, FOLDERS_COMMAND, instructionFile } from './environment.ts'
import type { Harness, HarnessContext, HarnessPlan, HarnessVerdict } from './harness.ts'
import { type McpServer, readMcpServers } from './mcp.ts'
import { type AgentProgram, PROGRAM_SETTINGS, programOf, promptOf } from './program.ts'
import { quoted } from './quoting.ts'
import { checkPreset, emptyInstruction, modelNameOf, readSettings, skillsUpload } from './settings.ts'
import { checkOwnKeys, DOLLAR, mergedSettings, type SettingsFile, writeSettings } from './settings-file.ts'

const NAME = 'qwen_code'

const PROGRAM: AgentProgram = {
  harness: NAME,
  folder: 'qwen-code',
  // The program itself; the npm package's launcher starts it as a second process.
  entry: 'node_modules/@qwen-code/qwen-code/cli.js',
  isScript: true,
  command: 'qwen',
}

/** `edit`, or a rule such as `run_shell_command(git *)`. */
const tool = z.string().regex(/^[A-Za-z0-9_][^\0\n]{0,255}$/, 'must be a tool name or a rule such as run_shell_command(git)')

/** Prompts are arguments, of which one may have 128 KiB. */
const prompt = z
  .string()
  .min(1)
  .refine((text) => Buffer.byteLength(text) <= 120 * 1024, 'must be at most 122880 bytes')

/** What only its settings file can say. */
const IN_FILE = z.strictObject({
  /** The only built-in tools offered. */
  core_tools: z.array(tool).min(1).optional(),
  /** False offers all tools at once; otherwise some are found by searching. */
  tool_search: z.boolean().optional(),
  /** Files of the working directory that are read before the task; Qwen Code's defaults are QWEN.md and AGENTS.md. */
  context_file_names: z
    .array(z.string().regex(/^[^/\0]+$/, 'must be a file name'))
    .min(1)
    .optional(),
  /** True lets it ask a model, after a session, what is worth remembering of it. */
  memory: z.boolean().optional(),
  reasoning_effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
  context_window: z.int().min(1).optional(),
  /** Compacts the conversation when this share of the window is in use. */
  auto_compact_threshold: z.number().min(0.01).max(1).optional(),
  /** Of one call, within one of its rounds. */
  max_retries: z.int().min(0).max(100).optional(),
  /** Further keys of settings.json. */
  config: z.record(z.string(), z.unknown()).optional(),
})

const settingsSchema = z.strictObject({
  ...PROGRAM_SETTINGS,
  /** The protocol Qwen Code speaks, under its own names; `openai` is Chat Completions. */
  auth_type: z.enum(['openai', 'openai-responses', 'anthropic', 'gemini']).default('openai'),
  /** A short prompt and six tools; no settings file, context files, memory, skills or hooks. */
  bare: z.boolean().default(false),
  /** A run that reaches one of them counts as failed, and is graded. */
  max_session_turns: z.int().min(1).optional(),
  max_tool_calls: z.int().min(0).max(1_000_000).optional(),
  /** How deep sub-agents may start others: 1 lets none of them. */
  max_subagent_depth: z.int().min(1).max(100).optional(),
  exclude_tools: z.array(tool).min(1).optional(),
  /** Replaces Qwen Code's own system prompt. */
  system_prompt: prompt.optional(),
  append_system_prompt: prompt.optional(),
  /** Of one answer; 32768 for a model Qwen Code does not know. */
  max_tokens: z.int().min(1).optional(),
  stream_idle_timeout_ms: z.int().min(1).optional(),
  ...IN_FILE.shape,
})

type Settings = z.infer<typeof settingsSchema>

/** What routes and quiets Qwen Code; a task that could change it would run past its session. */
const OWN_KEYS = [
  ...['env', 'mcpServers', 'model.baseUrl', 'model.name', 'modelFallbacks', 'modelProviders', 'privacy.usageStatisticsEnabled', 'proxy'],
  ...['general.enableAutoUpdate', 'security.auth', 'security.folderTrust', 'telemetry', 'tools.sandbox'],
] as const

export const qwenCodeHarness: Harness = {
  name: NAME,
  dialect: 'openai-chat, or by agent.settings.auth_type openai-responses, anthropic or google',

  check(agent: AgentSpec): string | null {
    const settings = readSettings(settingsSchema, agent)
    if (!settings.ok) return settings.error
    const servers = readMcpServers(agent)
    return checkPreset(NAME, agent) ?? checkFile(settings.settings) ?? (servers.ok ? null : servers.error)
  },

  plan(context) {
    if (context.instruction.trim() === '') return { ok: false, error: emptyInstruction(NAME) }
    const read = readSettings(settingsSchema, context.agent)
    if (!read.ok) return read
    const { settings } = read
    const mcp = readMcpServers(context.agent)
    if (!mcp.ok) return mcp
    const home = homeOf(context)
    const env = agentEnvironment(context, {
      ...routeOf(context, settings),
      QWEN_HOME: home,
      // It would start itself again for more memory, under a process id that nobody waits for.
      QWEN_CODE_NO_RELAUNCH: '1',
      QWEN_CODE_SUPPRESS_YOLO_WARNING: '1',
      // In its bare mode no file could say it.
      QWEN_USAGE_STATISTICS_ENABLED: 'false',
      ...(settings.max_tokens === undefined ? {} : { QWEN_CODE_MAX_OUTPUT_TOKENS: String(settings.max_tokens) }),
      ...(settings.stream_idle_timeout_ms === undefined ? {} : { QWEN_STREAM_IDLE_TIMEOUT_MS: String(settings.stream_idle_timeout_ms) }),
      ...DOLLAR,
    })
    const program = programOf(PROGRAM, context, settings, env)
    if (!program.ok) return program
    const told = promptOf(context, settings)
    const options = optionsOf(context, settings, mcp.servers)
    const content = writeSettings(settingsOf(settings))
    return {
      ok: true,
      plan: {
        files: [...told.files, { path: `${home}/settings.json`, content }, ...options.files],
        uploads: skillsUpload(context, `${home}/skills`),
        setup: [{ command: FOLDERS_COMMAND, env, label: 'folders' }, ...program.setup],
        run: { command: `exec ${program.words} ${options.words.join(' ')} <${told.stdin}`, env, label: 'agent' },
        logs: [`${home}/projects`],
      },
    }
  },

  verdict: ({ stdoutTail, stderrTail }) => verdictOf(stdoutTail, stderrTail),
}

function checkFile(settings: Settings): string | null {
  const unread = settings.bare ? Object.keys(IN_FILE.shape).find((key) => Object.hasOwn(settings, key)) : undefined
  if (unread !== undefined) return `agent.settings.${unread}: Qwen Code reads no settings file in its bare mode; remove one of them`
  return checkOwnKeys(NAME, settings.config ?? {}, OWN_KEYS)
}

/** Where each protocol's base URL and key are read from, and what follows the session's URL. */
const ROUTES: { readonly [type in Settings['auth_type']]: { readonly url: string; readonly key: string; readonly path: string } } = {
  openai: { url: 'OPENAI_BASE_URL', key: 'OPENAI_API_KEY', path: '/v1' },
  'openai-responses': { url: 'OPENAI_BASE_URL', key: 'OPENAI_API_KEY', path: '/v1' },
  anthropic: { url: 'ANTHROPIC_BASE_URL', key: 'ANTHROPIC_API_KEY', path: '' },
  gemini: { url: 'GOOGLE_GEMINI_BASE_URL', key: 'GEMINI_API_KEY', path: '' },
}

function routeOf({ modelUrl, modelKey }: HarnessContext, { auth_type }: Settings): Readonly<Record<string, string>> {
  const { url, key, path } = ROUTES[auth_type]
  return { [url]: `${modelUrl}${path}`, [key]: modelKey }
}

const homeOf = ({ home }: HarnessContext): string => `${home}/.qwen`

type Options = { readonly files: HarnessPlan['files']; readonly words: readonly string[] }

function optionsOf(context: HarnessContext, settings: Settings, servers: readonly McpServer[]): Options {
  const files: { readonly path: string; readonly content: string }[] = []
  const words = ['--output-format stream-json --approval-mode yolo', `--auth-type ${settings.auth_type}`]
  words.push(`--model ${quoted(modelNameOf(context))}`)
  if (settings.bare) words.push('--bare')
  if (settings.max_session_turns !== undefined) words.push(`--max-session-turns ${settings.max_session_turns}`)
  if (settings.max_tool_calls !== undefined) words.push(`--max-tool-calls ${settings.max_tool_calls}`)
  if (settings.max_subagent_depth !== undefined) words.push(`--max-subagent-depth ${settings.max_subagent_depth}`)
  for (const each of settings.exclude_tools ?? []) words.push(`--exclude-tools ${quoted(each)}`)
  // It reads no file outside of the folders it was given.
  if (settings.instruction === 'file') words.push(`--include-directories ${quoted(posix.dirname(instructionFile(context)))}`)
  const addFile = (name: string, content: string): string => {
    const path = `${homeOf(context)}/${name}`
    files.push({ path, content })
    return quoted(path)
  }
  if (settings.system_prompt !== undefined)
    words.push(`--system-prompt "$(cat ${addFile('polar-system-prompt.md', settings.system_prompt)})"`)
  if (settings.append_system_prompt !== undefined)
    words.push(`--append-system-prompt "$(cat ${addFile('polar-appended-prompt.md', settings.append_system_prompt)})"`)
  if (servers.length > 0) {
    const content = JSON.stringify({ mcpServers: Object.fromEntries(servers.map(serverEntry)) })
    words.push(`--mcp-config ${addFile('polar-mcp.json', content)}`)
  }
  return { files, words }
}

/** The sampling it asks Google for suits that vendor's models: without a word of the task's, a policy samples as it is. */
const NEUTRAL_SAMPLING = { temperature: 1, top_p: 1, top_k: 0 } as const

function settingsOf(settings: Settings): SettingsFile {
  return mergedSettings(settings.config ?? {}, {
    security: { auth: { selectedType: settings.auth_type }, folderTrust: { enabled: false } },
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    general: { enableAutoUpdate: false },
    memory: { enableManagedAutoMemory: settings.memory ?? false, enableManagedAutoDream: false },
    model: {
      reasoningEffort: settings.reasoning_effort,
      generationConfig: {
        samplingParams: settings.auth_type === 'gemini' ? NEUTRAL_SAMPLING : undefined,
        contextWindowSize: settings.context_window,
        maxRetries: settings.max_retries,
      },
    },
    context: { fileName: settings.context_file_names, autoCompactThreshold: settings.auto_compact_threshold },
    tools: { core: settings.core_tools, toolSearch: { enabled: settings.tool_search } },
  })
}

function serverEntry(server: McpServer): readonly [string, SettingsFile] {
  if (server.transport === 'stdio') return [server.name, { command: server.command, args: server.args, env: server.env, trust: true }]
  const url = server.transport === 'sse' ? 'url' : 'httpUrl'
  return [server.name, { [url]: server.url, headers: server.headers, trust: true }]
}

/**
 * The `result` event is searched as text: it repeats the whole final answer, so its front may be cut off, with all but what follows that
 * answer. Inside a JSON string the quotes would be escaped, so a match is a field of the event. A run that uses up a limit has none, and
 * says so on stderr.
 */
function verdictOf(stdoutTail: string, stderrTail: string): HarnessVerdict {
  const result = stdoutTail.split('\n').findLast((line) => /"type":"result"[,}]|"permission_denials":\[/.test(line))
  if (result === undefined) {
    const last = stderrTail.split('\n').findLast((line) => line.trim() !== '')
    return { failed: true, reason: `qwen_code ended without a result${last === undefined ? '' : `: ${last.trim()}`}` }
  }
  if (!/"is_error":true[,}]/.test(result)) return { failed: false }
  const text = /"error":\{[^}]*?"message":"((?:[^"\\]|\\.)*)"/.exec(result)?.[1]
  return { failed: true, reason: `qwen_code ended with an error${text === undefined ? '' : `: ${text}`}` }
}
