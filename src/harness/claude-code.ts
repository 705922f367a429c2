// Anthropic's Claude Code in print mode, pointed at the session's Messages route.
import { z } from 'zod'
import type { AgentSpec } from '../contract/task.ts'
import { agentEnvironment, FOLDERS_COMMAND } from './environment.ts'
import type { Harness, HarnessContext, HarnessVerdict } from './harness.ts'
import { type McpServer, readMcpServers } from './mcp.ts'
import { type AgentProgram, PROGRAM_SETTINGS, programOf, promptOf } from './program.ts'
import { quoted } from './quoting.ts'
import { checkPreset, emptyInstruction, modelNameOf, readSettings, skillsUpload } from './settings.ts'

const NAME = 'claude_code'

const PROGRAM: AgentProgram = {
  harness: NAME,
  folder: 'claude-code',
  // The program itself; the npm package's launcher is put in place by an install script, which is never run here.
  entry: 'node_modules/@anthropic-ai/claude-code-linux-x64/claude',
  isScript: false,
  command: 'claude',
}

/** `Bash`, or a rule such as `Bash(git *)`: a comma would begin the next one. */
const rule = z.string().regex(/^[A-Za-z0-9_][^,\0\n]{0,255}$/, 'must be a tool name or a rule such as Bash(git *)')

const settingsSchema = z.strictObject({
  ...PROGRAM_SETTINGS,
  /** No hooks, plugins, CLAUDE.md or memory, and only the tools Bash, Edit and Read. */
  bare: z.boolean().default(false),
  /** The only built-in tools offered; an empty list offers none. */
  tools: z.array(z.string().regex(/^[A-Za-z0-9_]+$/)).optional(),
  allowed_tools: z.array(rule).min(1).optional(),
  disallowed_tools: z.array(rule).min(1).optional(),
  max_turns: z.int().min(1).optional(),
  /** Replaces Claude Code's own system prompt. */
  system_prompt: z.string().min(1).optional(),
  append_system_prompt: z.string().min(1).optional(),
  /** False asks for answers without thinking; otherwise Claude Code leaves it to the model. */
  thinking: z.boolean().default(true),
  effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
  /** Of one answer; 32000 for a model Claude Code does not know. */
  max_tokens: z.int().min(1).optional(),
  /** It compacts the conversation when this many tokens are in use; it takes nothing below 100000. */
  auto_compact_window: z.int().min(100_000).optional(),
  max_retries: z.int().min(0).max(100).optional(),
  /** Deferred tools, context editing and thinking display: fields and tool lists that an engine of one's own knows nothing of. */
  experimental_betas: z.boolean().default(false),
})

type Settings = z.infer<typeof settingsSchema>

export const claudeCodeHarness: Harness = {
  name: NAME,
  dialect: 'anthropic',

  check(agent: AgentSpec): string | null {
    const settings = readSettings(settingsSchema, agent)
    if (!settings.ok) return settings.error
    const servers = readMcpServers(agent)
    return checkPreset(NAME, agent) ?? (servers.ok ? null : servers.error)
  },

  plan(context) {
    if (context.instruction.trim() === '') return { ok: false, error: emptyInstruction(NAME) }
    const read = readSettings(settingsSchema, context.agent)
    if (!read.ok) return read
    const mcp = readMcpServers(context.agent)
    if (!mcp.ok) return mcp
    const config = `${context.home}/.claude`
    const env = agentEnvironment(context, environmentOf(context, read.settings, config))
    const program = programOf(PROGRAM, context, read.settings, env)
    if (!program.ok) return program
    const prompt = promptOf(context, read.settings)
    const { files, words } = optionsOf(read.settings, mcp.servers, config)
    return {
      ok: true,
      plan: {
        files: [...prompt.files, ...files],
        uploads: skillsUpload(context, `${config}/skills`),
        setup: [{ command: FOLDERS_COMMAND, env, label: 'folders' }, ...program.setup],
        run: { command: `exec ${program.words} ${words.join(' ')} <${prompt.stdin}`, env, label: 'agent' },
        logs: [`${config}/projects`],
      },
    }
  },

  verdict: ({ stdoutTail }) => verdictOf(stdoutTail),
}

function environmentOf(context: HarnessContext, settings: Settings, config: string): Readonly<Record<string, string>> {
  const model = modelNameOf(context)
  return {
    ANTHROPIC_BASE_URL: context.modelUrl,
    ANTHROPIC_API_KEY: context.modelKey,
    ANTHROPIC_MODEL: model,
    // Side calls and sub-agents ask for these; one name keeps the records of a session alike.
    ANTHROPIC_DEFAULT_OPUS_MODEL: model,
    ANTHROPIC_DEFAULT_SONNET_MODEL: model,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
    CLAUDE_CODE_SUBAGENT_MODEL: model,
    CLAUDE_CONFIG_DIR: config,
    // It refuses to skip permissions as root anywhere else.
    IS_SANDBOX: '1',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    DISABLE_TELEMETRY: '1',
    DISABLE_ERROR_REPORTING: '1',
    // A broken stream is asked for again as a stream: the same turn in another form would run its tools twice.
    CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: '1',
    // A line in the system prompt that changes with every kind of call.
    CLAUDE_CODE_ATTRIBUTION_HEADER: '0',
    ...(settings.experimental_betas ? {} : { CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: '1' }),
    ...(settings.thinking ? {} : { CLAUDE_CODE_DISABLE_THINKING: '1' }),
    ...(settings.max_tokens === undefined ? {} : { CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(settings.max_tokens) }),
    ...(settings.auto_compact_window === undefined ? {} : { CLAUDE_CODE_AUTO_COMPACT_WINDOW: String(settings.auto_compact_window) }),
    ...(settings.max_retries === undefined ? {} : { CLAUDE_CODE_MAX_RETRIES: String(settings.max_retries) }),
  }
}

type Options = { readonly files: readonly { readonly path: string; readonly content: string }[]; readonly words: readonly string[] }

function optionsOf(settings: Settings, servers: readonly McpServer[], config: string): Options {
  const files: { readonly path: string; readonly content: string }[] = []
  const words = ['-p', '--output-format stream-json', '--verbose', '--dangerously-skip-permissions']
  const addFile = (option: string, name: string, content: string): void => {
    files.push({ path: `${config}/${name}`, content })
    words.push(`${option} ${quoted(`${config}/${name}`)}`)
  }
  if (settings.bare) words.push('--bare')
  if (settings.tools !== undefined) words.push(`--tools ${quoted(settings.tools.join(','))}`)
  if (settings.allowed_tools !== undefined) words.push(`--allowedTools ${quoted(settings.allowed_tools.join(','))}`)
  if (settings.disallowed_tools !== undefined) words.push(`--disallowedTools ${quoted(settings.disallowed_tools.join(','))}`)
  if (settings.max_turns !== undefined) words.push(`--max-turns ${settings.max_turns}`)
  if (settings.effort !== undefined) words.push(`--effort ${settings.effort}`)
  if (settings.system_prompt !== undefined) addFile('--system-prompt-file', 'polar-system-prompt.md', settings.system_prompt)
  if (settings.append_system_prompt !== undefined)
    addFile('--append-system-prompt-file', 'polar-appended-prompt.md', settings.append_system_prompt)
  if (servers.length > 0) {
    words.push('--strict-mcp-config')
    addFile('--mcp-config', 'polar-mcp.json', JSON.stringify({ mcpServers: Object.fromEntries(servers.map(serverEntry)) }))
  }
  return { files, words }
}

function serverEntry(server: McpServer): readonly [string, unknown] {
  if (server.transport === 'stdio') return [server.name, { type: 'stdio', command: server.command, args: server.args, env: server.env }]
  return [server.name, { type: server.transport === 'sse' ? 'sse' : 'http', url: server.url, headers: server.headers }]
}

/**
 * The `result` event is searched as text: it repeats the whole final answer, so its front may be cut off. Inside a JSON string the quotes
 * would be escaped, so a match is a field of the event. The one that matters is the last: each queued notice ends in one of its own.
 */
function verdictOf(stdoutTail: string): HarnessVerdict {
  const result = stdoutTail.split('\n').findLast((line) => /"type":"result"[,}]/.test(line))
  if (result === undefined) return { failed: true, reason: 'claude_code ended without a result' }
  if (!/"is_error":true[,}]/.test(result)) return { failed: false }
  const how = (/"terminal_reason":"([a-z_]+)"/.exec(result) ?? /"subtype":"([a-z_]+)"/.exec(result))?.[1] ?? 'error'
  const text = /"(?:result":|errors":\[)"((?:[^"\\]|\\.)*)"/.exec(result)?.[1]
  return { failed: true, reason: `claude_code ended with an error (${how})${text === undefined ? '' : `: ${text}`}` }
}
