// Options that several commands share, and how their values are read.
import { type Command, InvalidArgumentError } from 'commander'

const TOKEN_HELP = 'control token (else from the URL, POLAR_CONTROL_PLANE_TOKEN, or the file that serve keeps it in)'
export const ENGINES = ['vllm', 'sglang', 'sglang-native', 'llamacpp']

/** Which node a command talks to; `json` says what the flag gives. */
export function withTarget(command: Command, json = 'the answer as JSON'): Command {
  return command
    .option('-c, --config <file>', 'polar.yaml of the node: gives its address and token (else POLAR_TOPOLOGY)')
    .option('--rollout-url <url>', 'address of the node, with or without the token: http://polar:TOKEN@host:8080')
    .option('--token <token>', TOKEN_HELP)
    .option('--json', json)
}

export function seconds(text: string): number {
  const value = Number(text)
  if (!Number.isFinite(value) || value <= 0) throw new InvalidArgumentError('a positive number of seconds is needed')
  return value
}

export function wholeNumber(text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('a whole number from 1 on is needed')
  return value
}

export function naturalNumber(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 0) throw new InvalidArgumentError('a whole number from 0 on is needed')
  return value
}

export function finiteNumber(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('a number is needed')
  return value
}

export function wholeNumbers(text: string): readonly number[] {
  return [...new Set(text.split(',').map((part) => wholeNumber(part.trim())))].toSorted((a, b) => a - b)
}
