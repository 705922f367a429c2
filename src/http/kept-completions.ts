// Polar's answer to `GET …/completions`, written part by part: from a session's gateway while it runs, from the ledger afterwards.
import type { AskGateway, CompletionsReply } from '../actors/gateway/protocol.ts'
import type { LedgerCommand } from '../actors/ledger/protocol.ts'
import type { SessionView } from '../actors/rollout-server/protocol.ts'
import type { GatewayId, SessionId } from '../contract/ids.ts'
import type { Address } from '../kernel/address.ts'
import type { Answer } from '../kernel/ask.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { unreachable } from '../kernel/unreachable.ts'
import { openTurns } from './turns.ts'

/** Lists without brackets, in UTF-8; `packed` is what they were written from. */
export type RenderedPart = {
  readonly answered: ArrayBuffer
  readonly failed: ArrayBuffer
  readonly next: number
  /** Behind it there is nothing in `packed`. */
  readonly until: number
  readonly total: number
  readonly packed: ArrayBuffer
}

type CompletionsWish = { readonly offset: number; readonly limit: number | null }

export type CompletionsSource = {
  readonly kernel: Pick<Kernel, 'ask'>
  readonly ledger: Address<LedgerCommand>
  readonly askGateway: AskGateway
  /** Off this thread: records from one sequence number up to but not including another, and fewer when they are large. */
  readonly render: (packed: ArrayBuffer, from: number, until: number) => Promise<RenderedPart>
}

type Asked = {
  readonly session: SessionId
  /** Null: any; of another one's sessions nothing is told. */
  readonly only: GatewayId | null
  readonly wish: CompletionsWish
  readonly readView: () => Promise<Answer<SessionView | null>>
}

/** Rejects when a part cannot be had; the first one is there before the first bytes are given. Whoever reads no further must `return` it. */
export type ReadCompletions = (asked: Asked) => AsyncGenerator<Uint8Array>

const DEADLINE_MS = 60_000
/** Each holds the packed calls of one session for as long as its client takes. */
const MAX_READING = 32
const MAX_WAITING = 1_024

export function openCompletionsReader({ kernel, ledger, askGateway, render }: CompletionsSource): ReadCompletions {
  const turns = openTurns(MAX_READING, MAX_WAITING)

  async function fromLedger(session: SessionId): Promise<ArrayBuffer | null> {
    const answer = await kernel.ask<LedgerCommand, ArrayBuffer | null>(
      ledger,
      (ask) => ({ type: 'read-completions', session, ask }),
      DEADLINE_MS,
    )
    if (!answer.ok) throw new Error(`the ledger did not answer: ${answer.error}`)
    return answer.value
  }

  async function fromGateway(session: SessionId, gateway: GatewayId, from: number, limit: number): Promise<ArrayBuffer | null> {
    const answer = await askGateway<CompletionsReply>(
      gateway,
      (ask) => ({ type: 'read-completions', session, from, limit, ask }),
      DEADLINE_MS,
    )
    // A gateway that is lost took the session's calls along.
    if (!answer.ok && answer.error === 'stopped') return null
    if (!answer.ok) throw new Error(`the gateway ${gateway} did not answer: ${answer.error}`)
    switch (answer.value.type) {
      case 'packed':
        return answer.value.packed
      case 'none':
        return null
      case 'failed':
        throw new Error(answer.value.detail)
      default:
        return unreachable(answer.value)
    }
  }

  /** Of a session that is unknown, was lost or has not begun: nothing. */
  async function* readParts({ session, only, wish, readView }: Asked, view: SessionView | null): AsyncGenerator<RenderedPart> {
    const gateway = view?.gateway ?? null
    if (view === null || gateway === null || (only !== null && gateway !== only)) return
    const until = wish.limit === null ? Number.MAX_SAFE_INTEGER : wish.offset + wish.limit
    let hasEnded = view.summary !== null
    let packed = hasEnded ? await fromLedger(session) : null
    for (let from = wish.offset, held = from; ; ) {
      if (!hasEnded && from >= held) {
        packed = await fromGateway(session, gateway, from, until - from)
        if (packed === null) {
          const now = await readView()
          hasEnded = now.ok && now.value !== null && now.value.summary !== null
          packed = hasEnded ? await fromLedger(session) : null
        }
      }
      if (packed === null) return
      const part = await render(packed, from, until)
      packed = part.packed
      yield part
      if (part.next <= from || part.next >= Math.min(until, part.total)) return
      from = part.next
      held = part.until
    }
  }

  async function* write(asked: Asked): AsyncGenerator<Uint8Array> {
    const { session, only, wish } = asked
    const found = await asked.readView()
    if (!found.ok) throw new Error(`the session cannot be looked up: ${found.error}`)
    const failed: Uint8Array[] = []
    let next = wish.offset
    let total = 0
    let opening = `{"session_id":${JSON.stringify(session)},"completions":[`
    for await (const part of readParts(asked, found.value)) {
      ;({ next, total } = part)
      if (part.failed.byteLength > 0) failed.push(new Uint8Array(part.failed))
      if (part.answered.byteLength === 0) continue
      yield text(opening)
      yield new Uint8Array(part.answered)
      opening = ','
    }
    if (opening !== ',') yield text(opening)
    yield text(
      `],"node_id":${JSON.stringify(only ?? found.value?.gateway ?? null)},"polar_node":{"total":${total},"offset":${wish.offset},`,
    )
    yield text(`"next_offset":${next < total ? next : null},"failed":[`)
    for (const [at, list] of failed.entries()) {
      if (at > 0) yield text(',')
      yield list
    }
    yield text(']}}')
  }

  return async function* (asked) {
    if (!(await turns.enter())) throw new Error('too many are reading calls at once')
    try {
      yield* write(asked)
    } finally {
      turns.leave()
    }
  }
}

const text = (characters: string): Uint8Array => Buffer.from(characters)
