// OpenAI's Codex CLI, run once with `codex exec` against the session's Responses route.
import { z } from 'zod'
import type { AgentSpec } from '../contract/task.ts'
import { agentEnvironment, FOLDERS_COMMAND } from './environment.ts'
import { readEvent } from './event-line.ts'
import type { Harness, HarnessContext, HarnessVerdict, SetupStep } from './harness.ts'
import { type McpServer, readMcpServers } from './mcp.ts'
import { type AgentProgram, PROGRAM_SETTINGS, programOf, promptOf } from './program.ts'
import { quoted } from './quoting.ts'
import { checkPreset, emptyInstruction, KEY_VARIABLE, modelNameOf, readSettings, skillsUpload } from './settings.ts'
import { findNonToml, type TomlTable, type TomlValue, writeToml } from './toml.ts'

const PROGRAM: AgentProgram = {
  harness: 'codex',
  folder: 'codex',
  // The program itself; the npm package's launcher only finds it.
  entry: 'node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex',
  isScript: false,
  command: 'codex',
}
/** It refuses a longer prompt, after it was started. */
const MAX_PROMPT_CHARACTERS = 1_048_576

const jsonObject = z.record(z.string(), z.unknown())

const settingsSchema = z.strictObject({
  ...PROGRAM_SETTINGS,
  reasoning_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).optional(),
  reasoning_summary: z.enum(['auto', 'concise', 'detailed', 'none']).optional(),
  /** A developer message after Codex's own. */
  developer_instructions: z.string().min(1).optional(),
  /** False takes the sub-agent tools away. */
  multi_agent: z.boolean().default(true),
  /**
   * What Codex believes of the model, and so which tools it offers: the name of a model in its own catalogue whose entry the task's model
   * gets, or a whole catalogue. Without one an unknown model gets neither `apply_patch` nor a prompt of its own.
   */
  model_catalog: z.union([z.string().min(1).max(128), z.object({ models: z.array(jsonObject).min(1) })]).optional(),
  context_window: z.int().min(1).optional(),
  /** Codex compacts the conversation when this many tokens are in use. */
  auto_compact_token_limit: z.int().min(1).optional(),
  request_max_retries: z.int().min(0).max(100).optional(),
  stream_max_retries: z.int().min(0).max(100).optional(),
  stream_idle_timeout_ms: z.int().min(1).optional(),
  /** Further keys of config.toml. */
  config: jsonObject.default({}),
})

type Settings = z.infer<typeof settingsSchema>

/** What routes and quiets Codex; a task that could change it would run past its session. */
const OWN_KEYS: readonly (readonly string[])[] = [
  ...['model', 'model_provider', 'model_providers', 'model_catalog_json', 'openai_base_url', 'chatgpt_base_url', 'oss_provider'],
  ...['profile', 'profiles', 'mcp_servers', 'web_search', 'check_for_update_on_startup', 'analytics', 'otel'],
  'features.plugins',
  'features.apps',
].map((key) => key.split('.'))

export const codexHarness: Harness = {
  name: 'codex',
  dialect: 'openai-responses',

  check(agent: AgentSpec): string | null {
    const settings = readSettings(settingsSchema, agent)
    if (!settings.ok) return settings.error
    return checkPreset('codex', agent) ?? checkConfig(settings.settings.config) ?? checkServers(agent)
  },

  plan(context) {
    if (context.instruction.trim() === '') return { ok: false, error: emptyInstruction('codex') }
    const read = readSettings(settingsSchema, context.agent)
    if (!read.ok) return read
    if (read.settings.instruction === 'stdin' && Array.from(context.instruction).length > MAX_PROMPT_CHARACTERS) {
      const remedy = "agent.settings.instruction 'file' takes any"
      return {
        ok: false,
        error: `harness 'codex' takes an instruction of at most ${MAX_PROMPT_CHARACTERS} characters on its stdin; ${remedy}`,
      }
    }
    const servers = readMcpServers(context.agent)
    if (!servers.ok) return servers
    const { settings } = read
    const home = `${context.home}/.codex`
    const env = agentEnvironment(context, { [KEY_VARIABLE]: context.modelKey, CODEX_HOME: home })
    const program = programOf(PROGRAM, context, settings, env)
    if (!program.ok) return program
    const prompt = promptOf(context, settings)
    const catalog = `${home}/${CATALOG}`
    const files = [
      ...prompt.files,
      { path: `${home}/config.toml`, content: writeToml(configOf(context, settings, servers.servers, catalog)) },
    ]
    const setup: SetupStep[] = [{ command: FOLDERS_COMMAND, env, label: 'folders' }, ...program.setup]
    if (typeof settings.model_catalog === 'object') files.push({ path: catalog, content: JSON.stringify(settings.model_catalog) })
    if (typeof settings.model_catalog === 'string') {
      const names = { POLAR_CATALOG_ENTRY: settings.model_catalog, POLAR_CATALOG_MODEL: modelNameOf(context) }
      // `--bundled`: the catalogue inside the program, never one that is asked for over the network.
      const command = `${program.words} debug models --bundled | ${quoted(process.execPath)} -e ${quoted(COPY_ENTRY)} >${quoted(catalog)}`
      setup.push({ command, env: { ...env, ...names }, label: 'model-catalog' })
    }
    if (Object.keys(settings.config).length > 0)
      setup.push({ command: checkCommand(program.words), env, label: 'configuration', isFinal: true })
    const uploads = skillsUpload(context, `${context.home}/.agents/skills`)
    const run = { command: `exec ${program.words} ${RUN} <${prompt.stdin}`, env, label: 'agent' }
    return { ok: true, plan: { files, uploads, setup, run, logs: [`${home}/sessions`, `${home}/log`] } }
  },

  verdict: ({ stdoutTail }) => verdictOf(stdoutTail),
}

/** The prompt `-` is stdin: longer than an argument may be, and no text that Codex could take for an option. */
const RUN = 'exec --json --strict-config --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -'

/** Without a prompt Codex reads its configuration and gives up: what it says of a key of the task's is told before anything runs. */
function checkCommand(program: string): string {
  return `said=$(${program} ${RUN} 2>&1 </dev/null); case $said in *'Error loading config'*) printf '%s' "$said" >&2; exit 1;; esac`
}

const CATALOG = 'model-catalog.json'

/**
 * Gives the task's model the entry of another: Codex's catalogue on stdin, one of that model alone on stdout. Read as a stream:
 * `readFileSync(0, 'utf8')` of Node 24.22 now and then ends the process with "double free or corruption" on a busy machine.
 */
const COPY_ENTRY = `
require('node:stream/consumers').json(process.stdin).then(({ models }) => {
  const { POLAR_CATALOG_ENTRY: wanted, POLAR_CATALOG_MODEL: slug } = process.env
  const entry = models.find((model) => model.slug === wanted)
  if (entry !== undefined) return process.stdout.write(JSON.stringify({ models: [{ ...entry, slug }] }))
  process.stderr.write('agent.settings.model_catalog: Codex knows no model ' + wanted + '; it knows: ' + models.map((model) => model.slug).join(', '))
  process.exitCode = 1
})
`

function configOf(context: HarnessContext, settings: Settings, servers: readonly McpServer[], catalog: string): TomlTable {
  // `checkConfig` has found every value to be one that TOML can say.
  const given = settings.config as TomlTable
  return merged(given, {
    model: modelNameOf(context),
    model_provider: 'polar',
    ...stated('model_catalog_json', settings.model_catalog === undefined ? undefined : catalog),
    ...stated('model_reasoning_effort', settings.reasoning_effort),
    ...stated('model_reasoning_summary', settings.reasoning_summary),
    ...stated('developer_instructions', settings.developer_instructions),
    ...stated('model_context_window', settings.context_window),
    ...stated('model_auto_compact_token_limit', settings.auto_compact_token_limit),
    // A search that the provider would run, and that this provider cannot.
    web_search: 'disabled',
    check_for_update_on_startup: false,
    analytics: { enabled: false },
    features: { plugins: false, apps: false },
    ...(settings.multi_agent ? {} : { agents: { enabled: false } }),
    model_providers: {
      polar: {
        name: 'polar',
        base_url: `${context.modelUrl}/v1`,
        wire_api: 'responses',
        // The name of an environment variable, never the key.
        env_key: KEY_VARIABLE,
        ...stated('request_max_retries', settings.request_max_retries),
        ...stated('stream_max_retries', settings.stream_max_retries),
        ...stated('stream_idle_timeout_ms', settings.stream_idle_timeout_ms),
      },
    },
    ...(servers.length === 0 ? {} : { mcp_servers: Object.fromEntries(servers.map((server) => [server.name, serverTable(server)])) }),
  })
}

function stated(key: string, value: string | number | undefined): TomlTable {
  return value === undefined ? {} : { [key]: value }
}

function serverTable(server: McpServer): TomlTable {
  if (server.transport === 'stdio') {
    return { command: server.command, args: server.args, ...(Object.keys(server.env).length === 0 ? {} : { env: server.env }) }
  }
  return { url: server.url, ...(Object.keys(server.headers).length === 0 ? {} : { http_headers: server.headers }) }
}

/** Tables are joined; of two values for one key the second one stands. */
function merged(first: TomlTable, second: TomlTable): TomlTable {
  const result = new Map<string, TomlValue>(Object.entries(first))
  for (const [key, value] of Object.entries(second)) {
    const before = result.get(key)
    result.set(key, isTable(before) && isTable(value) ? merged(before, value) : value)
  }
  return Object.fromEntries(result)
}

function isTable(value: TomlValue | undefined): value is TomlTable {
  return typeof value === 'object' && !Array.isArray(value)
}

function checkConfig(config: Readonly<Record<string, unknown>>): string | null {
  for (const path of OWN_KEYS) {
    let value: unknown = config
    for (const key of path)
      value = typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined
    if (value !== undefined) return `agent.settings.config.${path.join('.')} is set by harness 'codex' itself`
  }
  const place = findNonToml(config, 'agent.settings.config')
  return place === null ? null : `${place} is null, which TOML cannot say`
}

function checkServers(agent: AgentSpec): string | null {
  const read = readMcpServers(agent)
  if (!read.ok) return read.error
  const unfit = read.servers.find((server) => server.transport === 'sse')
  return unfit === undefined ? null : `agent.mcp_servers: '${unfit.name}' has transport 'sse', which Codex does not speak`
}

const lineSchema = z.object({ type: z.string(), message: z.string().optional(), error: z.object({ message: z.string() }).optional() })

/** The last event says how the turn ended; Codex reports retries as errors too, so an error alone decides nothing. */
function verdictOf(stdoutTail: string): HarnessVerdict {
  let complaint: string | null = null
  for (const line of stdoutTail.split('\n').toReversed()) {
    const event = readEvent(lineSchema, line)
    if (event?.type === 'turn.completed') return { failed: false }
    if (event?.type === 'turn.failed')
      return { failed: true, reason: `codex's turn failed: ${event.error?.message ?? 'it does not say why'}` }
    if (event?.type === 'error') complaint ??= event.message ?? null
  }
  return { failed: true, reason: `codex ended in the middle of its turn${complaint === null ? '' : `: ${complaint}`}` }
}
