// The control thread's actors put together: sandbox host, callback outbox, rollout server.
import { callbackOutbox } from '../actors/callback/actor.ts'
import type { CallbackCommand } from '../actors/callback/protocol.ts'
import type { CallbackLimits } from '../actors/callback/state.ts'
import type { CallbackTransport } from '../actors/callback/transport.ts'
import type { LedgerCommand } from '../actors/ledger/protocol.ts'
import { rolloutServer } from '../actors/rollout-server/actor.ts'
import type { ServerLimits } from '../actors/rollout-server/entries.ts'
import type { NodeEvent, RolloutServerCommand } from '../actors/rollout-server/protocol.ts'
import { sandboxHost } from '../actors/sandbox/actor.ts'
import type { SandboxCommand } from '../actors/sandbox/protocol.ts'
import type { RenderedPart } from '../http/kept-completions.ts'
import { type KeptResults, openKeptResults } from '../http/kept-results.ts'
import { deliveryRenderer, openResultReader, type ReadResult } from '../http/task-result.ts'
import type { Address } from '../kernel/address.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { openKeptLogs } from '../runtime/kept-logs.ts'
import { readTail } from '../runtime/output-file.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { CpuPool } from '../tasks/pool.ts'
import type { TaskInput, TaskName, TaskOutput } from '../tasks/protocol.ts'
import { emptyResult } from '../trajectory/result.ts'

export type ControlSetup = {
  readonly server: ServerLimits
  readonly callback: CallbackLimits
  /** Where the output of ended agents is kept, and of how many attempts; null: nowhere. */
  readonly logs: { readonly folder: string; readonly max: number } | null
  readonly tailBytes: number
  /** For rendering one result as JSON. */
  readonly renderMs: number
}

export type ControlOutside = {
  readonly runtimes: ReadonlyMap<string, Runtime>
  /** How the sandbox host reads the end of an agent's output; absent: from this host's files. Simulated processes leave none. */
  readonly readTail?: typeof readTail
  readonly cpu: CpuPool
  readonly transport: CallbackTransport
  readonly publish: (event: NodeEvent) => void
  readonly log: (event: string, detail: Readonly<Record<string, unknown>>) => void
}

export type ControlActors = {
  readonly rolloutServer: Address<RolloutServerCommand>
  readonly callback: Address<CallbackCommand>
  readonly sandboxes: Address<SandboxCommand>
  readonly readResult: ReadResult
  readonly results: KeptResults
  /** Packed calls as JSON: those from a sequence number up to but not including another, and fewer when they are large. */
  readonly renderCompletions: (packed: ArrayBuffer, from: number, until: number) => Promise<RenderedPart>
}

/** Of one part of a list of calls in memory; a record by itself may have more. */
const PART_BYTES = 4 * 2 ** 20

export function openControlActors(
  kernel: Kernel,
  setup: ControlSetup,
  ledger: Address<LedgerCommand>,
  outside: ControlOutside,
): ControlActors {
  /** On the CPU pool; what is packed moves there. */
  async function render<K extends TaskName>(name: K, input: TaskInput<K>, packed: ArrayBuffer): Promise<TaskOutput<K>> {
    const rendered = await outside.cpu.run(name, input, { timeoutMs: setup.renderMs, transfer: [packed] })
    if (!rendered.ok) throw new Error(`${rendered.error}: ${rendered.detail}`)
    return rendered.value
  }
  const readResult = openResultReader({
    kernel,
    ledger,
    renderResult: async (payload, results) => new Uint8Array((await render('renderSession', { payload, results }, payload)).bytes),
  })
  const results = openKeptResults({
    kernel,
    ledger,
    async render(payload, form, page) {
      const rendered =
        page === null
          ? await render('renderResult', { payload, form }, payload)
          : await render('renderTraces', { payload, form, wish: page }, payload)
      return new Uint8Array(rendered.bytes)
    },
  })
  const sandboxes = kernel.spawn(
    sandboxHost({
      runtimes: outside.runtimes,
      logs: setup.logs === null ? null : openKeptLogs(setup.logs.folder, setup.logs.max),
      tailBytes: setup.tailBytes,
      readTail: outside.readTail ?? readTail,
    }),
  )
  let server: Address<RolloutServerCommand> | null = null
  const callback = kernel.spawn(
    callbackOutbox({
      limits: setup.callback,
      transport: outside.transport,
      render: deliveryRenderer(readResult),
      ledger,
      rolloutServer() {
        if (server === null) throw new Error('the outbox delivered before there was a rollout server')
        return server
      },
      report: (letter) => outside.log('dead-letter', letter),
    }),
  )
  server = kernel.spawn(
    rolloutServer({
      limits: setup.server,
      ledger,
      callback,
      emptyResult,
      publish: outside.publish,
      report: (detail) => outside.log('rollout-server', { detail }),
    }),
  )
  return {
    rolloutServer: server,
    callback,
    sandboxes,
    readResult,
    results,
    renderCompletions: (packed, from, until) =>
      render('renderCompletions', { packed, wish: { from, until, maxBytes: PART_BYTES } }, packed),
  }
}
