// Readers of calls: a bounded number hold what they read, the others have their turn when one is done, or is gone.
import { expect, it } from 'vitest'
import type { SessionView } from '../../src/actors/rollout-server/protocol.ts'
import { gatewayId, knownSessionId } from '../../src/contract/ids.ts'
import { type CompletionsSource, openCompletionsReader } from '../../src/http/kept-completions.ts'

const AT_ONCE = 32
const IN_LINE = 1_024

function openReaders() {
  let held = 0
  const source = {
    kernel: {
      async ask() {
        held += 1
        return { ok: true, value: new ArrayBuffer(1) }
      },
    },
    ledger: null,
    askGateway: null,
    render: async (packed: ArrayBuffer) => ({
      answered: new ArrayBuffer(1),
      failed: new ArrayBuffer(0),
      next: 1,
      until: 2,
      total: 2,
      packed,
    }),
  } as unknown as CompletionsSource
  const read = openCompletionsReader(source)
  const view = { gateway: gatewayId('g'), summary: {} } as unknown as SessionView
  const asked = {
    session: knownSessionId('s'),
    only: null,
    wish: { offset: 0, limit: null },
    readView: async () => ({ ok: true as const, value: view }),
  } as const
  return { held: () => held, open: () => read(asked) }
}

it('hold the calls of a bounded number of sessions; whoever is in line reads when another ends or leaves', async () => {
  const readers = openReaders()
  const reading = Array.from({ length: AT_ONCE }, readers.open)
  for (const reader of reading) await reader.next()
  const waiting = Array.from({ length: IN_LINE }, readers.open)
  const firsts = waiting.map((reader) => reader.next())
  await expect(readers.open().next()).rejects.toThrow('too many are reading calls at once')
  expect(readers.held()).toBe(AT_ONCE)
  // One has left, and one reads to its end.
  await reading[0]?.return(undefined)
  while ((await reading[1]?.next())?.done === false);
  await firsts[1]
  expect(readers.held()).toBe(AT_ONCE + 2)
  for (const reader of reading) await reader.return(undefined)
  for (const [at, first] of firsts.entries()) {
    expect((await first).done).toBe(false)
    await waiting[at]?.return(undefined)
  }
  expect(await readers.open().next()).toMatchObject({ done: false })
})
