// The weights an engine serves, and how they are replaced under a new version without a generation of two versions.
import { basename } from 'node:path'
import type { Batch } from '../serve/batch.ts'
import type { LoadedModel, LoadResult, ModelFile } from './model.ts'

/** A label may be changed, for answers that begin then; the weights it names may not. */
export type Weights = { readonly model: LoadedModel; version: string }

export type Loaded = { readonly ok: true; readonly version: string } | { readonly ok: false; readonly error: string }

export type WeightDesk = {
  /** Null before the first load and after closing. */
  current(): Weights | null
  /**
   * Reads the file beside the weights that serve, so a bad file changes nothing and both must fit into memory. Then lets
   * running generations end (`wait`) or ends them with what they have (`abort`); frozen ones are always ended, as their state
   * is of the old weights. Loads come one after another.
   */
  load(modelPath: string, version: string | null, running: 'wait' | 'abort'): Promise<Loaded>
  close(): Promise<void>
}

export type OpenModel = (file: ModelFile) => Promise<LoadResult>

const CLOSED: Loaded = { ok: false, error: 'the engine has been closed' }

export function openWeightDesk(open: OpenModel, file: Omit<ModelFile, 'path'>, batch: Batch): WeightDesk {
  let current: Weights | null = null
  let isClosed = false
  let loads = 0
  let last: Promise<unknown> = Promise.resolve()

  const replace = async (path: string, version: string | null, running: 'wait' | 'abort'): Promise<Loaded> => {
    if (isClosed) return CLOSED
    // Sessions count on the context they began with; chosen anew beside these weights it would be shorter.
    const contextTokens = file.contextTokens ?? current?.model.facts.contextTokens ?? null
    const loaded = await open({ ...file, path, contextTokens })
    if (!loaded.ok) return loaded
    if (isClosed) {
      await loaded.model.close()
      return CLOSED
    }
    loads += 1
    // Without a name of its own it must not pass for the weights before it.
    const next: Weights = { model: loaded.model, version: version ?? `${basename(path, '.gguf')}#${loads}` }
    const reopen = await batch.empty(running)
    const before = current
    current = next
    try {
      await before?.model.close()
    } finally {
      reopen()
    }
    return { ok: true, version: next.version }
  }

  return {
    current: () => current,
    load(modelPath, version, running) {
      const load = last.then(() => replace(modelPath, version, running))
      last = load.catch(() => {})
      return load
    },
    async close() {
      isClosed = true
      await last
      const closed = current
      current = null
      await closed?.model.close()
    },
  }
}
