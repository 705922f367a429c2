// Calls over an admin plane that always settle: with what was answered, at their deadline, or when whoever was asked is gone.
import type { Scheduler } from './clock.ts'
import type { AdminAnswer } from './thread-admin.ts'

export type AdminCalls = {
  call<T>(name: string, deadlineMs: number, run: () => Promise<T>): Promise<AdminAnswer<T>>
  /** Settles every call, and those that are made later, with this message. comlink's own promises never settle then. */
  end(message: string): void
}

/** `who`: as it is named in messages. */
export function openAdminCalls(who: string, scheduler: Scheduler): AdminCalls {
  const waiting = new Set<(message: string) => void>()
  let ended: string | null = null
  return {
    call<T>(name: string, deadlineMs: number, run: () => Promise<T>) {
      return new Promise<AdminAnswer<T>>((resolve) => {
        const settle = (answer: AdminAnswer<T>): void => {
          waiting.delete(onEnd)
          timer.cancel()
          resolve(answer)
        }
        const onEnd = (message: string): void => settle({ ok: false, error: 'exited', message })
        const onDeadline = (): void =>
          settle({ ok: false, error: 'deadline', message: `${who} did not answer ${name} within ${deadlineMs} ms` })
        const timer = scheduler.after(deadlineMs, onDeadline)
        if (ended !== null) {
          onEnd(ended)
          return
        }
        waiting.add(onEnd)
        run().then(
          (value) => settle({ ok: true, value }),
          (error: unknown) => settle({ ok: false, error: 'failed', message: error instanceof Error ? error.message : String(error) }),
        )
      })
    },
    end(message) {
      ended = message
      for (const settle of [...waiting]) settle(message)
    },
  }
}
