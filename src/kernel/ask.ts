// A question that must be answered by a deadline. The asker keeps a slot for the reply, so a reply can never be refused.
import type { ThreadId } from './address.ts'

/** Travels inside a message as its `ask` field; plain data. `R` exists for the compiler only. */
export type Ask<in R> = {
  readonly thread: ThreadId
  readonly incarnation: number
  readonly ask: number
  readonly answers?: (reply: R) => void
}

/** `full`: the message was refused; `stopped`: the asked actor or its thread ended first; `deadline`: no reply in time. */
export type Answer<R> = { readonly ok: true; readonly value: R } | { readonly ok: false; readonly error: 'full' | 'stopped' | 'deadline' }
