// Polar's TaskResult and TaskStatus as JSON, put together from one packed result after the other.
import type { DeliveryContent } from '../actors/callback/protocol.ts'
import type { LedgerCommand, StoredResult } from '../actors/ledger/protocol.ts'
import type { SessionId, TaskId } from '../contract/ids.ts'
import type { ResultsTold } from '../contract/result-form.ts'
import type { TaskStatus } from '../contract/task.ts'
import type { Address } from '../kernel/address.ts'
import type { Kernel } from '../kernel/kernel.ts'

const LEDGER_DEADLINE_MS = 10_000

/** Polar's SessionResult as JSON bytes. */
type RenderedResult =
  | { readonly ok: true; readonly json: Uint8Array }
  /** `missing`: the ledger holds none (any more); `unavailable`: the ledger or the renderer did not answer. */
  | { readonly ok: false; readonly error: 'missing' | 'unavailable'; readonly detail: string }

/** Told as `results` says; absent or null: as the session's task asked. */
export type ReadResult = (session: SessionId, results?: ResultsTold | null) => Promise<RenderedResult>

export type ResultSource = {
  readonly kernel: Pick<Kernel, 'ask'>
  readonly ledger: Address<LedgerCommand>
  /** Turns a packed SessionResult into JSON bytes, off this thread. */
  readonly renderResult: (payload: ArrayBuffer, results: ResultsTold | null) => Promise<Uint8Array>
}

export function openResultReader({ kernel, ledger, renderResult }: ResultSource): ReadResult {
  return async (session, results = null) => {
    const answer = await kernel.ask<LedgerCommand, StoredResult>(
      ledger,
      (ask) => ({ type: 'read-result', session, ask }),
      LEDGER_DEADLINE_MS,
    )
    if (!answer.ok) return { ok: false, error: 'unavailable', detail: `the ledger did not answer: ${answer.error}` }
    if (answer.value.type === 'no-result') return { ok: false, error: 'missing', detail: `the result of session ${session} is not kept` }
    try {
      return { ok: true, json: await renderResult(answer.value.payload, results) }
    } catch (error) {
      return { ok: false, error: 'unavailable', detail: `the result of session ${session} cannot be rendered: ${String(error)}` }
    }
  }
}

/** The body of a callback; rejects when a result cannot be had, so that the delivery is tried again. */
export function deliveryRenderer(read: ReadResult): (content: DeliveryContent, signal: AbortSignal) => Promise<Uint8Array> {
  return async ({ shape, task, status, sessions }, signal) => {
    const [only] = sessions
    if (shape === 'session' && only !== undefined) {
      const rendered = await read(only)
      if (!rendered.ok) throw new Error(rendered.detail)
      return rendered.json
    }
    const parts: Uint8Array[] = []
    for await (const part of taskJson(task, status, sessions, {}, read)) {
      signal.throwIfAborted()
      parts.push(part)
    }
    return Buffer.concat(parts)
  }
}

/** One result in memory at a time. `tail` holds what TaskStatus has beyond TaskResult. Throws at the first result that cannot be had. */
export async function* taskJson(
  task: TaskId,
  status: TaskStatus,
  sessions: readonly SessionId[],
  tail: Readonly<Record<string, number>>,
  read: ReadResult,
): AsyncGenerator<Uint8Array> {
  yield Buffer.from(`{"task_id":${JSON.stringify(task)},"status":${JSON.stringify(status)},"results":[`)
  for (const [i, session] of sessions.entries()) {
    const rendered = await read(session)
    if (!rendered.ok) throw new Error(rendered.detail)
    if (i > 0) yield Buffer.from(',')
    yield rendered.json
  }
  const members = Object.entries({ result_paths: [], ...tail }).map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
  yield Buffer.from(`],${members.join(',')}}`)
}
