// A command that a signal ends in order: the signal as an abort, and the exit code that tells of it.

export type Interrupts = {
  readonly signal: AbortSignal
  /** Null until a signal has come. */
  code(): number | null
  ignore(): void
}

/** The exit code of a process that a signal ended, for whoever waits for this one. */
const SIGNAL_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const

export function hearInterrupts(): Interrupts {
  const controller = new AbortController()
  let code: number | null = null
  const hear = (name: keyof typeof SIGNAL_CODES) => (): void => {
    code ??= SIGNAL_CODES[name]
    controller.abort(new Error(name))
  }
  const heard = (['SIGINT', 'SIGTERM', 'SIGHUP'] as const).map((name) => [name, hear(name)] as const)
  for (const [name, listener] of heard) process.on(name, listener)
  return {
    signal: controller.signal,
    code: () => code,
    ignore() {
      for (const [name, listener] of heard) process.off(name, listener)
    },
  }
}
