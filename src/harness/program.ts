// Which program of an agent CLI a session runs, this node's own pinned copy or the sandbox's, in which version, and how it is told its task.
import { z } from 'zod'
import { INSTRUCTION_FILE, instructionFile } from './environment.ts'
import type { HarnessContext, HarnessPlan, SetupStep } from './harness.ts'
import { quoted } from './quoting.ts'

/** What every preset's `agent.settings` take, to be spread into its own. */
export const PROGRAM_SETTINGS = {
  /** `auto`: this node's own copy, else the one on the sandbox's PATH. `image`: that one always. `none`: that one, without a look at it. */
  install: z.enum(['auto', 'image', 'none']).default('auto'),
  /** Exactly this version of the CLI, or the session does not begin. */
  version: z
    .string()
    .regex(/^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$/, 'must be a version such as 1.2.3')
    .optional(),
  /** `stdin`: the instruction is the CLI's prompt. `file`: its prompt says in which file the instruction is. */
  instruction: z.enum(['stdin', 'file']).default('stdin'),
} as const

export type ProgramSettings = z.infer<z.ZodObject<typeof PROGRAM_SETTINGS>>

/** How a CLI is found and started. */
export type AgentProgram = {
  /** The harness, for what is said to people. */
  readonly harness: string
  /** The name of its package under `agents/`. */
  readonly folder: string
  /** The program in that package's folder, once it is installed; a script is one that Node runs. */
  readonly entry: string
  readonly isScript: boolean
  /** Its name on the PATH of an image that brings it along. */
  readonly command: string
}

/** `words` start the program, quoted for `sh`; `setup` comes before anything else that runs it. */
type Start =
  | { readonly ok: true; readonly words: string; readonly setup: readonly SetupStep[] }
  | { readonly ok: false; readonly error: string }

/** `env` is that of the agent: its PATH is the one that counts. */
export function programOf(
  program: AgentProgram,
  context: HarnessContext,
  settings: ProgramSettings,
  env: Readonly<Record<string, string>>,
): Start {
  const { harness, command } = program
  const words = quoted(command)
  if (settings.install === 'none') return { ok: true, words, setup: [] }
  const own = settings.install === 'auto' ? context.installedAgent(program.folder) : null
  if (own !== null) {
    if (settings.version !== undefined && settings.version !== own.version)
      return { ok: false, error: otherPin(program, settings.version, own.version) }
    const entry = quoted(`${own.folder}/${program.entry}`)
    return { ok: true, words: program.isScript ? `${quoted(process.execPath)} ${entry}` : entry, setup: [] }
  }
  const missing = `harness '${harness}': there is no ${command} on the sandbox's PATH${settings.install === 'image' ? '' : `, and ${notInstalled(program.folder)}`}`
  const setup: SetupStep[] = [step('program', `command -v ${words} >/dev/null || { ${complain(missing)}; exit 1; }`, env)]
  if (settings.version !== undefined) setup.push(step('version', versionCheck(program, settings.version), env))
  return { ok: true, words, setup }
}

/** Where the CLI's stdin comes from, and the files that takes: no length limit, and no text that it could take for an option. */
export function promptOf(
  context: HarnessContext,
  settings: ProgramSettings,
): { readonly files: HarnessPlan['files']; readonly stdin: string } {
  const file = { path: instructionFile(context), content: context.instruction }
  if (settings.instruction === 'stdin') return { files: [file], stdin: `"$${INSTRUCTION_FILE}"` }
  const prompt = `${context.home}/.polar/prompt.md`
  const content = `Your task is described in the file ${file.path}. Read that file, and do what it says.\n`
  return { files: [file, { path: prompt, content }], stdin: quoted(prompt) }
}

/** What of these settings contradicts itself, or null. */
export function checkProgram(harness: string, settings: Readonly<Record<string, unknown>>): string | null {
  if (settings.install !== 'none' || settings.version === undefined) return null
  return `agent.settings.version: with install 'none' nothing looks at the version of harness '${harness}'; remove one of them`
}

export function notInstalled(folder: string): string {
  return `this node has no copy of its own: run \`node_modules/.bin/node scripts/agents.ts ${folder}\` in polar-node’s folder`
}

function otherPin({ harness }: AgentProgram, wanted: string, own: string): string {
  return `harness '${harness}' is to run version ${wanted}, and this node's own copy is ${own}: leave agent.settings.version out, or name ${own}, or bring ${wanted} along in the image and set agent.settings.install to 'image'`
}

/** CLIs dress their version up each in its own way (`codex-cli 1.2.3`, `1.2.3 (Claude Code)`): one word of the answer must be it. */
function versionCheck({ harness, command }: AgentProgram, wanted: string): string {
  const remedy = `install ${wanted} there, or change agent.settings.version`
  return [
    `said=$(${quoted(command)} --version 2>&1 </dev/null)`,
    'set -f',
    `for word in $said; do if [ "\${word#v}" = ${quoted(wanted)} ]; then exit 0; fi; done`,
    `${complain(`harness '${harness}' is to run version ${wanted}, and the ${command} on the sandbox's PATH says of itself: %s; ${remedy}`, '"$said"')}`,
    'exit 1',
  ].join('\n')
}

function complain(text: string, ...values: readonly string[]): string {
  return `printf ${[quoted(text), ...values].join(' ')} >&2`
}

/** An image's program does not change from one attempt to the next. */
function step(label: string, command: string, env: Readonly<Record<string, string>>): SetupStep {
  return { command, env, label, isFinal: true }
}
