// Results by themselves, in every form: read from the ledger and rendered off this thread, a few at a time.
import type { LedgerCommand, StoredResult } from '../actors/ledger/protocol.ts'
import type { SessionId } from '../contract/ids.ts'
import type { ResultForm } from '../contract/result-form.ts'
import type { Address } from '../kernel/address.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { openTurns } from './turns.ts'

type TracesPage = { readonly offset: number; readonly limit: number; readonly maxBytes: number }

export type KeptResult =
  | { readonly ok: true; readonly attempt: number; readonly bytes: Uint8Array }
  /** `missing`: the ledger holds none (any more); `unavailable`: too many want one, or the ledger or the renderer did not answer. */
  | { readonly ok: false; readonly error: 'missing' | 'unavailable'; readonly detail: string }

export type KeptResults = {
  /** With every trace, as Polar's SessionResult. */
  whole(session: SessionId, form: ResultForm): Promise<KeptResult>
  traces(session: SessionId, form: ResultForm, page: TracesPage): Promise<KeptResult>
}

export type KeptResultsSource = {
  readonly kernel: Pick<Kernel, 'ask'>
  readonly ledger: Address<LedgerCommand>
  /** Turns a packed SessionResult into bytes, off this thread; `page` null: all of it. */
  readonly render: (payload: ArrayBuffer, form: ResultForm, page: TracesPage | null) => Promise<Uint8Array>
}

const LEDGER_DEADLINE_MS = 10_000
/** In memory at once, packed and rendered: the renderers are no more. */
const MAX_READING = 2
const MAX_WAITING = 256
/** Rendered results kept for whoever reads them range by range. */
const REMEMBERED_BYTES = 32 * 2 ** 20

export function openKeptResults({ kernel, ledger, render }: KeptResultsSource): KeptResults {
  const turns = openTurns(MAX_READING, MAX_WAITING)
  /** By session, attempt and form; the least recently read first. */
  const remembered = new Map<string, Uint8Array>()
  let bytes = 0

  function remember(key: string, result: Uint8Array): void {
    bytes += result.byteLength - (remembered.get(key)?.byteLength ?? 0)
    remembered.delete(key)
    remembered.set(key, result)
    for (const [oldest, { byteLength }] of remembered) {
      if (bytes <= REMEMBERED_BYTES) return
      remembered.delete(oldest)
      bytes -= byteLength
    }
  }

  async function read(session: SessionId, form: ResultForm, page: TracesPage | null): Promise<KeptResult> {
    const answer = await kernel.ask<LedgerCommand, StoredResult>(
      ledger,
      (ask) => ({ type: 'read-result', session, ask }),
      LEDGER_DEADLINE_MS,
    )
    if (!answer.ok) return unavailable(`the ledger did not answer: ${answer.error}`)
    const stored = answer.value
    if (stored.type === 'no-result') return { ok: false, error: 'missing', detail: `the result of session ${session} is not kept` }
    const { attempt, payload } = stored
    const key = `${session} ${attempt} ${form}`
    const known = page === null ? remembered.get(key) : undefined
    try {
      const rendered = known ?? (await render(payload, form, page))
      if (page === null) remember(key, rendered)
      return { ok: true, attempt, bytes: rendered }
    } catch (error) {
      return unavailable(`the result of session ${session} cannot be rendered: ${String(error)}`)
    }
  }

  async function readInTurn(session: SessionId, form: ResultForm, page: TracesPage | null): Promise<KeptResult> {
    if (!(await turns.enter())) return unavailable('too many results are being read at once')
    try {
      return await read(session, form, page)
    } finally {
      turns.leave()
    }
  }

  return {
    whole: (session, form) => readInTurn(session, form, null),
    traces: (session, form, page) => readInTurn(session, form, page),
  }
}

function unavailable(detail: string): KeptResult {
  return { ok: false, error: 'unavailable', detail }
}
