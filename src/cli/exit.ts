// How a command ends: the exit codes, and the one way to end with a message.

/** 0: what was asked for holds; 1: it ran and does not hold; 2: the command or its files are wrong; 3: the node gave no usable answer. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unreachable: 3 } as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** Says on stderr why a command ends, and gives the code to end with. */
export function endWith(code: ExitCode, message: string): ExitCode {
  process.stderr.write(`polar: ${message}\n`)
  return code
}
