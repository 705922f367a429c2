// The ledger thread: the only writer of durable state, away from every loop that must not wait for it.
import { memoryLedger } from '../actors/ledger/actor.ts'
import type { LedgerCommand } from '../actors/ledger/protocol.ts'
import type { LedgerLimits } from '../actors/ledger/state.ts'
import type { Address } from '../kernel/address.ts'
import type { Kernel } from '../kernel/kernel.ts'

export type LedgerSetup = { readonly limits: LedgerLimits }

export function openLedgerThread(kernel: Kernel, setup: LedgerSetup): Address<LedgerCommand> {
  return kernel.spawn(memoryLedger(setup.limits))
}
