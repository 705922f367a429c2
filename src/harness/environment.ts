// What every agent finds in its environment and its home: the model's base URL and key under each vendor's names, ids, folders, instruction.
import type { HarnessContext } from './harness.ts'

export const INSTRUCTION_FILE = 'POLAR_INSTRUCTION_FILE'
export const INSTRUCTION = 'POLAR_INSTRUCTION'

/** One string of an environment may have 128 KiB with its name (MAX_ARG_STRLEN); a longer one would make every exec fail. */
const MAX_ENVIRONMENT_TEXT = 120 * 1024

export const instructionFile = (context: HarnessContext): string => `${context.home}/.polar/instruction.md`

/** The task's own variables win, then `more`: what the harness cannot work without. */
export function agentEnvironment(context: HarnessContext, more: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const { modelUrl, modelKey } = context
  const session = `${context.home}/.polar`
  return {
    OPENAI_BASE_URL: `${modelUrl}/v1`,
    OPENAI_API_BASE: `${modelUrl}/v1`,
    OPENAI_API_KEY: modelKey,
    ANTHROPIC_BASE_URL: modelUrl,
    ANTHROPIC_API_KEY: modelKey,
    GOOGLE_API_URL: modelUrl,
    GOOGLE_GEMINI_BASE_URL: modelUrl,
    GOOGLE_API_KEY: modelKey,
    GEMINI_API_KEY: modelKey,
    SESSION_ID: context.sessionId,
    TASK_ID: context.taskId,
    SESSION_DIR: session,
    ARTIFACTS_DIR: `${session}/artifacts`,
    LOGS_DIR: logsFolder(context.home),
    AGENT_LOG_DIR: `${logsFolder(context.home)}/agent`,
    [INSTRUCTION_FILE]: instructionFile(context),
    ...(Buffer.byteLength(context.instruction) > MAX_ENVIRONMENT_TEXT || context.instruction.includes('\0')
      ? {}
      : { [INSTRUCTION]: context.instruction }),
    ...context.agent.env,
    ...more,
  }
}

/** A name in the task's environment that would make the process impossible to start: a problem in the caller's terms, or null. */
export function checkEnvironment(where: string, env: Readonly<Record<string, string>>): string | null {
  for (const [name, value] of Object.entries(env)) {
    if (value.includes('\0')) return `${where}.${name} must not contain a NUL character`
    if (Buffer.byteLength(value) > MAX_ENVIRONMENT_TEXT) return `${where}.${name} is longer than ${MAX_ENVIRONMENT_TEXT} bytes`
  }
  return null
}

/** Where `LOGS_DIR` is: kept with the session's logs, whatever harness it was. */
export const logsFolder = (home: string): string => `${home}/.polar/logs`

/** Makes the folders that the environment names. */
export const FOLDERS_COMMAND = 'mkdir -p "$ARTIFACTS_DIR" "$AGENT_LOG_DIR"'
