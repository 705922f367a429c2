// A node for a while: the user's replicas and model profiles, but a data folder, ports and a token of its own, all gone when it closes.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import type { Config } from '../config.ts'
import { startNode } from '../main.ts'

type TemporaryNode = {
  readonly controlUrl: string
  readonly token: string
  /** Where its own engine listens; null when it has none. */
  readonly embeddedUrl: string | null
  /** Resolves with the reason when it can no longer do its work. */
  readonly failed: Promise<string>
  /** Ends its sessions and their processes, and removes its folder. Idempotent. */
  close(): Promise<void>
}

export type OpenedNode = { readonly ok: true; readonly node: TemporaryNode } | { readonly ok: false; readonly problem: string }

export type Changes = {
  /** The name to ask the engines for; null leaves it to the configuration. */
  readonly model: string | null
  /** Folders that tasks may upload from, beside those of the configuration. */
  readonly uploadRoots: readonly string[]
}

/** The problem says in the user's terms why it does not start; then nothing is left of it. */
export async function openTemporaryNode(config: Config, changes: Changes): Promise<OpenedNode> {
  const folder = await mkdtemp(join(tmpdir(), 'polar-doctor-'))
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true })
  const started = await startNode(temporary(config, folder, changes), pino({ level: 'silent' }))
  if (!started.ok) {
    await remove()
    return started
  }
  const { running } = started
  let closing: Promise<void> | null = null
  return {
    ok: true,
    node: {
      controlUrl: running.controlUrl,
      token: running.token,
      embeddedUrl: running.embedded?.url ?? null,
      failed: running.failed,
      close() {
        closing ??= running.close().finally(remove)
        return closing
      },
    },
  }
}

const LOOPBACK = '127.0.0.1'

/** What the node that is looked at has of the user's configuration. */
export function temporary(config: Config, folder: string, { model, uploadRoots }: Changes): Config {
  return {
    ...config,
    dataDir: join(folder, 'data'),
    control: { host: LOOPBACK, port: 0, publicUrl: null, tokenFile: join(folder, 'control-token') },
    nodes: config.nodes.map((node) => ({
      ...node,
      host: LOOPBACK,
      port: 0,
      publicUrl: null,
      modelServed: model ?? node.modelServed,
    })),
    uploadRoots: [...config.uploadRoots, ...uploadRoots],
    // On threads of their own the gateways write their log to this process's stderr, where the user looks for progress.
    topology: 'inline',
    // A session that fails is what the user wants to see, not what is to be tried again.
    maxAttempts: 1,
  }
}
