// The pace of one generation: when its nth token is there. It can be frozen, thawed and stopped half way.
import type { Scheduler, Timer } from '../../kernel/clock.ts'

export type Latency = { readonly ttftMs: number; readonly msPerToken: number }

export type Pace = {
  /** Resolves when `tokens` tokens have been sampled, or at once with 'stopped' after `stop`. One waiter at a time. */
  reach(tokens: number): Promise<'reached' | 'stopped'>
  /** How many tokens have been sampled by now. */
  sampled(): number
  freeze(): void
  thaw(): void
  stop(): void
}

export function openPace(scheduler: Scheduler, latency: Latency): Pace {
  let startedAtMs = scheduler.clock.nowMs()
  let frozenAtMs: number | null = null
  let isStopped = false
  let stoppedAtMs = 0
  let waiter: { readonly tokens: number; readonly settle: (how: 'reached' | 'stopped') => void } | null = null
  let timer: Timer | null = null

  const nowMs = () => (isStopped ? stoppedAtMs : (frozenAtMs ?? scheduler.clock.nowMs()))
  const dueMs = (tokens: number) => startedAtMs + latency.ttftMs + Math.max(0, tokens - 1) * latency.msPerToken

  const disarm = () => {
    timer?.cancel()
    timer = null
  }
  const settle = (how: 'reached' | 'stopped') => {
    const settled = waiter
    waiter = null
    disarm()
    settled?.settle(how)
  }
  const arm = () => {
    disarm()
    if (waiter === null || frozenAtMs !== null) return
    const delayMs = dueMs(waiter.tokens) - scheduler.clock.nowMs()
    // Timers may fire a little early; what is left then is waited for again.
    if (delayMs <= 0) settle('reached')
    else timer = scheduler.after(Math.ceil(delayMs), arm)
  }

  return {
    reach(tokens) {
      if (isStopped) return Promise.resolve('stopped')
      return new Promise((resolve) => {
        waiter = { tokens, settle: resolve }
        arm()
      })
    },
    sampled() {
      const elapsedMs = nowMs() - startedAtMs - latency.ttftMs
      if (elapsedMs < 0) return 0
      return latency.msPerToken === 0 ? Number.POSITIVE_INFINITY : 1 + Math.floor(elapsedMs / latency.msPerToken)
    },
    freeze() {
      frozenAtMs ??= scheduler.clock.nowMs()
      disarm()
    },
    thaw() {
      if (frozenAtMs === null) return
      startedAtMs += scheduler.clock.nowMs() - frozenAtMs
      frozenAtMs = null
      arm()
    },
    stop() {
      if (isStopped) return
      stoppedAtMs = nowMs()
      isStopped = true
      settle('stopped')
    },
  }
}
