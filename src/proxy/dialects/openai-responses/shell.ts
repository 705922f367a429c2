// OpenAI's shell tools as functions: their schemas, and the way between a call's arguments and the vendor's action.
import type { Tool } from '../../chat.ts'
import { isObject, type JsonObject, parseObject } from '../../json.ts'
import { isAbsent } from '../reading.ts'

const MILLISECONDS = { type: 'integer', description: 'After how many milliseconds to give up.' }

/** The fields of the vendor's own actions, so that arguments go over one to one. */
export const SHELL: Tool = {
  type: 'function',
  function: {
    name: 'shell',
    description: 'Runs shell commands and returns what they print.',
    parameters: {
      type: 'object',
      properties: {
        commands: { type: 'array', items: { type: 'string' }, description: 'Shell commands to run, one after the other.' },
        timeout_ms: MILLISECONDS,
        max_output_length: { type: 'integer', description: 'How many characters of output to return at most.' },
      },
      required: ['commands'],
    },
  },
}

export const LOCAL_SHELL: Tool = {
  type: 'function',
  function: {
    name: 'local_shell',
    description: 'Runs one command and returns what it prints.',
    parameters: {
      type: 'object',
      properties: {
        command: { type: 'array', items: { type: 'string' }, description: 'The program and its arguments.' },
        working_directory: { type: 'string', description: 'The directory to run in.' },
        timeout_ms: MILLISECONDS,
        env: { type: 'object', additionalProperties: { type: 'string' }, description: 'Environment variables to set.' },
      },
      required: ['command'],
    },
  },
}

export type ShellAction = {
  readonly commands: readonly string[]
  readonly timeout_ms: number | null
  readonly max_output_length: number | null
}

export type LocalShellAction = {
  readonly type: 'exec'
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly timeout_ms: number | null
  readonly working_directory: string | null
  readonly user: null
}

/** Arguments that cannot be understood are run as they are: the shell's complaint is what the model can learn from. */
export function shellAction(argumentsText: string): ShellAction {
  const given = parseObject(argumentsText) ?? {}
  return {
    commands: strings(given.commands) ?? [typeof given.commands === 'string' ? given.commands : argumentsText],
    timeout_ms: count(given.timeout_ms),
    max_output_length: count(given.max_output_length),
  }
}

export function localShellAction(argumentsText: string): LocalShellAction {
  const given = parseObject(argumentsText) ?? {}
  const line = typeof given.command === 'string' ? given.command : argumentsText
  return {
    type: 'exec',
    command: strings(given.command) ?? ['bash', '-lc', line],
    env: isObject(given.env) ? Object.fromEntries(Object.entries(given.env).map(([name, value]) => [name, String(value)])) : {},
    timeout_ms: count(given.timeout_ms),
    working_directory: typeof given.working_directory === 'string' ? given.working_directory : null,
    user: null,
  }
}

/** The arguments that a returned action stands for: what the vendor fills in with nothing is left out. */
export function shellArguments(action: JsonObject): string {
  const given = Object.entries(action).filter(
    ([name, value]) => name !== 'type' && !isAbsent(value) && !(isObject(value) && Object.keys(value).length === 0),
  )
  return JSON.stringify(Object.fromEntries(given))
}

function strings(value: unknown): readonly string[] | null {
  return Array.isArray(value) && value.every((item) => typeof item === 'string') ? value : null
}

function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : null
}
