// Builders by name: the two that are built in, and the operator's own modules.
import { pathToFileURL } from 'node:url'
import type { Builder } from './builder.ts'
import { buildPerRequest } from './per-request.ts'
import { buildPrefixMerging } from './prefix-merging.ts'

export type FoundBuilder = { readonly ok: true; readonly builder: Builder } | { readonly ok: false; readonly error: string }

/** Names and module paths from the operator's configuration; a request can only choose among the names. */
export type CustomBuilders = Readonly<Record<string, string>>

/**
 * Finds a builder. A custom module exports a function `build` of type Builder; it is loaded here, so call this only where a throwing or
 * endless module can be thrown away with its thread.
 */
export async function findBuilder(strategy: string, customs: CustomBuilders): Promise<FoundBuilder> {
  if (strategy === 'per_request') return { ok: true, builder: buildPerRequest }
  if (strategy === 'prefix_merging') return { ok: true, builder: buildPrefixMerging }
  const path = Object.hasOwn(customs, strategy) ? customs[strategy] : undefined
  if (path === undefined) return { ok: false, error: `builder.strategy: '${strategy}' is unknown` }
  try {
    const module: { readonly build?: unknown } = await import(pathToFileURL(path).href)
    if (!isBuilder(module.build)) return { ok: false, error: `builder ${strategy}: ${path} exports no function named build` }
    return { ok: true, builder: module.build }
  } catch (error) {
    return { ok: false, error: `builder ${strategy}: ${path} does not load: ${error instanceof Error ? error.message : String(error)}` }
  }
}

/** A function is all that can be told before it runs; its output is checked by `invariants`. */
function isBuilder(value: unknown): value is Builder {
  return typeof value === 'function'
}
