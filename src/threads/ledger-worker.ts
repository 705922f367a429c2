// The module a ledger thread runs.
import type { LedgerCommand } from '../actors/ledger/protocol.ts'
import type { Address } from '../kernel/address.ts'
import { openDrain } from '../kernel/drain.ts'
import { openEventLoop } from '../kernel/event-loop.ts'
import { serveThread } from '../kernel/thread-entry.ts'
import { type LedgerSetup, openLedgerThread } from './ledger.ts'

serveThread<LedgerSetup, Address<LedgerCommand>>({
  boot: async (setup, kernel) => openLedgerThread(kernel, setup),
  // Every command is answered in its own turn: there is nothing to wait for.
  drain: () => openDrain(openEventLoop(), []).run(),
})
